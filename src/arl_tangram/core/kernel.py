"""The one place where scheduling state changes: ``handle(event) -> commands``."""

from __future__ import annotations

from typing import assert_never

from ..errors import InvariantError, UnknownAction
from .cluster import Cluster, NodeState
from .commands import Command, Stop, WakeAt
from .curve import curve_of
from .entries import Entry, least_of
from .estimates import Estimates, Learned
from .events import (
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
from .explain import explain
from .invariants import check
from .model import API, NOTHING, Action, ActionId, EnvironmentId, Explanation, Outcome, Seconds
from .phases import EnvironmentPhase, Phase
from .placement import Placement
from .planning import Planning
from .policy import Policy
from .pools.node import NodePool
from .pools.quota import NEVER, QuotaPool
from .refusal import why_never
from .serving.calls import Serving
from .serving.reception import Reception
from .serving.services import ServiceState
from .serving.worth import Eviction


class Kernel:
    """Turns events into commands. No clock, no I/O, no threads: time arrives in the events.

    The same events give the same commands, whoever drives it.

    Args:
        policy: proposes what to start and resize.
        estimates: what is believed about durations; learned from this kernel's events by default.
        opening_limit: how many environments a node may be opening at once.
        patience_s: how long an action or environment may be passed over by later ones before
            what it needs is kept for it.
        eviction: which instances of services make room for others; by cost if None.
        remembered: how many ended actions and environments are known by their outcome, so that
            a late repeat is recognised.
    """

    def __init__(
        self,
        policy: Policy,
        estimates: Estimates | None = None,
        *,
        opening_limit: int = 8,
        patience_s: Seconds = 2.0,
        remembered: int = 65_536,
        eviction: Eviction | None = None,
    ) -> None:
        self.estimates: Estimates = Learned() if estimates is None else estimates
        self._cluster = Cluster(remembered=remembered)
        self._wake_at = NEVER
        self._placement = Placement(
            self._cluster, opening_limit=opening_limit, patience_s=patience_s
        )
        self._reception = Reception(self._cluster)
        self._serving = Serving(
            self._cluster, self.estimates, self._reception, eviction=eviction, patience_s=patience_s
        )
        self._planning = Planning(self._cluster, policy, self.estimates, patience_s=patience_s)

    def handle(self, event: Event) -> list[Command]:
        """What to do about an event, in the order to do it.

        Raises `InvariantError` if time goes back, and `PolicyError` if the policy proposes the
        impossible; the kernel is not to be used after either.
        """
        cluster = self._cluster
        if event.at < cluster.now:
            raise InvariantError(f"time went back: {event.at} < {cluster.now}")
        cluster.now = event.at
        out: list[Command] = []
        cluster.out = out
        match event:
            case ActionExited():
                self._exited(event)
            case ActionSubmitted(action=action):
                self._submitted(action)
            case CancelRequested(action=action_id):
                self._cancel(action_id)
            case EnvironmentRequested(environment=environment):
                self._placement.request(environment)
            case EnvironmentOpened(environment=environment_id, attempt=attempt):
                entry = cluster.environments.get(environment_id)
                if entry and entry.phase is EnvironmentPhase.OPENING and entry.attempt == attempt:
                    self._placement.opened(entry)
            case EnvironmentFailed(environment=environment_id, attempt=attempt, reason=reason):
                entry = cluster.environments.get(environment_id)
                if entry is not None and entry.attempt == attempt:
                    self._placement.failed(entry, reason)
            case CloseRequested(environment=environment_id):
                entry = cluster.environments.get(environment_id)
                if entry is not None:
                    self._placement.close(entry, Outcome.CANCELLED, "its environment was closed")
            case EnvironmentClosed(environment=environment_id):
                entry = cluster.environments.get(environment_id)
                if entry is not None:
                    self._placement.closed(entry)
            case NodeJoined(node=node):
                if node.id in cluster.nodes:
                    raise InvariantError(f"node {node.id} joined twice")
                cluster.nodes[node.id] = NodeState(id=node.id, pool=NodePool(node))
                cluster.dirty[node.id] = None
                self._placement.changed()
                self._serving.joined()
            case NodeLost(node=node_id):
                if node_id in cluster.nodes:
                    self._node_lost(cluster.nodes[node_id])
            case QuotaDeclared(quota=quota):
                if quota.resource in cluster.quotas:
                    raise InvariantError(f"quota {quota.name} was declared twice")
                cluster.quotas[quota.resource] = QuotaPool(quota)
            case QuotaThrottled(quota=name, retry_after_s=retry_after_s):
                if (pool := cluster.quotas.get(API + name)) is not None:
                    pool.throttled(cluster.now, retry_after_s)
            case ServiceDeclared(service=service):
                if service.name in cluster.services:
                    raise InvariantError(f"service {service.name} was declared twice")
                self._serving.declare(service)
            case ServiceRestored(instance=instance):
                self._serving.restored(instance)
            case ServiceEvicted(instance=instance):
                self._serving.evicted(instance)
            case InstanceFailed(instance=instance, reason=reason):
                self._serving.failed(instance, reason)
            case Woke():
                self._wake_at = NEVER
                for name in cluster.quotas:
                    cluster.quota_changed(name)
            case _:
                assert_never(event)
        self._serving.settle()
        if cluster.memory_changed:
            cluster.memory_changed = False
            self._placement.changed()
        self._placement.settle()
        if cluster.services:
            self._serving.make_way()
        self._planning.settle()
        if cluster.yielded:
            self._serving.settle_yielded()
        self._ask_to_be_woken()
        return out

    def phase_of(self, action: ActionId) -> Phase:
        """Where an action is. Raises `UnknownAction`."""
        if (entry := self._cluster.entries.get(action)) is not None:
            return entry.phase
        self.outcome_of(action)
        return Phase.DONE

    def outcome_of(self, action: ActionId) -> Outcome | None:
        """How an action ended; None while it has not. Raises `UnknownAction`."""
        if action in self._cluster.entries:
            return None
        try:
            return self._cluster.ended[action]
        except KeyError:
            raise UnknownAction(f"no action has the id {action!r}") from None

    def phase_of_environment(self, environment: EnvironmentId) -> EnvironmentPhase:
        """Where an environment is; CLOSED if it is unknown."""
        entry = self._cluster.environments.get(environment)
        return EnvironmentPhase.CLOSED if entry is None else entry.phase

    def explain(self, action: ActionId) -> Explanation:
        """What an action waits for, and behind whom. Raises `UnknownAction`."""
        phase = self.phase_of(action)
        if phase is Phase.DONE:
            return Explanation(action=action, phase=phase.value)
        return explain(self._cluster, self._cluster.entries[action])

    def check(self) -> None:
        """Recompute every sum and index from scratch; raises `InvariantError` if one is off."""
        check(self._cluster)

    def _ask_to_be_woken(self) -> None:
        cluster = self._cluster
        at = min(self._placement.next_at(), cluster.next_tokens(), self._serving.next_at())
        if at < NEVER and at != self._wake_at:
            cluster.out.append(WakeAt(at))
        self._wake_at = at

    # -- events ---------------------------------------------------------------

    def _submitted(self, action: Action) -> None:
        cluster = self._cluster
        if action.id in cluster.entries or action.id in cluster.ended:
            return  # a repeated submit is the same submit
        service = self._reception.route(action)
        curve = None if service is None or service.bare else service.curve
        if action.elastic is not None:
            curve = curve_of(action.elastic.units, self.estimates.speedup(action))
        entry = Entry.of(action, number=cluster.number(), at=cluster.now, curve=curve)
        cluster.entries[action.id] = entry
        outcome, reason = self._refusal(action, service)
        if outcome is not None:
            cluster.resolve(entry, outcome, reason)
            return
        if service is not None:
            entry.served_by = service.name
            self._serving.called(service, entry)
        cluster.enqueue(entry)
        if action.environment is None and service is None:
            node = self._planning.roomiest(entry)
            if node is not None:
                cluster.dirty[node.id] = None

    def _refusal(self, action: Action, service: ServiceState | None) -> tuple[Outcome | None, str]:
        cluster = self._cluster
        held, node = NOTHING, None
        if self._reception.concerns(action):
            if why := self._reception.why_not(action, service, least_of(action)):
                return Outcome.REJECTED, f"it can never run: {why}"
            if service is not None and service.quarantined and service.resting(cluster.now):
                return Outcome.LOST, service.quarantined
            return None, ""
        if action.environment is not None:
            entry = cluster.environments.get(action.environment)
            if entry is None or action.environment in cluster.gone:
                outcome, why = cluster.gone.get(
                    action.environment, (Outcome.REJECTED, "it was never asked for")
                )
                return outcome, f"environment {action.environment} is not open: {why}"
            if entry.phase is EnvironmentPhase.CLOSING:
                return Outcome.CANCELLED, f"environment {action.environment} is closing"
            held = entry.environment.needs
            if entry.phase is EnvironmentPhase.OPEN:
                node = entry.node
        if why := why_never(cluster, least_of(action), held, on=node):
            return Outcome.REJECTED, f"it can never run: {why}"
        return None, ""

    def _exited(self, event: ActionExited) -> None:
        cluster = self._cluster
        entry = cluster.entries.get(event.action)
        if entry is None or entry.lease is None or entry.attempt != event.attempt:
            return  # the echo of an attempt that was already settled
        entry.count(event.at)
        units, run_s = entry.units, event.at - entry.started_at
        bound = entry.action.environment
        self._placement.freed(entry.lease.grant.amounts)
        cluster.release(entry)
        if entry.phase is Phase.STOPPING:
            cluster.resolve(entry, entry.stop_outcome, entry.stop_reason)
        elif event.outcome is Outcome.LOST:
            self._retry(entry, event.reason)
        else:
            self.estimates.observe(
                entry.action,
                work=entry.work_done,
                outcome=event.outcome,
                units=0 if entry.resized else units,
                run_s=run_s,
            )
            self._serving.answered(entry, event.outcome)
            if event.outcome is Outcome.SUCCEEDED:
                for name in entry.quotas:
                    cluster.quotas[name].succeeded()
            cluster.resolve(entry, event.outcome, event.reason)
        if bound is not None and (environment := cluster.environments.get(bound)) is not None:
            self._placement.close_if_idle(environment)

    def _retry(self, entry: Entry, reason: str) -> None:
        """Start a lost attempt again, unless it may have changed an environment half-way."""
        cluster = self._cluster
        if entry.action.environment is not None or entry.attempt >= entry.action.max_attempts:
            cluster.resolve(entry, Outcome.LOST, reason)
            return
        cluster.step(entry, Phase.QUEUED)
        entry.bound_to = None
        cluster.enqueue(entry, first=True)
        if entry.served_by is None and (node := self._planning.roomiest(entry)) is not None:
            cluster.dirty[node.id] = None

    def _cancel(self, action: ActionId) -> None:
        cluster = self._cluster
        entry = cluster.entries.get(action)
        if entry is None:
            return
        if entry.phase is Phase.QUEUED:
            cluster.dequeue(entry)
            if entry.served_by is not None:
                cluster.stirred[entry.served_by] = None
            if entry.blocks:  # others may have waited behind it
                where = cluster.nodes if entry.bound_to is None else (entry.bound_to,)
                cluster.dirty.update(dict.fromkeys(where))
            cluster.resolve(entry, Outcome.CANCELLED, "it was cancelled while it waited")
        elif entry.phase is Phase.RUNNING and entry.lease is not None:
            entry.stop_reason = "it was cancelled while it ran"
            cluster.step(entry, Phase.STOPPING)
            cluster.pin(entry, cluster.nodes[entry.lease.node])
            cluster.out.append(Stop(entry.lease))

    def _node_lost(self, node: NodeState) -> None:
        cluster = self._cluster
        reason = f"node {node.id} was lost"
        running = list(node.running.values())
        homeless = [e for e in node.queue if e.action.environment is None]
        for entry in homeless:
            node.queue.remove(entry)
            entry.bound_to = None
        for environment in list(node.environments.values()):
            self._placement.lost_with_node(environment, reason)
        self._serving.lost(node)
        del cluster.nodes[node.id]
        # Each goes before all that wait, so the oldest must be the last to go there.
        for entry in sorted([*running, *homeless], key=lambda e: e.number, reverse=True):
            if entry.phase is Phase.QUEUED:
                cluster.enqueue(entry, first=True)
                continue
            cluster.release(entry)
            if entry.phase is Phase.STOPPING:
                cluster.resolve(entry, entry.stop_outcome, entry.stop_reason)
            else:
                self._retry(entry, reason)
        if len(cluster.anywhere):
            cluster.dirty.update(dict.fromkeys(cluster.nodes))
