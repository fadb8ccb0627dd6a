"""Where another instance of a service would do most good, and whether it is worth its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..cluster import Cluster, NodeState
from ..estimates import Estimates
from ..model import Bundle, Degree, Seconds
from ..pools.gpu import Cell
from .deployment import Deployment, Seat, cost_of, deploy, seats_of
from .instances import Instance, InstancePhase
from .services import ServiceState
from .survey import Place, Survey
from .waits import total_act
from .worth import HORIZON_S, Eviction, absence, cost

#: An instance must be expected to save at least this much for calls that wait.
LEAST_SAVING_S = 0.05
#: One that nobody waits for must bring so many times what others lose by it.
MARGIN = 1.5
#: A restore as quick as this is not anticipated: it would burden the host for next to nothing.
QUICK_S = 0.25
#: How often another deployment is looked for,
AIM_S = 5.0
#: and by what share of all waiting it must be better.
BETTER = 0.04
#: If each call waits longer than this, busy instances of other services may have to make room.
LONG_S = 10.0
#: A restore that is overdue is expected to take this much longer.
OVERDUE_S = 0.1
#: Of two places as good as each other, the one that breaks up less is taken.
TIDY = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A proposal: restore a service on this cell, once its present owners have gone."""

    state: ServiceState
    degree: Degree
    node: NodeState
    cell: Cell
    ready_s: Seconds


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Calls that wait: how many, how much work each is, and the slots that are there or to come."""

    state: ServiceState
    calls: int
    work: Seconds
    servers: list[tuple[Seconds, float]]
    needs: Bundle
    short: bool


class Moves:
    """Weighs instances that could be against those that are."""

    def __init__(self, cluster: Cluster, estimates: Estimates, eviction: Eviction) -> None:
        self._cluster = cluster
        self._estimates = estimates
        self._eviction = eviction
        self._surveys: dict[tuple[bool, int], Survey] = {}
        self._target: Deployment = {}
        self._seated: list[Seat] = []
        self._seated_after = -1
        self._aimed_at: Seconds = float("-inf")

    def changed(self) -> None:
        """Who is where, or the time, is not what it was."""
        self._surveys.clear()

    def start_anew(self) -> None:
        """Nodes or services are others: what was aimed at means nothing any more."""
        self._target = {}
        self._aimed_at = float("-inf")
        self._seated_after = -1

    def for_waiting(self, state: ServiceState, needs: Bundle, *, short: bool) -> Move | None:
        """The instance that helps calls that wait most, if any helps them enough.

        It takes the place of idle instances, or if there is no way else and it is worth that, of
        busy ones once they are idle.

        Args:
            state: the service.
            needs: what the first of its calls needs of a node besides.
            short: whether calls to other services wait that have no instance at all: then each
                device counts.
        """
        calls, work = state.waiting(self._estimates)
        if state.bare:
            calls = 1
        servers = [] if state.bare else self._servers(state)
        waiting = _Waiting(state, calls, work, servers, needs, short)
        if not servers:
            return self._best(waiting, drain=False) or self._best(waiting, drain=True)
        now_s = total_act(calls, work, servers)
        for degree in state.service.degrees:
            soonest = state.restore_s(degree, cold=False)
            added = [(soonest, degree.speedup)] * state.service.slots
            if now_s - total_act(calls, work, [*servers, *added]) > LEAST_SAVING_S:
                break
        else:
            return None
        move = self._best(waiting, drain=False)
        if move is None and not short and now_s > calls * LONG_S:
            move = self._best(waiting, drain=True)
        return move

    def for_later(self, states: Sequence[ServiceState], *, displacing: bool) -> Move | None:
        """The next step towards the best deployment, called for or not.

        `displacing` allows it to take the place of others.
        """
        now = self._cluster.now
        self._aim(states)
        best: Move | None = None
        best_worth = 0.0
        for seat in self._seats():
            if seat.instance is not None or seat.node.restoring:
                continue
            owners = self._survey(drain=False).leaving(seat.node, seat.cell)
            if owners is None or (owners and not displacing):
                continue
            state = self._cluster.services[seat.service]
            degree = state.degrees[len(seat.cell)]
            place = Place(seat.node, seat.cell, owners, 0.0, 0.0, 0)
            if self._ready_s(state, degree, place) < QUICK_S:
                continue
            if not self._survey(drain=False).has_memory(state, place):
                continue
            speeds = state.speeds(state.staying())
            slots = [degree.speedup] * state.service.slots
            gain = cost(state, speeds, now=now) - cost(
                state, _fastest_first(speeds, slots), now=now
            )
            if gain < MARGIN * self._price(owners):
                continue
            if gain / degree.gpus > best_worth:
                best_worth = gain / degree.gpus
                best = self._move(state, degree, place)
        return best

    def _seats(self) -> list[Seat]:
        """Where each instance of the deployment aimed at is, or is to be."""
        if self._seated_after != self._cluster.moves:
            self._seated = seats_of(self._cluster, self._target)
            self._seated_after = self._cluster.moves
        return self._seated

    def _aim(self, states: Sequence[ServiceState]) -> None:
        """Look for a better deployment now and then; one that is hardly better is not aimed at."""
        now = self._cluster.now
        if now < self._aimed_at + AIM_S and self._target.keys() == {s.name for s in states}:
            return
        self._aimed_at = now
        found = deploy(self._cluster, states, now=now)
        have = {state.name: [i.degree.gpus for i in state.staying()] for state in states}
        aim = {name: self._target.get(name, have[name]) for name in found}
        before = sum(cost_of(state, aim[state.name], now=now) for state in states)
        after = sum(cost_of(state, found[state.name], now=now) for state in states)
        if before - after > BETTER * before:
            self._target = found
            self._seated_after = -1

    def _price(self, owners: Mapping[str, list[Instance]]) -> float:
        """What those lose in a second who leave so that the deployment aimed at is reached.

        A service that has a seat elsewhere is only away until it is restored there.
        """
        price = 0.0
        now = self._cluster.now
        for name, went in owners.items():
            state = self._cluster.services[name]
            loss = self._eviction.loss(state, went, now=now)
            if self._target.get(name):
                loss = min(loss, absence(state, went, now=now) / HORIZON_S)
            price += loss
        return price

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

    def _servers(self, state: ServiceState) -> list[tuple[Seconds, float]]:
        """In how many seconds each slot of a service is free, and its speed."""
        rows = []
        for instance in state.instances.values():
            if instance.staying:
                speed = instance.degree.speedup
                rows += [(at, speed) for at in self.free_in(instance)]
        return rows

    def _best(self, waiting: _Waiting, *, drain: bool) -> Move | None:
        """The best place of all: what it saves those who wait, and later ones, less the harm."""
        state, calls, work = waiting.state, waiting.calls, waiting.work
        servers = waiting.servers
        now = self._cluster.now
        survey = self._survey(drain=drain, priority=state.lines.priority)
        now_s = total_act(calls, work, servers or [_much_later(state, calls * work)])
        speeds = state.speeds(state.staying())
        before = cost(state, speeds, now=now)
        best: tuple[Degree, Place] | None = None
        best_score = LEAST_SAVING_S if servers else float("-inf")
        for degree in state.service.degrees:
            slots = [degree.speedup] * state.service.slots
            gain = before - cost(state, _fastest_first(speeds, slots), now=now)
            known: dict[Seconds, Seconds] = {}
            for place in survey.places(state, degree):
                if not self._has_rest(waiting, place):
                    continue
                ready_s = self._ready_s(state, degree, place)
                if ready_s not in known:
                    added = [(ready_s, degree.speedup)] * state.service.slots
                    known[ready_s] = now_s - total_act(calls, work, [*servers, *added])
                saved = known[ready_s]
                if servers and saved < LEAST_SAVING_S:
                    continue
                score = saved + HORIZON_S * (gain - place.harm) - TIDY * place.spoils
                if waiting.short and score > 0:
                    score /= degree.gpus
                if score > best_score:
                    best_score = score
                    best = degree, place
        return None if best is None else self._move(state, *best)

    def _has_rest(self, waiting: _Waiting, place: Place) -> bool:
        """Whether the node has what a call needs besides, now or, for an instance that stays, ever."""
        if not waiting.needs:
            return True
        pool = place.node.pool
        if not waiting.state.bare:
            return pool.could_ever_fit(waiting.needs)
        draft = pool.draft()
        draft.hold(place.node.kept)
        return draft.take(waiting.needs)

    def _move(self, state: ServiceState, degree: Degree, place: Place) -> Move:
        return Move(
            state=state,
            degree=degree,
            node=place.node,
            cell=place.cell,
            ready_s=self._ready_s(state, degree, place),
        )

    def _ready_s(self, state: ServiceState, degree: Degree, place: Place) -> Seconds:
        cold = self._cluster.copy_of(state, place.node, place.cell) is None
        restore_s = state.restore_s(degree, cold=cold, crowd=place.node.restoring)
        return place.drain_s + restore_s

    def _survey(self, *, drain: bool, priority: int = 0) -> Survey:
        key = drain, priority if drain else 0
        if key not in self._surveys:
            self._surveys[key] = Survey(
                self._cluster,
                self._eviction,
                self._estimates,
                self.free_in,
                drain=drain,
                priority=priority,
            )
        return self._surveys[key]


def _much_later(state: ServiceState, work: Seconds) -> tuple[Seconds, float]:
    """When, and how fast, so much work would be done that nothing is done about now."""
    least = state.service.degrees[0]
    wait_s = HORIZON_S + state.restore_s(least, cold=False) + work / least.speedup
    return wait_s, least.speedup


def _fastest_first(speeds: Sequence[float], more: Sequence[float]) -> list[float]:
    return sorted([*speeds, *more], reverse=True)
