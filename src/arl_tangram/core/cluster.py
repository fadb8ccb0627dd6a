"""All scheduling state: nodes, actions, environments and who waits for what."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field

from .commands import Command, Resolve
from .entries import Entry, EnvironmentEntry
from .model import (
    ActionId,
    Bundle,
    EnvironmentId,
    NodeId,
    Outcome,
    Seconds,
    TaskId,
)
from .phases import EnvironmentPhase, Phase, check_environment_step, check_step
from .pools.node import NodePool
from .queue import Queue
from .wording import all_wanted, wanted


@dataclass(slots=True, eq=False)
class NodeState:
    """One node: its books, its queue, and what runs on it.

    Attributes:
        resizable: running attempts whose units may change.
        surplus: units that those hold above their least, by resource.
        owned: what environments hold here for life.
        opening: environments being opened now.
        to_open: placed environments that wait for their turn.
        reserved_for: the environment that is served next here; others must wait.
    """

    id: NodeId
    pool: NodePool
    queue: Queue[Entry] = field(default_factory=Queue)
    running: dict[ActionId, Entry] = field(default_factory=dict)
    resizable: dict[ActionId, Entry] = field(default_factory=dict)
    surplus: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    environments: dict[EnvironmentId, EnvironmentEntry] = field(default_factory=dict)
    owned: dict[str, int] = field(default_factory=dict)
    opening: int = 0
    to_open: deque[EnvironmentEntry] = field(default_factory=deque)
    reserved_for: EnvironmentEntry | None = None

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
        self.anywhere: Queue[Entry] = Queue()
        self.unplaced: Queue[EnvironmentEntry] = Queue()
        self.held: dict[TaskId, int] = defaultdict(int)
        self.placed: dict[TaskId, int] = defaultdict(int)
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
        queue = self.anywhere
        if (environment := self._environment_of(entry)) is not None:
            if environment.phase is not EnvironmentPhase.OPEN or environment.node is None:
                environment.waiting[entry.id] = entry
                return
            environment.queued[entry.id] = entry
            entry.bound_to = environment.node
            queue = self.nodes[environment.node].queue
            self.dirty[environment.node] = None
        if first:
            queue.add_first(entry)
        else:
            queue.add(entry)

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
        environment = self._environment_of(entry)
        if environment is not None and environment.waiting.pop(entry.id, None) is not None:
            return
        if environment is not None:
            del environment.queued[entry.id]
        (self.nodes[entry.bound_to].queue if entry.bound_to else self.anywhere).remove(entry)

    def seat(self, entry: Entry, node: NodeState) -> None:
        """Write a fresh lease's attempt into the indexes of its node."""
        node.running[entry.id] = entry
        self.held[entry.task] += entry.weight
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
            self.dirty[lease.node] = None
        self.held[entry.task] -= entry.weight
        if not self.held[entry.task]:
            del self.held[entry.task]
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

    def why_never(self, *bundles: Bundle, on: NodeId | None = None) -> str:
        """Why these amounts together fit on no node there is, or not on the one it must be on.

        Empty if some node could hold them.
        """
        total: dict[str, int] = {}
        for bundle in bundles:
            for name, amount in bundle.items():
                total[name] = total.get(name, 0) + amount
        nodes = list(self.nodes.values()) if on is None else [self.nodes[on]]
        if not nodes or any(n.pool.could_ever_fit(total) for n in nodes):
            return ""
        where = "the largest node" if on is None else f"its environment is on {on}, which"
        for name, amount in total.items():
            most = max(node.pool.capacity.get(name, 0) for node in nodes)
            if amount > most:
                return f"it needs {wanted(name, amount)}, and {where} has {wanted(name, most)}"
        return f"it needs {all_wanted(total)} together, and no single node has all of it"

    def _environment_of(self, entry: Entry) -> EnvironmentEntry | None:
        environment = entry.action.environment
        return None if environment is None else self.environments.get(environment)
