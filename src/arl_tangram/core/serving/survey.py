"""The cells there are for another instance, and what others would lose if each were taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..cluster import Cluster, NodeState
from ..estimates import Estimates
from ..model import MEMORY, Degree, Seconds
from ..pools.gpu import Cell
from .instances import Instance, InstancePhase
from .services import ServiceState
from .waits import total_act
from .worth import HORIZON_S, Eviction, quickest_restore_s

#: A busy instance whose service has more calls waiting stays for so many times its restore time.
PAY_OFF = 6.0

FreeIn = Callable[[Instance], Sequence[Seconds]]


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A cell that an instance could have.

    Attributes:
        owners: whose instances would leave it, by service.
        drain_s: when the last of them is expected to be idle.
        harm: what their calls lose in a second, in seconds of completion time.
        spoils: how wide a free cell it would break up; 0 if it is not free.
    """

    node: NodeState
    cell: Cell
    owners: dict[str, list[Instance]]
    drain_s: Seconds
    harm: float
    spoils: int


class Survey:
    """Looks at every cell once, as long as nothing changes.

    Args:
        cluster: where to look.
        estimates: how much work calls are.
        eviction: what it costs to take instances off their devices.
        free_in: in how many seconds the slots of an instance are free.
        drain: whether busy instances count, which would leave once they are idle.
        priority: of whoever looks: what answers only calls of lower ones need not pay off first.
    """

    def __init__(
        self,
        cluster: Cluster,
        eviction: Eviction,
        estimates: Estimates,
        free_in: FreeIn,
        *,
        drain: bool = False,
        priority: int = 0,
    ) -> None:
        self._cluster = cluster
        self._eviction = eviction
        self._estimates = estimates
        self._free_in = free_in
        self._drain = drain
        self._priority = priority
        self._places: dict[int, list[Place]] = {}
        self._losses: dict[tuple[str, ...], float] = {}
        self._may: dict[str, Seconds | None] = {}

    def places(self, state: ServiceState, degree: Degree) -> Iterator[Place]:
        """Where an instance of this width could go."""
        found = self._places.get(degree.gpus)
        if found is None:
            found = self._places[degree.gpus] = list(self._look(degree.gpus))
        for place in found:
            if state.could_run_on(place.node.pool, degree) and self.has_memory(state, place):
                yield place

    def _look(self, width: int) -> Iterator[Place]:
        for node in self._cluster.nodes.values():
            gpus = node.pool.gpus
            for cell in gpus.cells(width):
                owners = self.leaving(node, cell)
                if owners is None:
                    continue
                drain_s = max(
                    (self._may[o.id] or 0.0 for went in owners.values() for o in went), default=0.0
                )
                spoils = 0 if owners else gpus.neighbours_free(cell)
                yield Place(node, cell, owners, drain_s, self.harm(owners), spoils)

    def leaving(self, node: NodeState, cell: Cell) -> dict[str, list[Instance]] | None:
        """Whose instances are there; None if somebody may not leave, or somebody else is to come."""
        gpus = node.pool.gpus
        owners: dict[str, list[Instance]] = {}
        last = None
        for device in cell:
            if gpus.claims[device] is not None:
                return None
            name = gpus.owners[device]
            if name is None or name == last:
                continue
            last = name
            owner = self._cluster.instances[name]
            if name not in self._may:
                self._may[name] = self._leaves_in(owner)
            if self._may[name] is None:
                return None
            owners.setdefault(owner.service, []).append(owner)
        return owners

    def _leaves_in(self, owner: Instance) -> Seconds | None:
        """In how many seconds an instance could leave; None if it may not."""
        if owner.phase is InstancePhase.EVICTING:
            return 0.0
        state = self._cluster.services[owner.service]
        if state.gives_up(owner, self._cluster.now):
            return 0.0
        if owner.phase is not InstancePhase.RESIDENT or state.pinned:
            return None
        if not owner.calls:
            return 0.0
        if not self._drain:
            return None
        if state.calls and not self._has_paid_off(owner) and self._priority <= state.lines.priority:
            return None
        return max(self._free_in(owner))

    def _has_paid_off(self, owner: Instance) -> bool:
        """Whether it has answered calls for long enough to have been worth its restore."""
        state = self._cluster.services[owner.service]
        restored_s = state.restore_s(owner.degree, cold=False)  # what it takes to have it back
        return self._cluster.now - owner.ready_at >= PAY_OFF * restored_s

    def harm(self, owners: dict[str, list[Instance]]) -> float:
        """What their services lose in a second if these leave."""
        harm = 0.0
        for name, went in owners.items():
            key = tuple(instance.id for instance in went)
            if key not in self._losses:
                self._losses[key] = self._loss(self._cluster.services[name], went)
            harm += self._losses[key]
        return harm

    def _loss(self, state: ServiceState, went: list[Instance]) -> float:
        now = self._cluster.now
        loss = self._eviction.loss(state, went, now=now)
        return loss + self._delay(state, went) / HORIZON_S if state.calls else loss

    def _delay(self, state: ServiceState, went: list[Instance]) -> Seconds:
        """How much longer calls take that wait now."""
        calls, work = state.waiting(self._estimates)
        rows = [(i, (at, i.degree.speedup)) for i in state.staying() for at in self._free_in(i)]
        before = [server for _, server in rows]
        if not before:
            return 0.0
        after = [server for instance, server in rows if instance not in went]
        restore = quickest_restore_s(state)
        after = after or [(restore, state.service.degrees[0].speedup)]
        return max(total_act(calls, work, after) - total_act(calls, work, before), 0.0)

    def has_memory(self, state: ServiceState, place: Place) -> bool:
        """Whether the host has room for a copy, if need be that of copies nobody uses."""
        missing = state.service.host_mib
        node = place.node
        free = node.pool.counts.get(MEMORY, 0)
        if missing <= free or self._cluster.copy_of(state, node, place.cell) is not None:
            return True
        leaving = {owner.id for went in place.owners.values() for owner in went}
        return free + sum(copy.mib for copy in node.copies if copy.used_by <= leaving) >= missing
