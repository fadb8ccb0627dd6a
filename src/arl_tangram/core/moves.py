"""Where another instance of a service would do most good, and whether it is worth its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .cluster import Cluster, NodeState
from .estimates import Estimates
from .instances import Instance, InstancePhase
from .model import MEMORY, Degree, Seconds
from .pools.gpu import Cell
from .services import ServiceState
from .waits import total_act
from .worth import HORIZON_S, Eviction, cost

#: An instance must be expected to save at least this much for calls that wait.
LEAST_SAVING_S = 0.05
#: One that nobody waits for must bring so many times what it takes from others,
MARGIN = 1.3
#: and at least so much over the horizon.
LEAST_GAIN_S = 0.02
#: A restore that is overdue is expected to take this much longer.
OVERDUE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A proposal: restore a service on this cell, once its present owners have gone."""

    state: ServiceState
    degree: Degree
    node: NodeState
    cell: Cell
    owners: tuple[Instance, ...]
    ready_s: Seconds
    cold: bool


@dataclass(frozen=True, slots=True)
class _Place:
    node: NodeState
    cell: Cell
    owners: tuple[Instance, ...]
    drain_s: Seconds


class Moves:
    """Weighs instances that could be against those that are."""

    def __init__(self, cluster: Cluster, estimates: Estimates, eviction: Eviction) -> None:
        self._cluster = cluster
        self._estimates = estimates
        self._eviction = eviction

    def for_waiting(self, state: ServiceState) -> Move | None:
        """The instance that helps calls that wait most, if any helps them enough.

        It takes the place of idle instances only, unless the service has none at all.
        """
        calls, work = state.waiting(self._estimates)
        servers = self.servers(state)
        if not servers:
            return self._best(state, calls, work, servers, None, drain=False) or self._best(
                state, calls, work, servers, None, drain=True
            )
        now_s = total_act(calls, work, servers)
        hopeful = [
            degree
            for degree in state.service.degrees
            if now_s - total_act(calls, work, [*servers, *self._added(state, degree, 0.0)])
            > LEAST_SAVING_S
        ]
        if not hopeful:
            return None
        return self._best(state, calls, work, servers, now_s, drain=False)

    def for_later(self, states: Sequence[ServiceState], *, displacing: bool) -> Move | None:
        """The instance that is expected to bring most for each of its devices, called or not.

        `displacing` allows it to take the place of others.
        """
        now = self._cluster.now
        best: Move | None = None
        best_worth = 0.0
        for state in states:
            staying = state.staying()
            before = cost(state, state.speeds(staying), now=now)
            for degree in state.service.degrees:
                slots = [degree.speedup] * state.service.slots
                reach = sorted([*state.speeds(staying), *slots], reverse=True)
                if before - cost(state, reach, now=now) <= LEAST_GAIN_S / HORIZON_S:
                    continue
                for place in self._places(state, degree, drain=False):
                    if place.node.restoring or (place.owners and not displacing):
                        continue
                    left = [i for i in staying if i not in place.owners]
                    after = cost(state, sorted([*state.speeds(left), *slots], reverse=True), now=now)
                    harm = self._harm(state, place)
                    gain = before - after
                    if gain <= MARGIN * harm + LEAST_GAIN_S / HORIZON_S:
                        continue
                    worth = (gain - harm) / degree.gpus
                    tie = place.node.pool.gpus.neighbours_free(place.cell) if not place.owners else 0
                    worth *= 1.0 - 1e-6 * tie
                    if worth > best_worth:
                        best_worth = worth
                        best = self._move(state, degree, place)
        return best

    def servers(self, state: ServiceState) -> list[tuple[Seconds, float]]:
        """In how many seconds each slot of a service is free, and its speed."""
        rows = []
        for instance in state.instances.values():
            if instance.staying:
                speed = instance.degree.speedup
                rows += [(at, speed) for at in self.free_in(instance)]
        return rows

    def free_in(self, instance: Instance) -> list[Seconds]:
        """In how many seconds each slot of an instance is expected to be free."""
        now = self._cluster.now
        slots = self._cluster.services[instance.service].service.slots
        if instance.phase is not InstancePhase.RESIDENT:
            return [max(instance.ready_at - now, OVERDUE_S)] * slots
        calls = list(instance.calls.values())
        lefts = self._estimates.left(calls, now)
        busy = [left / instance.degree.speedup for left in lefts]
        return [0.0] * (slots - len(busy)) + busy

    def _best(
        self,
        state: ServiceState,
        calls: int,
        work: Seconds,
        servers: list[tuple[Seconds, float]],
        now_s: Seconds | None,
        *,
        drain: bool,
    ) -> Move | None:
        now = self._cluster.now
        staying = state.speeds(state.staying())
        before = cost(state, staying, now=now)
        best: Move | None = None
        best_key = (float("-inf"), 0)
        for degree in state.service.degrees:
            speeds = sorted([*staying, *[degree.speedup] * state.service.slots], reverse=True)
            gain = before - cost(state, speeds, now=now)
            known: dict[Seconds, Seconds] = {}
            for place in self._places(state, degree, drain=drain):
                move = self._move(state, degree, place)
                act = known.get(move.ready_s)
                if act is None:
                    added = self._added(state, degree, move.ready_s)
                    act = known[move.ready_s] = total_act(calls, work, [*servers, *added])
                saved = -act if now_s is None else now_s - act
                if now_s is not None and saved < LEAST_SAVING_S:
                    continue
                score = saved + HORIZON_S * (gain - self._harm(state, place))
                tie = 0 if place.owners else -place.node.pool.gpus.neighbours_free(place.cell)
                if (score, tie) > best_key:
                    best, best_key = move, (score, tie)
        return best if now_s is None or best_key[0] > LEAST_SAVING_S else None

    def _added(
        self, state: ServiceState, degree: Degree, ready_s: Seconds
    ) -> list[tuple[Seconds, float]]:
        ready_s = ready_s or state.restore_s(degree, cold=False)
        return [(ready_s, degree.speedup)] * state.service.slots

    def _move(self, state: ServiceState, degree: Degree, place: _Place) -> Move:
        cold = self._cluster.copy_of(state, place.node, place.cell) is None
        ready_s = place.drain_s + state.restore_s(degree, cold=cold, crowd=place.node.restoring)
        return Move(
            state=state,
            degree=degree,
            node=place.node,
            cell=place.cell,
            owners=place.owners,
            ready_s=ready_s,
            cold=cold,
        )

    def _harm(self, state: ServiceState, place: _Place) -> float:
        """What other services lose in a second if this cell goes to `state`."""
        if not place.owners:
            return 0.0
        leaving: dict[str, list[Instance]] = {}
        for owner in place.owners:
            if owner.service != state.name:
                leaving.setdefault(owner.service, []).append(owner)
        harm = 0.0
        for name, instances in leaving.items():
            other = self._cluster.services[name]
            room = self._room_beside(other, place)
            harm += self._eviction.loss(other, instances, now=self._cluster.now, room=room)
        return harm

    def _room_beside(self, state: ServiceState, place: _Place) -> bool:
        """Whether a free cell outside this place would do for an instance of a service."""
        width = state.service.degrees[0].gpus
        for node in self._cluster.nodes.values():
            for cell in node.pool.gpus.cells(width):
                if node.pool.gpus.is_free(cell) and not (
                    node is place.node and set(cell) & set(place.cell)
                ):
                    return True
        return False

    def _places(self, state: ServiceState, degree: Degree, *, drain: bool) -> Iterator[_Place]:
        """Cells that an instance of this width could have: free, idle, or (`drain`) busy now."""
        instances = self._cluster.instances
        for node in self._cluster.nodes.values():
            if not state.could_run_on(node.pool, degree):
                continue
            gpus = node.pool.gpus
            for cell in gpus.cells(degree.gpus):
                owners: dict[str, Instance] = {}
                drain_s = 0.0
                for device in cell:
                    if gpus.claims[device] is not None:
                        break
                    if (owner_id := gpus.owners[device]) is None or owner_id in owners:
                        continue
                    owner = instances[owner_id]
                    if not self._may_go(owner, drain=drain):
                        break
                    owners[owner_id] = owner
                    if owner.calls:
                        drain_s = max(drain_s, *self.free_in(owner))
                else:
                    found = tuple(owners.values())
                    if self._has_memory(state, node, cell, found):
                        yield _Place(node, cell, found, drain_s)

    def _may_go(self, owner: Instance, *, drain: bool) -> bool:
        state = self._cluster.services[owner.service]
        if owner.phase is InstancePhase.EVICTING:
            return True
        if owner.phase is not InstancePhase.RESIDENT or state.pinned:
            return False
        return not owner.calls or drain

    def _has_memory(
        self, state: ServiceState, node: NodeState, cell: Cell, owners: Sequence[Instance]
    ) -> bool:
        """Whether the host has room for a copy, if need be that of copies nobody uses."""
        missing = state.service.host_mib
        if not missing or self._cluster.copy_of(state, node, cell) is not None:
            return True
        leaving = {owner.id for owner in owners}
        free = node.pool.counts.get(MEMORY, 0)
        free += sum(copy.mib for copy in node.copies if copy.used_by <= leaving)
        return free >= missing
