"""Drives a kernel through virtual time: pop an event, hand it over, schedule what follows."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, assert_never

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
    CloseRequested,
    EnvironmentClosed,
    EnvironmentOpened,
    EnvironmentRequested,
    Event,
    NodeJoined,
    QuotaDeclared,
    ServiceDeclared,
    ServiceEvicted,
    ServiceRestored,
    Woke,
)
from ..core.model import (
    CPU,
    MILLI,
    ActionId,
    EnvironmentId,
    Lease,
    Node,
    Outcome,
    Seconds,
    TaskId,
)
from .cluster import cores_of, gpus_of
from .execution import Execution
from .level import Level
from .meters import Meters
from .restores import DEFAULT_HOST_GB_PER_S, Restore, Restores
from .run import ActionRecord, Run
from .workload import Trajectory, Turn, Workload

Observer = Callable[[Event, Sequence[Command]], None]


class Steps(Protocol):
    """What the engine needs of a kernel."""

    def handle(self, event: Event) -> list[Command]:
        """Take a fact in, give orders out."""


def simulate(
    kernel: Steps,
    workload: Workload,
    *,
    nodes: Sequence[Node],
    open_s: Seconds = 0.0,
    host_gb_per_s: float = DEFAULT_HOST_GB_PER_S,
    observe: Observer | None = None,
) -> Run:
    """Run the workload to its end on these nodes; the same arguments give the same run.

    Args:
        kernel: a fresh one.
        workload: the step to run.
        nodes: the cluster; they join before anything else happens.
        open_s: how long it takes to open an environment.
        host_gb_per_s: what all restores of a node share.
        observe: called with every event and the commands it caused.

    Raises:
        RuntimeError: nothing is left to happen, but some trajectories have not ended.
    """
    simulation = _Simulation(
        kernel,
        workload,
        nodes=nodes,
        open_s=open_s,
        host_gb_per_s=host_gb_per_s,
        observe=observe,
    )
    return simulation.run()


@dataclass(slots=True)
class _Rollout:
    """Where a trajectory is."""

    trajectory: Trajectory
    next_turn: int = 0
    opening_since: Seconds | None = None
    opened_at: Seconds | None = None
    ended: bool = False


@dataclass(slots=True)
class _Pending:
    """An event on the heap; one that ends something is void once the speed of that changed."""

    event: Event
    subject: Execution | Restore | None = None
    version: int = 0


@dataclass(slots=True)
class _Simulation:
    kernel: Steps
    workload: Workload
    nodes: Sequence[Node] = field(kw_only=True)
    open_s: Seconds = field(kw_only=True)
    host_gb_per_s: float = field(kw_only=True)
    observe: Observer | None = field(kw_only=True)
    heap: list[tuple[Seconds, int, _Pending]] = field(default_factory=list)
    seq: int = 0  # ties break by the order of scheduling, so a run is a function of its inputs
    handled: int = 0
    running: dict[ActionId, Execution] = field(default_factory=dict)
    records: dict[ActionId, ActionRecord] = field(default_factory=dict)
    by_action: dict[ActionId, tuple[_Rollout, Turn]] = field(default_factory=dict)
    by_environment: dict[EnvironmentId, _Rollout] = field(default_factory=dict)
    owned_milli: dict[EnvironmentId, int] = field(default_factory=dict)
    wake: _Pending | None = None
    held: Level = field(default_factory=Level)
    used: Level = field(default_factory=Level)
    used_s: Seconds = 0.0
    gpus_held: Level = field(default_factory=Level)
    gpus_used: Level = field(default_factory=Level)
    gpus_used_s: Seconds = 0.0
    restores: Restores = field(init=False)
    meters: Meters = field(init=False)
    ends: dict[TaskId, Seconds] = field(default_factory=dict)
    aborted: int = 0
    first_at: Seconds = 0.0
    last_at: Seconds = 0.0
    open_rollouts: int = 0

    def run(self) -> Run:
        self.restores = Restores(self.workload.models, host_gb_per_s=self.host_gb_per_s)
        self.meters = Meters(self.workload.quotas)
        self.first_at = min((t.start_s for t in self.workload.trajectories), default=0.0)
        for node in self.nodes:
            self._schedule(NodeJoined(at=min(self.first_at, 0.0), node=node))
        for quota in self.workload.quotas:
            self._schedule(QuotaDeclared(at=min(self.first_at, 0.0), quota=quota))
        for model in self.workload.models:
            self._schedule(ServiceDeclared(at=min(self.first_at, 0.0), service=model.service))
        for trajectory in self.workload.trajectories:
            self._arrive(trajectory)
        while self.heap:
            self._step()
        if self.open_rollouts:
            waiting = [r.id for r in self.records.values() if r.ended_at is None]
            raise RuntimeError(
                f"{self.open_rollouts} trajectories never ended; {len(waiting)} actions wait "
                f"for ever, the first of them {waiting[:3]}"
            )
        return Run(
            actions=tuple(self.records.values()),
            trajectories=len(self.workload.trajectories),
            aborted=self.aborted,
            step_s=self.last_at - self.first_at,
            cores=cores_of(self.nodes),
            held=self.held,
            used=self.used,
            units_used_s=self.used_s,
            gpus=gpus_of(self.nodes),
            gpus_held=self.gpus_held,
            gpus_used=self.gpus_used,
            gpus_used_s=self.gpus_used_s,
            restores=self.restores.count,
            quotas=self.meters.figures(),
            ends={task: at - self.first_at for task, at in self.ends.items()},
            events=self.handled,
        )

    # -- trajectories --------------------------------------------------------------------

    def _arrive(self, trajectory: Trajectory) -> None:
        rollout = _Rollout(trajectory)
        self.open_rollouts += 1
        if trajectory.environment is not None:
            self.by_environment[trajectory.environment.id] = rollout
            self._schedule(
                EnvironmentRequested(at=trajectory.start_s, environment=trajectory.environment)
            )
        self._continue(rollout, now=trajectory.start_s)

    def _continue(self, rollout: _Rollout, *, now: Seconds) -> None:
        """The model takes its next turn, or the trajectory is over."""
        turns = rollout.trajectory.turns
        if rollout.next_turn == len(turns):
            self._end(rollout, now=now)
            return
        turn = turns[rollout.next_turn]
        rollout.next_turn += 1
        self.by_action[turn.action.id] = rollout, turn
        self._schedule(ActionSubmitted(at=now + turn.think_s, action=turn.action))

    def _end(self, rollout: _Rollout, *, now: Seconds) -> None:
        if rollout.ended:
            return
        rollout.ended = True
        self.open_rollouts -= 1
        self.last_at = max(self.last_at, now)
        self.ends[rollout.trajectory.task] = now
        environment = rollout.trajectory.environment
        if environment is not None and environment.id in self.by_environment:
            self._schedule(CloseRequested(at=now, environment=environment.id))

    def _abort(self, rollout: _Rollout, *, now: Seconds) -> None:
        if not rollout.ended:
            self.aborted += 1
            self._end(rollout, now=now)

    # -- events --------------------------------------------------------------------------

    def _schedule(self, event: Event, subject: Execution | Restore | None = None) -> _Pending:
        pending = _Pending(event, subject, subject.version if subject else 0)
        heapq.heappush(self.heap, (event.at, self.seq, pending))
        self.seq += 1
        return pending

    def _step(self) -> None:
        now, _, pending = heapq.heappop(self.heap)
        event = pending.event
        if isinstance(event, ActionExited):
            execution = pending.subject
            if not isinstance(execution, Execution) or execution.version != pending.version:
                return
            self._leave(execution, event, now=now)
        elif isinstance(event, ActionSubmitted):
            if self.by_action[event.action.id][0].ended:
                return
            self.records[event.action.id] = ActionRecord(
                id=event.action.id, kind=event.action.kind, submitted_at=now
            )
            self.meters.wants(event.action, now)
        elif isinstance(event, EnvironmentOpened):
            self.by_environment[event.environment].opened_at = now
        elif isinstance(event, EnvironmentClosed):
            owned = self.owned_milli.pop(event.environment, 0)
            if owned:
                self.held.add(-owned / MILLI, now)
        elif isinstance(event, ServiceRestored):
            restore = pending.subject
            if not isinstance(restore, Restore) or restore.version != pending.version:
                return
            self._foresee_restores(self.restores.end(restore, now=now))
        elif isinstance(event, Woke):
            if pending is not self.wake:
                return
            self.wake = None
        commands = self.kernel.handle(event)
        self.handled += 1
        if self.observe is not None:
            self.observe(event, commands)
        for command in commands:
            self._perform(command, now)

    def _leave(self, execution: Execution, event: ActionExited, *, now: Seconds) -> None:
        used_s = execution.settle(now)
        self.meters.ends(execution.turn.action, now)
        if execution.on_cores:
            self.used_s += used_s
            self.used.add(-execution.speed, now)
            self.held.add(-execution.lease.grant.cpu_milli / MILLI, now)
        elif execution.lease.instance is not None:
            self.gpus_used_s += used_s
            self.gpus_used.add(-execution.speed, now)
            self.gpus_held.add(-float(execution.units), now)
        del self.running[event.action]

    # -- commands ------------------------------------------------------------------------

    def _perform(self, command: Command, now: Seconds) -> None:
        match command:
            case Start(lease=lease):
                self._start(lease, now)
            case Resize(lease=lease):
                self._resize(lease, now)
            case Stop(lease=lease):
                self._stop(lease, now)
            case Resolve(action=action, outcome=outcome):
                self._resolve(action, outcome, now)
            case OpenEnvironment(environment=environment):
                self.by_environment[environment.id].opening_since = now
                owned = environment.needs.get(CPU, 0)
                if owned:
                    self.owned_milli[environment.id] = owned
                    self.held.add(owned / MILLI, now)
                self._schedule(EnvironmentOpened(at=now + self.open_s, environment=environment.id))
            case CloseEnvironment(environment=closing):
                self._schedule(EnvironmentClosed(at=now, environment=closing))
            case ResolveEnvironment(environment=gone):
                # Still known by its trajectory, but not to be closed any more.
                self._abort(self.by_environment.pop(gone), now=now)
            case RestoreService():
                self._foresee_restores(self.restores.begin(command, now=now))
            case EvictService(instance=instance):
                self._foresee_restores(self.restores.give_up(instance, now=now))
                # Devices are freed at once: what it takes is in the fixed part of a restore.
                self._schedule(ServiceEvicted(at=now, instance=instance))
            case WakeAt(at=at):
                self.wake = self._schedule(Woke(at=max(at, now)))
            case _:
                assert_never(command)

    def _start(self, lease: Lease, now: Seconds) -> None:
        rollout, turn = self.by_action[lease.action]
        execution = Execution(lease, turn, now=now)
        record = self.records[lease.action]
        record.started_at = now
        if rollout.opened_at is not None and rollout.opening_since is not None:
            waited_from = max(record.submitted_at, rollout.opening_since)
            record.overhead_s = max(rollout.opened_at - waited_from, 0.0)
        self.running[lease.action] = execution
        self.meters.begins(turn.action, now)
        if execution.on_cores:
            self.held.add(lease.grant.cpu_milli / MILLI, now)
            self.used.add(execution.speed, now)
        elif lease.instance is not None:
            began_at, ready_at = self.restores.spans[lease.instance]
            record.overhead_s = max(ready_at - max(record.submitted_at, began_at), 0.0)
            self.gpus_held.add(float(execution.units), now)
            self.gpus_used.add(execution.speed, now)
        self._foresee(execution)

    def _foresee_restores(self, restores: Sequence[Restore]) -> None:
        for restore in restores:
            event = ServiceRestored(at=restore.ends_at(), instance=restore.command.instance)
            self._schedule(event, restore)

    def _resize(self, lease: Lease, now: Seconds) -> None:
        execution = self.running[lease.action]
        before_milli, before_speed = execution.lease.grant.cpu_milli, execution.speed
        self.used_s += execution.resize(lease, now=now)
        self.held.add((lease.grant.cpu_milli - before_milli) / MILLI, now)
        self.used.add(execution.speed - before_speed, now)
        self._foresee(execution)

    def _stop(self, lease: Lease, now: Seconds) -> None:
        execution = self.running[lease.action]
        execution.version += 1
        self._exit(execution, now, Outcome.CANCELLED)

    def _foresee(self, execution: Execution) -> None:
        at, outcome = execution.ends()
        self._exit(execution, at, outcome)

    def _exit(self, execution: Execution, at: Seconds, outcome: Outcome) -> None:
        lease = execution.lease
        self._schedule(
            ActionExited(at=at, action=lease.action, attempt=lease.attempt, outcome=outcome),
            execution,
        )

    def _resolve(self, action: ActionId, outcome: Outcome, now: Seconds) -> None:
        rollout, turn = self.by_action[action]
        self.meters.gives_up(turn.action, now)
        record = self.records[action]
        record.ended_at = now
        record.outcome = outcome
        if rollout.ended:
            return
        if outcome in (Outcome.REJECTED, Outcome.CANCELLED, Outcome.LOST):
            self._abort(rollout, now=now)
        else:
            self._continue(rollout, now=now)
