"""Calls to services: who is answered, and which instances come and go for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ..cluster import Cluster, NodeState
from ..entries import Entry
from ..estimates import Estimates
from ..model import GPU, MEMORY, Bundle, InstanceId, Outcome, Seconds, Service
from ..pools.quota import NEVER
from ..queue import Queue
from ..shares import FIRST
from .answering import LOOKAHEAD, Answering
from .arrivals import Together
from .deployment import lasting_cell
from .hosting import Hosting
from .instances import InstancePhase
from .moves import Move, Moves
from .reception import Reception
from .services import LOOK_S, ServiceState, own_needs
from .worth import Cost, Eviction

#: What nobody waits for is considered this often.
LATER_S = 0.5
#: What calls wait for is considered when devices come free, when so many times as many calls
#: wait, and at last after a pause, which doubles each time that nothing was to be done.
GROWN = 1.25
LONGEST_LOOK_S = 2.0
#: Pause after an instance failed; it doubles each time.
RETRY_S = 1.0
LONGEST_RETRY_S = 60.0
#: So many failures with no answer between them put a service in quarantine, for so long.
FAILURES = 5
QUARANTINE_S = 300.0
#: Who waits for longer than this is next, however much its task has.
VERY_LONG_S = 30.0
#: How often what came free while it was decided is looked at in the same event.
ROUNDS = 2


class Serving:
    """Answers calls on instances, and moves instances to where calls need them."""

    def __init__(
        self,
        cluster: Cluster,
        estimates: Estimates,
        reception: Reception,
        *,
        eviction: Eviction | None,
        patience_s: Seconds,
    ) -> None:
        self._cluster = cluster
        self._reception = reception
        self._estimates = estimates
        self._eviction: Eviction = Cost() if eviction is None else eviction
        self._moves = Moves(cluster, estimates, self._eviction)
        self._hosting = Hosting(cluster)
        self._answering = Answering(cluster, estimates, self._moves, patience_s=patience_s)
        self._together = Together()
        self._later_at: Seconds = float("-inf")

    # -- events ---------------------------------------------------------------

    def declare(self, service: Service) -> None:
        """A new service: its calls are accepted from now on."""
        cluster = self._cluster
        state = ServiceState.of(service, arrivals=self._together.arrivals(cluster.now))
        cluster.services[service.name] = state
        self._changed()

    def joined(self) -> None:
        """A node has come; leases of devices that waited for any are calls from now on."""
        cluster = self._cluster
        for entry in [e for e in cluster.anywhere if GPU in e.least]:
            if not self._reception.concerns(entry.action):
                continue
            cluster.dequeue(entry)
            if (state := self._reception.route(entry.action)) is None:
                why = self._reception.why_not(entry.action, None, entry.least)
                cluster.resolve(entry, Outcome.REJECTED, f"it can never run: {why}")
            else:
                entry.served_by = state.name
                cluster.enqueue(entry)
        self._changed()

    def lost(self, node: NodeState) -> None:
        """A node is gone, with its instances; the caller ends what ran there."""
        self._hosting.lost(node)
        self._changed()

    def restored(self, instance_id: InstanceId) -> None:
        """An instance is ready."""
        instance = self._cluster.instances.get(instance_id)
        if instance is not None and instance.phase is InstancePhase.RESTORING:
            self._hosting.restored(instance)

    def evicted(self, instance_id: InstanceId) -> None:
        """An instance is off its devices, or a host copy is gone."""
        instance = self._cluster.instances.get(instance_id)
        if self._hosting.forgotten(instance_id) or instance is None:
            return
        if instance.phase is InstancePhase.EVICTING:
            self._hosting.remove(instance, with_copy=instance.forget)

    def failed(self, instance_id: InstanceId, reason: str) -> None:
        """An instance died, or could not come or go; its devices are free."""
        cluster = self._cluster
        self._hosting.forgotten(instance_id)
        if (instance := cluster.instances.get(instance_id)) is None:
            return
        state = cluster.services[instance.service]
        dependent = not state.service.movable or instance.cold or instance.forget
        self._hosting.remove(instance, with_copy=dependent)
        if instance.began_at >= state.failed_at:  # else it began before, and may have died with it
            state.failures += 1
            state.failed_at = cluster.now
        state.last_failure = reason
        state.rest_until = cluster.now + min(RETRY_S * 2.0 ** (state.failures - 1), LONGEST_RETRY_S)
        cluster.stirred[state.name] = None
        if state.failures < FAILURES:
            return
        state.rest_until = cluster.now + QUARANTINE_S
        state.quarantined = (
            f"service {state.name} is in quarantine: its instances failed {state.failures} "
            f"times in a row, the last time with: {reason}"
        )
        for entry in list(state.lines):
            cluster.dequeue(entry)
            cluster.resolve(entry, Outcome.LOST, state.quarantined)

    def answered(self, entry: Entry, outcome: Outcome) -> None:
        """A call ended by itself: if by an answer, the service is in order."""
        state = self._cluster.service_of(entry)
        if state is not None and outcome in {Outcome.SUCCEEDED, Outcome.FAILED}:
            state.failures = 0

    def called(self, state: ServiceState, entry: Entry) -> None:
        """Learn from a call that came."""
        state.called(self._estimates.work(entry.action), self._cluster.now)

    # -- decisions --------------------------------------------------------------

    def settle(self) -> None:
        """Answer calls, and let instances come and go."""
        cluster = self._cluster
        if not cluster.services:
            return
        for state in cluster.services.values():
            if state.wake_at <= cluster.now:
                state.wake_at = NEVER
                cluster.stirred[state.name] = None
            elif state.needy and cluster.dirty:
                cluster.stirred[state.name] = None
            elif cluster.memory_freed and state.calls and state.service.host_mib:
                self._hosting.freed = True
        cluster.memory_freed = False
        self._hosting.look_for_abandoned()
        self._settle_once()
        again = ROUNDS
        while again and self._hosting.freed:
            self._settle_once()
            again -= 1

    def settle_yielded(self) -> None:
        """Answer calls that let others go first, who have had their turn now."""
        services = self._cluster.services
        for state in self._in_order([services[name] for name in self._cluster.yielded]):
            self._answering.answer(state, yields=False)
        self._cluster.yielded.clear()

    def make_way(self) -> None:
        """Forget host copies that nobody uses where somebody else waits for their memory."""
        for node in self._cluster.nodes.values():
            if node.copies:
                for mib in self._memory_waited_for(node):
                    self._hosting.make_room(node, mib)

    def _memory_waited_for(self, node: NodeState) -> list[int]:
        """How much memory those who are next need, of those who could have it on this node."""
        cluster = self._cluster
        homeless = next(Queue.served([cluster.unplaced], cluster.homing), None)
        next_ones = (next(iter(node.queue), None), next(iter(cluster.anywhere), None))
        wanted = [entry.least for entry in next_ones if entry is not None]
        if homeless is not None:
            wanted.append(homeless.environment.needs)
        could = [needs for needs in wanted if node.pool.could_ever_fit(own_needs(needs))]
        return [mib for needs in could if (mib := needs.get(MEMORY, 0))]

    def _settle_once(self) -> None:
        cluster, hosting = self._cluster, self._hosting
        self._moves.changed()
        stirred = dict(cluster.stirred)
        self._answer()
        self._place_pinned()
        hosting.advance()
        self._answer()
        freed = hosting.freed or any(instance.idle for instance in cluster.idled)
        hosting.freed = False
        cluster.idled.clear()
        looked_at = cluster.services if freed else stirred
        waiting = [state for name in looked_at if (state := cluster.services[name]).mixes]
        for state in self._in_order([s for s in waiting if self._is_due(s, freed=freed)]):
            self._consider(state)
        if cluster.now >= self._later_at or (hosting.changed and not waiting):
            self._later_at = cluster.now + LATER_S
            hosting.changed = False
            self._speculate()
        hosting.advance()
        self._answer()

    def next_at(self) -> Seconds:
        """When it has to be woken, if nothing else happens before."""
        services = self._cluster.services.values()
        at = min((s.wake_at for s in services if s.calls or s.pinned), default=NEVER)
        return min(at, self._hosting.next_abandoned())

    def _answer(self) -> None:
        cluster = self._cluster
        while cluster.stirred:
            stirred = [cluster.services[name] for name in cluster.stirred]
            cluster.stirred.clear()
            for state in self._in_order(stirred):
                self._answering.answer(state)
            for state in stirred:
                if not state.calls and state.keeps is not None:
                    self._answering.answer(state)
            for state in stirred:
                if state.bare:
                    self._return_devices(state)

    def _return_devices(self, state: ServiceState) -> None:
        """A lease of devices has ended, or did not begin: its cell is free."""
        for instance in list(state.instances.values()):
            if instance.idle:
                instance.step(InstancePhase.EVICTING)
                self._hosting.remove(instance)

    def _in_order(self, states: Sequence[ServiceState]) -> list[ServiceState]:
        """Those with calls that wait, by priority, fair share and arrival of the first of them.

        Of equal priority those come last whose instances failed of late: who never comes up must
        not keep devices from those who do. Who waits for very long comes before all that do not.
        """
        states = [state for state in states if state.calls]
        if len(states) < 2:
            return states
        cluster = self._cluster
        rows = []
        for state in states:
            lines = state.lines.open(cluster.has_tokens)
            first = next(Queue.served(lines, cluster.standing), None) or next(iter(state.lines))
            long = cluster.now - first.submitted_at > VERY_LONG_S
            standing = FIRST if long else cluster.answering.standing(first.task)
            row = (-first.priority, state.failures, standing, first.number)
            rows.append((row, state))
        rows.sort(key=lambda row: row[0])
        return [state for _, state in rows]

    def _is_due(self, state: ServiceState, *, freed: bool) -> bool:
        """Whether it is time to look for another instance for those who wait."""
        if state.pinned:
            return False
        now = self._cluster.now
        if state.resting(now):
            state.wake_at = min(state.wake_at, state.rest_until)
            return False
        at = state.looked_at + state.pause_s
        if freed or now >= at or state.calls > GROWN * state.looked_for:
            return True
        state.wake_at = min(state.wake_at, at)
        return False

    def _consider(self, state: ServiceState) -> None:
        """See whether another instance would help those who wait."""
        cluster = self._cluster
        lines = state.lines.open(cluster.has_tokens)
        if not lines:
            return
        if state.bare:
            self._lease(state)
            return
        state.looked_at, state.looked_for = cluster.now, state.calls
        first = next(Queue.served(lines, cluster.standing))
        others = cluster.services.values()
        short = any(s.calls and not s.instances for s in others if s is not state)
        move = self._moves.for_waiting(state, own_needs(first.least), short=short)
        if move is None:
            state.pause_s = min(2.0 * state.pause_s, LONGEST_LOOK_S)
            state.wake_at = min(state.wake_at, state.looked_at + state.pause_s)
            return
        self._plan(move)
        state.pause_s = LOOK_S

    def _lease(self, state: ServiceState) -> None:
        """Find a cell for each lease of devices that waits."""
        lines = state.lines.open(self._cluster.has_tokens)
        coming = sum(
            instance.staying and not instance.calls for instance in state.instances.values()
        )
        waiting = Queue.served(lines, self._cluster.standing)
        passed = 0
        for entry in list(islice(waiting, coming, None)):
            needs = own_needs(entry.least)
            move = self._moves.for_waiting(state, needs, short=False)
            if move is not None:
                self._plan(move, needs=needs)
            else:
                passed += 1
                if passed == LOOKAHEAD:
                    return

    def _speculate(self) -> None:
        """Restore what nobody waits for yet, unless somebody waits for the memory of a host."""
        cluster = self._cluster
        # What was just made free for them must not be taken before they can have it.
        if any(map(self._memory_waited_for, cluster.nodes.values())):
            return
        states = [
            state
            for state in cluster.services.values()
            if not (state.pinned or state.bare or state.resting(cluster.now))
        ]
        if states and self._eviction.anticipates:
            move = self._moves.for_later(states, displacing=not self._hosting.displaces)
            if move is not None:
                self._plan(move, called_for=False)

    def _plan(self, move: Move, *, needs: Bundle | None = None, called_for: bool = True) -> None:
        self._hosting.plan(
            move.state,
            move.degree,
            move.node,
            move.cell,
            ready_s=move.ready_s,
            needs=needs,
            called_for=called_for,
        )
        self._moves.changed()

    def _place_pinned(self) -> None:
        """Give the instances that services have for ever their cells; others make room for them."""
        for state in self._cluster.services.values():
            missing = list(state.service.pinned)
            for instance in state.instances.values():
                if instance.degree.gpus in missing:
                    missing.remove(instance.degree.gpus)
            if missing and state.resting(self._cluster.now):
                state.wake_at = state.rest_until
                continue
            for gpus in sorted(missing, reverse=True):
                degree = state.degrees[gpus]
                if (found := lasting_cell(self._cluster, state, degree)) is not None:
                    ready_s = state.restore_s(degree, cold=True)
                    self._hosting.plan(state, degree, *found, ready_s=ready_s, called_for=False)
                    self._moves.changed()

    def _changed(self) -> None:
        self._moves.start_anew()
        self._hosting.freed = self._hosting.changed = True
        self._cluster.stirred.update(dict.fromkeys(self._cluster.services))
