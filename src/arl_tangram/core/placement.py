"""Where environments go, when they open, and what becomes of those that fail."""

from __future__ import annotations

import heapq

from .cluster import Cluster, NodeState
from .commands import CloseEnvironment, OpenEnvironment, ResolveEnvironment, Stop
from .entries import EnvironmentEntry
from .model import CPU, MEMORY, NOTHING, Bundle, Environment, Grant, Outcome, Seconds
from .phases import EnvironmentPhase, Phase
from .queue import Queue
from .refusal import why_never

#: How many environments that do not fit are looked past for one that does.
LOOKAHEAD = 16
#: How often an environment is opened, on another node each time if there is one.
OPENINGS = 3
#: Pause before an opening is tried again; it doubles each time.
RETRY_S = 0.25


class Placement:
    """Places environments by load, opens them through a bounded ramp, and sees them off."""

    def __init__(self, cluster: Cluster, *, opening_limit: int, patience_s: Seconds) -> None:
        self._cluster = cluster
        self._opening_limit = opening_limit
        self._patience_s = patience_s
        self._timers: list[tuple[Seconds, int, EnvironmentEntry]] = []
        self._changed = False
        self._short: set[str] = set()  # what those that found no place may lack

    def request(self, environment: Environment) -> None:
        """Let a new environment wait for a place; refuse one that can never have any."""
        cluster = self._cluster
        if environment.id in cluster.environments or environment.id in cluster.gone:
            return  # a repeated request is the same request
        entry = EnvironmentEntry.of(environment, number=cluster.number(), at=cluster.now)
        cluster.environments[entry.id] = entry
        if why := why_never(cluster, environment.needs):
            cluster.step_environment(entry, EnvironmentPhase.CLOSED)
            self._forget(entry, Outcome.REJECTED, f"environment {entry.id} can never open: {why}")
            return
        cluster.unplaced.add(entry)
        self._changed = True

    def changed(self) -> None:
        """Room may have come free."""
        self._changed = True

    def freed(self, bundle: Bundle) -> None:
        """An action gave these amounts back: who waits for a place may fit now."""
        if not self._short.isdisjoint(bundle):
            self._changed = True

    def opened(self, entry: EnvironmentEntry) -> None:
        """It can be used: its actions join the queue of its node."""
        cluster, node = self._cluster, self._node_of(entry)
        node.opening -= 1
        cluster.step_environment(entry, EnvironmentPhase.OPEN)
        while entry.waiting:
            _, action = entry.waiting.popitem(last=False)
            if why := why_never(cluster, action.least, entry.environment.needs, on=node.id):
                cluster.resolve(action, Outcome.REJECTED, f"it can never run: {why}")
            else:
                cluster.enqueue(action)
        self._open(node)

    def failed(self, entry: EnvironmentEntry, reason: str) -> None:
        """It could not be opened, or broke."""
        cluster = self._cluster
        if entry.phase is EnvironmentPhase.OPENING:
            node = self._node_of(entry)
            node.opening -= 1
            if entry.attempt < OPENINGS:
                entry.avoid.add(node.id)
                self._vacate(entry)
                cluster.step_environment(entry, EnvironmentPhase.WAITING)
                retry_at = cluster.now + RETRY_S * 2.0 ** (entry.attempt - 1)
                entry.retry_at = retry_at
                heapq.heappush(self._timers, (retry_at, entry.number, entry))
                return
            self._vacate(entry)
            cluster.step_environment(entry, EnvironmentPhase.CLOSED)
            self._forget(entry, Outcome.LOST, reason)
        elif entry.phase is EnvironmentPhase.OPEN:
            self._announce(entry, Outcome.LOST, reason)
            self.close(entry, Outcome.LOST, reason)

    def close(self, entry: EnvironmentEntry, outcome: Outcome, reason: str) -> None:
        """Let it go: what waits is over, what runs is stopped, then it is closed."""
        cluster = self._cluster
        self._drop_waiting(entry, outcome, reason)
        match entry.phase:
            case EnvironmentPhase.WAITING | EnvironmentPhase.PLACED:
                if entry.phase is EnvironmentPhase.PLACED:
                    self._node_of(entry).to_open.remove(entry)
                    self._vacate(entry)
                elif entry.retry_at is None:
                    cluster.unplaced.remove(entry)
                    self._end_reservation(entry)
                cluster.step_environment(entry, EnvironmentPhase.CLOSED)
                self._forget(entry, outcome, reason)
            case EnvironmentPhase.OPENING | EnvironmentPhase.OPEN:
                if entry.phase is EnvironmentPhase.OPENING:
                    node = self._node_of(entry)
                    node.opening -= 1
                    self._open(node)
                cluster.step_environment(entry, EnvironmentPhase.CLOSING)
                for action in entry.running.values():
                    if action.phase is Phase.RUNNING and action.lease is not None:
                        action.stop_reason, action.stop_outcome = reason, outcome
                        cluster.step(action, Phase.STOPPING)
                        cluster.pin(action, self._node_of(entry))
                        cluster.out.append(Stop(action.lease))
                self.close_if_idle(entry)
            case _:
                pass  # it is on its way already

    def close_if_idle(self, entry: EnvironmentEntry) -> None:
        """Send the last command to an environment that is closing, once nothing runs in it."""
        if entry.phase is EnvironmentPhase.CLOSING and not entry.running and entry.node:
            self._cluster.out.append(CloseEnvironment(entry.id, entry.node))

    def closed(self, entry: EnvironmentEntry) -> None:
        """It is gone, and its needs are free."""
        if entry.phase is EnvironmentPhase.CLOSING:
            self._vacate(entry)
            self._cluster.step_environment(entry, EnvironmentPhase.CLOSED)
            self._cluster.remember_environment(entry, Outcome.CANCELLED, "it was closed")

    def lost_with_node(self, entry: EnvironmentEntry, reason: str) -> None:
        """Its node is gone; the caller has ended its running attempts."""
        cluster = self._cluster
        self._count_out(entry)
        entry.node = entry.grant = None
        if entry.phase in {EnvironmentPhase.PLACED, EnvironmentPhase.OPENING}:
            # Nothing had happened in it yet, so another one elsewhere is as good.
            cluster.step_environment(entry, EnvironmentPhase.WAITING)
            cluster.unplaced.add(entry)
            self._changed = True
            return
        if entry.phase is EnvironmentPhase.OPEN:
            self._announce(entry, Outcome.LOST, reason)
        self._drop_waiting(entry, Outcome.LOST, reason)
        cluster.step_environment(entry, EnvironmentPhase.CLOSED)
        cluster.remember_environment(entry, Outcome.LOST, reason)

    def settle(self) -> None:
        """Place and open whatever can be."""
        cluster = self._cluster
        while self._timers and self._timers[0][0] <= cluster.now:
            _, _, entry = heapq.heappop(self._timers)
            if entry.phase is EnvironmentPhase.WAITING:
                entry.retry_at = None
                cluster.unplaced.add(entry)
                self._changed = True
        if self._changed:
            while self._changed:
                self._changed = False
                self._place()
            for node in cluster.nodes.values():
                self._open(node)

    def next_at(self) -> Seconds:
        """When it has to be woken, if nothing else happens before."""
        return self._timers[0][0] if self._timers else float("inf")

    def _place(self) -> None:
        cluster = self._cluster
        self._make_way()
        passed: list[EnvironmentEntry] = []
        placed: list[tuple[EnvironmentEntry, NodeState]] = []
        for entry in Queue.served([cluster.unplaced], cluster.homing):
            node = self._choose(entry)
            if node is None:
                passed.append(entry)
                if entry.passed_at is None:
                    entry.passed_at = cluster.now
                elif cluster.now - entry.passed_at >= self._patience_s:
                    self._reserve(entry)
                if len(passed) == LOOKAHEAD:
                    break
                continue
            self._occupy(entry, node)
            placed.append((entry, node))
        self._short = {name for entry in passed for name in entry.environment.needs}
        for entry, node in placed:
            cluster.unplaced.remove(entry)
            node.to_open.append(entry)

    def _make_way(self) -> None:
        """Keep room on one node for an action if environments leave none for it on any."""
        cluster = self._cluster
        for node in cluster.nodes.values():
            for entry in list(node.queue.promoted()):
                if entry.action.environment or node.could_host(entry.own):
                    continue
                if any(other.could_host(entry.own) for other in cluster.nodes.values()):
                    cluster.unbind(entry, node)
        lines = cluster.anywhere.open(cluster.has_tokens)
        action = next(Queue.served(lines, cluster.standing), None)
        if action is None or cluster.now - action.submitted_at < self._patience_s:
            return
        nodes = cluster.nodes.values()
        if any(node.could_host(action.own) for node in nodes):
            return
        able = [
            node
            for node in nodes
            if node.pool.could_ever_fit(action.own)
            and node.queue.overdue(cluster.has_tokens) is None
        ]
        fewest = min(able, key=lambda node: len(node.environments), default=None)
        if fewest is not None:
            cluster.bind(action, fewest)
            fewest.queue.promote(action)

    def _choose(self, entry: EnvironmentEntry) -> NodeState | None:
        """The least loaded node with room, rather one where it has not failed yet, or without GPUs."""
        best: NodeState | None = None
        best_key = (True, True, 0.0)
        for node in self._cluster.nodes.values():
            if node.reserved_for not in {None, entry}:
                continue
            draft = node.pool.draft()
            if (overdue := node.queue.overdue(self._cluster.has_tokens)) is not None:
                draft.hold(overdue.own)
            if not draft.take(entry.environment.needs):
                continue
            load = len(node.environments) + len(node.queue)
            load_of_cpu = load / max(node.pool.capacity.get(CPU, 0), 1)
            key = (node.id in entry.avoid, bool(node.pool.gpus.owners), load_of_cpu)
            if best is None or key < best_key:
                best, best_key = node, key
        return best

    def _reserve(self, entry: EnvironmentEntry) -> None:
        """Keep what comes free on one node for the first environment that waits too long.

        One at a time, so that the others can still go everywhere else.
        """
        nodes = self._cluster.nodes.values()
        if any(node.reserved_for is not None for node in nodes):
            return
        able = [node for node in nodes if node.pool.could_ever_fit(entry.environment.needs)]
        fewest = min(able, key=lambda node: len(node.environments), default=None)
        if fewest is not None:
            fewest.reserved_for = entry

    def _end_reservation(self, entry: EnvironmentEntry) -> None:
        """It no longer waits: what was kept for it is free for others."""
        for node in self._cluster.nodes.values():
            if node.reserved_for is entry:
                node.reserved_for = None
                self._cluster.dirty[node.id] = None
                self._changed = True

    def _occupy(self, entry: EnvironmentEntry, node: NodeState) -> None:
        cluster = self._cluster
        self._end_reservation(entry)
        cluster.step_environment(entry, EnvironmentPhase.PLACED)
        entry.node = node.id
        entry.grant = node.pool.take(entry.environment.needs)
        entry.passed_at = None
        node.environments[entry.id] = entry
        node.own(entry.grant.amounts, 1)
        cluster.placed.take(entry.task, entry.weight)

    def _vacate(self, entry: EnvironmentEntry) -> None:
        cluster = self._cluster
        node = self._node_of(entry)
        del node.environments[entry.id]
        grant = entry.grant or Grant(amounts=NOTHING)
        node.own(grant.amounts, -1)
        node.pool.give_back(grant)
        cluster.memory_freed = cluster.memory_freed or MEMORY in grant.amounts
        entry.node = entry.grant = None
        self._count_out(entry)
        cluster.dirty[node.id] = None
        self._changed = True

    def _count_out(self, entry: EnvironmentEntry) -> None:
        self._cluster.placed.give_back(entry.task, entry.weight)

    def _open(self, node: NodeState) -> None:
        while node.to_open and node.opening < self._opening_limit:
            entry = node.to_open.popleft()
            node.opening += 1
            entry.attempt += 1
            self._cluster.step_environment(entry, EnvironmentPhase.OPENING)
            cores = entry.grant.cores if entry.grant else ()
            self._cluster.out.append(
                OpenEnvironment(entry.environment, node.id, entry.attempt, cores)
            )

    def _drop_waiting(self, entry: EnvironmentEntry, outcome: Outcome, reason: str) -> None:
        if entry.queued and entry.node is not None:
            self._cluster.dirty[entry.node] = None
        for action in [*entry.waiting.values(), *entry.queued.values()]:
            self._cluster.dequeue(action)
            self._cluster.resolve(action, outcome, reason)

    def _announce(self, entry: EnvironmentEntry, outcome: Outcome, reason: str) -> None:
        self._cluster.gone[entry.id] = (outcome, reason)
        self._cluster.out.append(ResolveEnvironment(entry.id, outcome, reason))

    def _forget(self, entry: EnvironmentEntry, outcome: Outcome, reason: str) -> None:
        """It ended before it was ever closed: whoever waits for it must be told."""
        self._drop_waiting(entry, outcome, reason)
        self._announce(entry, outcome, reason)
        self._cluster.remember_environment(entry, outcome, reason)

    def _node_of(self, entry: EnvironmentEntry) -> NodeState:
        assert entry.node is not None  # an internal precondition, kept by phases
        return self._cluster.nodes[entry.node]
