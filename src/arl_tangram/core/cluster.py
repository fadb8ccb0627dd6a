"""All scheduling state: nodes, actions, environments and who waits for what."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .commands import Command, Resolve
from .entries import Entry, EnvironmentEntry
from .lines import Lines
from .model import (
    MEMORY,
    MILLI,
    ActionId,
    Bundle,
    EnvironmentId,
    InstanceId,
    NodeId,
    Outcome,
    Seconds,
)
from .phases import EnvironmentPhase, Phase, check_environment_step, check_step
from .pools.draft import Draft
from .pools.gpu import Cell
from .pools.node import NodePool
from .pools.quota import NEVER, QuotaPool
from .queue import Queue
from .serving.instances import HostCopy, Instance
from .serving.services import ServiceState
from .shares import Shares, Standing


@dataclass(slots=True, eq=False)
class NodeState:
    """One node: its books, its queue, and what runs on it.

    Attributes:
        resizable: running attempts whose units may change.
        surplus: units that those hold above their least, by resource.
        owned: what environments, and copies of pinned services, hold here for life.
        opening: environments being opened now.
        to_open: placed environments that wait for their turn.
        reserved_for: the environment that is served next here; others must wait.
        restoring: devices on which an instance is being restored.
        copies: what services are restored from here, the least recently used first.
        kept: amounts that nobody but those who wait for devices here may take.
    """

    id: NodeId
    pool: NodePool
    queue: Lines = field(default_factory=Lines)
    running: dict[ActionId, Entry] = field(default_factory=dict)
    resizable: dict[ActionId, Entry] = field(default_factory=dict)
    surplus: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    environments: dict[EnvironmentId, EnvironmentEntry] = field(default_factory=dict)
    owned: dict[str, int] = field(default_factory=dict)
    opening: int = 0
    to_open: deque[EnvironmentEntry] = field(default_factory=deque)
    reserved_for: EnvironmentEntry | None = None
    restoring: int = 0
    copies: list[HostCopy] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def keep(self, needs: Bundle, *, sign: int = 1) -> None:
        """Keep so much more for those who wait for devices here; less with a sign of -1."""
        for name, amount in needs.items():
            self.kept[name] += sign * amount
            if not self.kept[name]:
                del self.kept[name]

    def own(self, bundle: Bundle, sign: int) -> None:
        """An environment takes (1) or gives back (-1) what it holds for life."""
        for name, amount in bundle.items():
            self.owned[name] = self.owned.get(name, 0) + sign * amount

    def could_host(self, bundle: Bundle) -> bool:
        """Whether an action would fit if no other ran, beside the environments there are."""
        capacity, owned = self.pool.capacity, self.owned
        return all(
            amount <= capacity.get(name, 0) - owned.get(name, 0) for name, amount in bundle.items()
        )


class Cluster:
    """The state that the kernel owns, and the steps that keep its indexes in agreement."""

    def __init__(self, *, remembered: int) -> None:
        self._remembered = remembered
        self.now: Seconds = float("-inf")
        self.nodes: dict[NodeId, NodeState] = {}
        self.entries: dict[ActionId, Entry] = {}
        self.environments: dict[EnvironmentId, EnvironmentEntry] = {}
        self.anywhere = Lines()
        self.quotas: dict[str, QuotaPool] = {}
        self.spared: dict[str, Entry] = {}  # for whom tokens of a quota are left, by its resource
        self.services: dict[str, ServiceState] = {}
        self.instances: dict[InstanceId, Instance] = {}
        self.stirred: dict[str, None] = {}
        self.yielded: dict[str, None] = {}  # services with calls that let others take tokens first
        self.idled: list[Instance] = []
        self.moves = 0  # how often an instance has come or gone
        self.memory_changed = False  # of a host, by copies of services
        self.memory_freed = False
        self.unplaced: Queue[EnvironmentEntry] = Queue()
        self.shares = Shares()  # of what nodes have
        self.answering = Shares()  # of all instances that come and go
        self.placed = Shares()  # of what environments own
        self.ended: OrderedDict[ActionId, Outcome] = OrderedDict()
        self.gone: OrderedDict[EnvironmentId, tuple[Outcome, str]] = OrderedDict()
        self.dirty: dict[NodeId, None] = {}
        self.out: list[Command] = []
        self._numbers = 0

    def number(self) -> int:
        """The next place in the order of arrival."""
        self._numbers += 1
        return self._numbers

    def step(self, entry: Entry, phase: Phase) -> None:
        """Let an action go to its next phase."""
        check_step(entry.phase, phase, of=entry.id)
        entry.phase = phase

    def step_environment(self, entry: EnvironmentEntry, phase: EnvironmentPhase) -> None:
        """Let an environment go to its next phase."""
        check_environment_step(entry.phase, phase, of=entry.id)
        entry.phase = phase

    def enqueue(self, entry: Entry, *, first: bool = False) -> None:
        """Let an action wait for a node: its environment's, or any."""
        for name in entry.quotas:
            self.quotas[name].expect(entry.least[name])
        if (service := self.service_of(entry)) is not None:
            service.add(entry, first=first)
            self.stirred[service.name] = None
            return
        queue = self.anywhere
        if (environment := self._environment_of(entry)) is not None:
            if environment.phase is not EnvironmentPhase.OPEN or environment.node is None:
                environment.waiting[entry.id] = entry
                return
            environment.queued[entry.id] = entry
            entry.bound_to = environment.node
            queue = self.nodes[environment.node].queue
            self.dirty[environment.node] = None
        queue.add(entry, first=first)

    def bind(self, entry: Entry, node: NodeState) -> None:
        """Let an action that could run anywhere wait on this node only."""
        self.anywhere.remove(entry)
        entry.bound_to = node.id
        node.queue.add(entry)

    def unbind(self, entry: Entry, node: NodeState) -> None:
        """Let an action that waits on this node go to any again, before the others of its task."""
        node.queue.remove(entry)
        entry.bound_to = None
        self.enqueue(entry, first=True)
        self.dirty.update(dict.fromkeys(self.nodes))

    def dequeue(self, entry: Entry) -> None:
        """Take a waiting action out of wherever it waits."""
        for name in entry.quotas:
            if self.spared.get(name) is entry:
                del self.spared[name]
                self.quota_changed(name)
        if (service := self.service_of(entry)) is not None:
            service.remove(entry)
            return
        environment = self._environment_of(entry)
        if environment is not None and environment.waiting.pop(entry.id, None) is not None:
            return
        if environment is not None:
            del environment.queued[entry.id]
        (self.nodes[entry.bound_to].queue if entry.bound_to else self.anywhere).remove(entry)

    def seat(self, entry: Entry, node: NodeState) -> None:
        """Write a fresh lease's attempt into the indexes of its node."""
        node.running[entry.id] = entry
        for shares, weight in self.shares_of(entry):
            shares.take(entry.task, weight)
        if (environment := self._environment_of(entry)) is not None:
            environment.running[entry.id] = entry
        elastic = entry.action.elastic
        if elastic is not None and elastic.resizable:
            node.resizable[entry.id] = entry
            node.surplus[elastic.resource] += entry.units - elastic.least

    def pin(self, entry: Entry, node: NodeState) -> None:
        """Let an attempt's units no longer change: it is about to end."""
        if node.resizable.pop(entry.id, None) is not None and entry.action.elastic is not None:
            elastic = entry.action.elastic
            node.surplus[elastic.resource] -= entry.units - elastic.least

    def release(self, entry: Entry) -> None:
        """Give back what an attempt holds, and take it out of the indexes."""
        lease = entry.lease
        assert lease is not None  # only what runs is released
        if (node := self.nodes.get(lease.node)) is not None:
            self.pin(entry, node)
            del node.running[entry.id]
            node.pool.give_back(lease.grant)
            self.memory_freed = self.memory_freed or MEMORY in lease.grant.amounts
            self.dirty[lease.node] = None
        if lease.instance is not None and lease.instance in self.instances:
            instance = self.instances[lease.instance]
            del instance.calls[entry.id]
            instance.used_at = self.now
            self.idled.append(instance)
            self.stirred[instance.service] = None
        for name in entry.quotas:
            self.quotas[name].give_back(entry.least[name])
            self.quota_changed(name)
        for shares, weight in self.shares_of(entry):
            shares.give_back(entry.task, weight)
        if (environment := self._environment_of(entry)) is not None:
            del environment.running[entry.id]
        entry.lease = None
        entry.units = 0

    def resolve(self, entry: Entry, outcome: Outcome, reason: str = "") -> None:
        """End an action for good and forget all but its outcome."""
        self.step(entry, Phase.DONE)
        del self.entries[entry.id]
        self.ended[entry.id] = outcome
        if len(self.ended) > self._remembered:
            self.ended.popitem(last=False)
        self.out.append(Resolve(entry.id, outcome, reason))

    def remember_environment(self, entry: EnvironmentEntry, outcome: Outcome, reason: str) -> None:
        """Forget a closed environment but for why it is gone."""
        del self.environments[entry.id]
        self.gone.setdefault(entry.id, (outcome, reason))
        if len(self.gone) > self._remembered:
            self.gone.popitem(last=False)

    def next_tokens(self) -> Seconds:
        """When the next quota has tokens for somebody who waits for it."""
        if not self.quotas:
            return NEVER
        lines = [self.anywhere, *(node.queue for node in self.nodes.values())]
        lines += [service.lines for service in self.services.values()]
        wanted = {need for line in lines for need in line.wanted}
        times = (self.quotas[name].next_change(self.now, tokens) for name, tokens in wanted)
        return min((at for at in times if at > self.now), default=NEVER)

    def draft(self, node: NodeState) -> Draft:
        """A scratch copy of what is free on a node, and of every quota.

        Tokens that are left for somebody who does not wait for this node are not in it.
        """
        draft = node.pool.draft()
        for name, quota in self.quotas.items():
            tokens = quota.available(self.now)
            first = self._first_for(name)
            if first is not None and (first.served_by or first.bound_to not in {None, node.id}):
                tokens = max(tokens - first.least[name], 0)
            draft.counts[name] = tokens
        return draft

    def service_of(self, entry: Entry) -> ServiceState | None:
        """The service that an action is a call to."""
        return None if entry.served_by is None else self.services[entry.served_by]

    def copy_of(self, state: ServiceState, node: NodeState, cell: Cell) -> HostCopy | None:
        """What an instance on this cell would be restored from; None if nothing is there."""
        if state.bare:
            return None
        for copy in node.copies:
            if copy.service == state.name and not copy.leaving and copy.cell in {None, cell}:
                return copy
        return None

    def has_tokens(self, quota: str) -> bool:
        """Whether a quota has any token now."""
        return self.quotas[quota].available(self.now) > 0

    def has_all_tokens(self, entry: Entry) -> bool:
        """Whether all the tokens that an action needs are there now, and not left for another."""
        return not any(self._short_of(entry, name) for name in entry.quotas)

    def _short_of(self, entry: Entry, quota: str) -> bool:
        needed = entry.least[quota]
        first = self._first_for(quota)
        if first is not None and first is not entry and first.priority >= entry.priority:
            needed += first.least[quota]
        return self.quotas[quota].available(self.now) < needed

    def before(self, entry: Entry) -> Iterator[Entry]:
        """Actions that are no calls, need tokens of the same quotas, and are to be served first."""
        for lines in (self.anywhere, *(node.queue for node in self.nodes.values())):
            for line in lines.needing(entry.quotas):
                first = next(Queue.served([line], self.standing))
                both = [self.quotas[name] for name in first.quotas if name in entry.quotas]
                if _rank(first, both) < _rank(entry, both):
                    yield first

    def fits(self, entry: Entry) -> bool:
        """Whether what an action needs of its node, or of any, is free there."""
        nodes = self.nodes.values() if entry.bound_to is None else [self.nodes[entry.bound_to]]
        return any(node.pool.draft().take(entry.own) for node in nodes)

    def standing(self, entry: Entry) -> Standing:
        """Where its task stands at what an action waits for: a service, a node, or only tokens."""
        if (service := self.service_of(entry)) is not None:
            return service.shares.standing(entry.task)
        if entry.own or not entry.quotas:
            return self.shares.standing(entry.task)
        return max(self.quotas[name].shares.standing(entry.task) for name in entry.quotas)

    def homing(self, entry: EnvironmentEntry) -> Standing:
        """Where its task stands among those whose environments wait for a place."""
        return self.placed.standing(entry.task)

    def shares_of(self, entry: Entry) -> Iterator[tuple[Shares, int]]:
        """All that an action has a share of while it runs, and what it counts for there."""
        service = self.service_of(entry)
        if entry.own or not (entry.quotas or service):
            yield self.shares, entry.weight
        if service is not None:
            yield service.shares, entry.weight
            if not service.pinned:  # what it has nobody else could have
                yield self.answering, entry.weight
        for name in entry.quotas:
            yield self.quotas[name].shares, entry.least[name] * MILLI

    def spare_tokens(self, entry: Entry) -> bool:
        """Leave tokens for one that needs more at once than there are, so that none are spent.

        One at a time for each quota; whether it is that one for any.
        """
        for name in self._scarce(entry):
            self.spared.setdefault(name, entry)
        return any(self.spared.get(name) is entry for name in entry.quotas)

    def _first_for(self, quota: str) -> Entry | None:
        """For whom tokens are left; nobody while what else that one needs is not there."""
        first = self.spared.get(quota)
        return first if first is not None and self.fits(first) else None

    def is_outbid(self, entry: Entry) -> bool:
        """Whether there are tokens, and enough for others who need fewer of them at once."""
        return bool(self._scarce(entry))

    def _scarce(self, entry: Entry) -> list[str]:
        now, needs = self.now, entry.least
        return [q for q in entry.quotas if 0 < self.quotas[q].available(now) < needs[q]]

    def quota_changed(self, quota: str) -> None:
        """Let every node and service look again at which somebody waits for this quota."""
        if not self.has_tokens(quota):
            return
        for service in self.services.values():
            if any(quota == name for name, _ in service.lines.wanted):
                self.stirred[service.name] = None
        if any(quota == name for name, _ in self.anywhere.wanted):
            self.dirty.update(dict.fromkeys(self.nodes))
            return
        for node in self.nodes.values():
            if any(quota == name for name, _ in node.queue.wanted):
                self.dirty[node.id] = None

    def _environment_of(self, entry: Entry) -> EnvironmentEntry | None:
        environment = entry.action.environment
        return None if environment is None else self.environments.get(environment)


def _rank(entry: Entry, quotas: Sequence[QuotaPool]) -> tuple[int, Standing, int]:
    """The place of an action among those that need tokens of these quotas."""
    standing = max(quota.shares.standing(entry.task) for quota in quotas)
    return -entry.priority, standing, entry.number
