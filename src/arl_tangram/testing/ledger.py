"""Who holds what, told from events and commands alone: the account that a kernel is held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from ..core.commands import (
    CloseEnvironment,
    Command,
    EvictService,
    OpenEnvironment,
    Resize,
    Resolve,
    ResolveEnvironment,
    RestoreService,
    Start,
    Stop,
    WakeAt,
)
from ..core.events import (
    ActionExited,
    ActionSubmitted,
    CancelRequested,
    CloseRequested,
    EnvironmentClosed,
    EnvironmentFailed,
    EnvironmentOpened,
    EnvironmentRequested,
    Event,
    InstanceFailed,
    NodeJoined,
    NodeLost,
    QuotaDeclared,
    QuotaThrottled,
    ServiceDeclared,
    ServiceEvicted,
    ServiceRestored,
    Woke,
)
from ..core.model import (
    API,
    CPU,
    GPU,
    MEMORY,
    MILLI,
    Action,
    ActionId,
    Bundle,
    Environment,
    EnvironmentId,
    Lease,
    Node,
    NodeId,
    Outcome,
    Seconds,
)
from ..core.phases import Phase
from .instance_ledger import InstanceLedger
from .quota_ledger import QuotaLedger


@dataclass(slots=True, eq=False)
class Place:
    """An environment as its commands tell it: ``wanted``, ``opening``, ``open``, ``closing``, ``gone``."""

    environment: Environment
    state: str = "wanted"
    attempt: int = 0
    node: NodeId | None = None
    cores: tuple[int, ...] = ()
    close_sent: bool = False
    resolved: Outcome | None = None


@dataclass(slots=True, eq=False)
class Ledger:
    """Follows a kernel from outside, and raises `AssertionError` at the first broken promise.

    It keeps no queue and knows no policy. What it knows: no core, memory or count is ever held
    twice, not even between two commands; attempts count up by one; an id is resolved at most
    once; nothing starts in an environment that is not open; the ramp has a limit.
    """

    opening_limit: int
    now: Seconds = 0.0
    nodes: dict[NodeId, Node] = field(default_factory=dict)
    actions: dict[ActionId, Action] = field(default_factory=dict)
    places: dict[EnvironmentId, Place] = field(default_factory=dict)
    leases: dict[ActionId, Lease] = field(default_factory=dict)
    stopped: set[ActionId] = field(default_factory=set)
    attempts: Counter[ActionId] = field(default_factory=Counter)
    resolved: dict[ActionId, Outcome] = field(default_factory=dict)
    reasons: dict[ActionId, str] = field(default_factory=dict)
    wake_at: Seconds | None = None
    instances: InstanceLedger = field(default_factory=InstanceLedger)
    quotas: QuotaLedger = field(default_factory=QuotaLedger)

    def follow(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in one event and what the kernel made of it, in order."""
        self.now = event.at
        self._happened(event)
        for command in commands:
            self._ordered(command)
            for node in self.nodes.values():
                self._conserved(node)

    def phase_of(self, action: ActionId) -> Phase:
        """Where an action must be."""
        if action in self.resolved:
            return Phase.DONE
        if action not in self.leases:
            return Phase.QUEUED
        return Phase.STOPPING if action in self.stopped else Phase.RUNNING

    def unresolved(self) -> list[ActionId]:
        """Those submitted that have not ended."""
        return [action for action in self.actions if action not in self.resolved]

    # -- facts -------------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        match event:
            case NodeJoined(node=node):
                self.nodes[node.id] = node
            case NodeLost(node=node_id):
                self._lose(node_id)
            case EnvironmentRequested(environment=environment):
                self.places.setdefault(environment.id, Place(environment))
            case EnvironmentOpened(environment=environment_id, attempt=attempt):
                place = self.places.get(environment_id)
                if place and place.state == "opening" and place.attempt == attempt:
                    place.state = "open"
            case EnvironmentFailed(environment=environment_id, attempt=attempt):
                place = self.places.get(environment_id)
                if place and place.attempt == attempt:
                    self._failed(place)
            case CloseRequested(environment=environment_id):
                place = self.places.get(environment_id)
                if place and place.state == "wanted":
                    place.state = "gone"
                elif place and place.state in {"opening", "open"}:
                    place.state = "closing"
            case EnvironmentClosed(environment=environment_id):
                place = self.places.get(environment_id)
                if place and place.state == "closing":
                    self._vacate(place, "gone")
            case ActionSubmitted(action=action):
                self.actions.setdefault(action.id, action)
            case ActionExited(action=action_id, attempt=attempt):
                lease = self.leases.get(action_id)
                if lease is not None and lease.attempt == attempt:
                    self._release(action_id)
            case ServiceDeclared(service=service):
                self.instances.services[service.name] = service
            case ServiceRestored(instance=instance):
                self.instances.restored(instance)
            case ServiceEvicted(instance=instance):
                self.instances.evicted(instance)
            case InstanceFailed(instance=instance):
                self.instances.failed(instance)
            case QuotaDeclared(quota=quota):
                self.quotas.declared(quota)
            case QuotaThrottled(quota=name, retry_after_s=retry_after_s):
                self.quotas.throttled(name, event.at + retry_after_s)
            case CancelRequested() | Woke():
                pass
            case _:
                assert_never(event)

    def _lose(self, node_id: NodeId) -> None:
        self.nodes.pop(node_id, None)
        self.instances.lose(node_id)
        for action, lease in list(self.leases.items()):
            if lease.node == node_id:
                self._release(action)
        for place in self.places.values():
            if place.node == node_id:
                self._vacate(place, "wanted" if place.state == "opening" else "gone")

    def _failed(self, place: Place) -> None:
        if place.state == "opening":
            self._vacate(place, "wanted")
        elif place.state == "open":
            place.state = "closing"

    def _vacate(self, place: Place, state: str) -> None:
        place.state, place.node, place.cores = state, None, ()

    def _release(self, action: ActionId) -> None:
        del self.leases[action]
        self.instances.left(action)
        self.quotas.ended(self.actions[action], self.now)
        self.stopped.discard(action)

    # -- orders ------------------------------------------------------------------------------

    def _ordered(self, command: Command) -> None:
        match command:
            case Start(lease=lease):
                self._start(lease)
            case Resize(lease=lease):
                self._resize(lease)
            case Stop(lease=lease):
                assert self.leases[lease.action] == lease, f"stops another lease: {lease}"
                assert lease.action not in self.stopped, f"stopped twice: {lease}"
                self.stopped.add(lease.action)
            case Resolve(action=action, outcome=outcome, reason=reason):
                assert action in self.actions, f"never submitted: {action}"
                assert action not in self.resolved, f"resolved twice: {action}"
                assert action not in self.leases, f"resolved while it holds a lease: {action}"
                self.resolved[action] = outcome
                self.reasons[action] = reason
            case OpenEnvironment():
                self._open(command)
            case CloseEnvironment(environment=environment_id, node=node_id):
                place = self.places[environment_id]
                assert place.state == "closing", f"closes what is {place.state}"
                assert place.node == node_id, f"{environment_id} is not on {node_id}"
                assert not place.close_sent, f"closed twice: {environment_id}"
                assert not list(self._leases_in(environment_id)), "closed under a running action"
                place.close_sent = True
            case ResolveEnvironment(environment=environment_id, outcome=outcome):
                place = self.places[environment_id]
                assert place.resolved is None, f"resolved twice: {environment_id}"
                assert place.state != "opening", f"resolved while it opens: {environment_id}"
                place.resolved = outcome
                if place.state == "wanted":
                    place.state = "gone"
            case RestoreService(node=node_id):
                self.instances.restore(command, self.nodes[node_id])
            case EvictService():
                self.instances.evict(command)
            case WakeAt(at=at):
                assert at > self.now, f"asks to be woken in the past: {at} <= {self.now}"
                self.wake_at = at
            case _:
                assert_never(command)

    def _start(self, lease: Lease) -> None:
        action = self.actions[lease.action]
        assert action.id not in self.leases, f"runs twice: {lease}"
        assert action.id not in self.resolved, f"starts after its end: {lease}"
        self.attempts[action.id] += 1
        assert lease.attempt == self.attempts[action.id], f"attempts skip: {lease}"
        assert lease.attempt <= action.max_attempts, f"too many attempts: {lease}"
        assert lease.environment == action.environment, f"in another environment: {lease}"
        if action.environment is not None:
            place = self.places[action.environment]
            assert place.state == "open", f"starts in an environment that is {place.state}"
            assert place.node == lease.node, f"on another node than its environment: {lease}"
        self._hold(action, lease)
        self.instances.call(action, lease)
        self.quotas.started(action, self.now)

    def _resize(self, lease: Lease) -> None:
        action, before = self.actions[lease.action], self.leases[lease.action]
        assert action.elastic is not None, f"a rigid action is resized: {lease}"
        assert action.elastic.resizable, f"may not be resized: {lease}"
        assert action.id not in self.stopped, f"resized after its stop: {lease}"
        assert (before.attempt, before.node) == (lease.attempt, lease.node), "not the same attempt"
        assert before.grant.units != lease.grant.units, f"resized to what it had: {lease}"
        self._hold(action, lease)

    def _hold(self, action: Action, lease: Lease) -> None:
        grant = lease.grant
        if action.elastic is None:
            if action.service is None:
                assert grant.units == 0, f"a rigid action has units: {lease}"
            expected = dict(action.needs)
        else:
            assert grant.units in action.elastic.units, f"units not allowed: {lease}"
            name = action.elastic.resource
            size = MILLI if name == CPU else 1
            expected = {**action.needs, name: action.needs.get(name, 0) + grant.units * size}
        assert dict(grant.amounts) == expected, f"holds {grant.amounts}, should hold {expected}"
        self.leases[action.id] = lease

    def _open(self, command: OpenEnvironment) -> None:
        place = self.places[command.environment.id]
        assert place.state == "wanted", f"opens what is {place.state}"
        assert command.attempt == place.attempt + 1, f"attempts skip: {command}"
        place.state, place.attempt = "opening", command.attempt
        place.node, place.cores = command.node, command.cores
        opening = [
            p for p in self.places.values() if (p.state, p.node) == ("opening", command.node)
        ]
        assert len(opening) <= self.opening_limit, f"{len(opening)} open at once"

    # -- sums --------------------------------------------------------------------------------

    def _leases_in(self, environment: EnvironmentId) -> Iterator[Lease]:
        return (lease for lease in self.leases.values() if lease.environment == environment)

    def holdings(self, node: NodeId) -> Iterator[tuple[Bundle, tuple[int, ...]]]:
        """What is held on a node: amounts and cores, by running actions and by environments."""
        for lease in self.leases.values():
            if lease.node == node:
                yield lease.grant.amounts, lease.grant.cores
        for place in self.places.values():
            if place.node == node:
                yield place.environment.needs, place.cores

    def _conserved(self, node: Node) -> None:
        held: Counter[str] = Counter()
        on_core: Counter[int] = Counter()
        for amounts, cores in self.holdings(node.id):
            held.update(amounts)
            whole, part = divmod(amounts.get(CPU, 0), MILLI)
            assert len(cores) == len(set(cores)) == whole + bool(part), f"{cores} for {amounts}"
            for core in cores[:whole]:
                on_core[core] += MILLI
            if part:
                on_core[cores[-1]] += part
        held[MEMORY] += self.instances.host_mib(node.id)
        leases = (lease for lease in self.leases.values() if lease.node == node.id)
        self.instances.check_devices(node, leases)
        if node.gpus:
            del held[GPU]
        for name, amount in held.items():
            if name.startswith(API):
                continue
            assert amount <= node.capacity.get(name, 0), f"{name} is held twice on {node.id}"
        sizes = core_sizes(node)
        for core, milli in on_core.items():
            assert milli <= sizes[core], f"core {core} of {node.id} is granted twice"


def core_sizes(node: Node) -> dict[int, int]:
    """Millicores on each core of a node; the last one may be a part."""
    whole, part = divmod(node.capacity.get(CPU, 0), MILLI)
    count = whole + bool(part)
    if node.topology is None:
        ids = list(range(count))
    else:
        physical = {core: min(group) for group in node.topology.siblings for core in group}
        ids = [
            core
            for domain in node.topology.domains
            for core in sorted(domain, key=lambda core: (physical.get(core, core), core))
        ][:count]
    return {core: MILLI if i < whole else part for i, core in enumerate(ids)}
