"""Drives a kernel through virtual time: pop an event, hand it over, schedule what follows."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, assert_never

from ..core.commands import (
    CloseEnvironment,
    Command,
    OpenEnvironment,
    Resize,
    Resolve,
    ResolveEnvironment,
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
)
from .cluster import cores_of
from .execution import Execution
from .level import Level
from .workload import Trajectory, Turn, Workload

Observer = Callable[[Event, Sequence[Command]], None]


class Steps(Protocol):
    """What the engine needs of a kernel."""

    def handle(self, event: Event) -> list[Command]:
        """Take a fact in, give orders out."""


@dataclass(slots=True, kw_only=True)
class ActionRecord:
    """What became of one action; times on the simulation's clock, in seconds.

    Attributes:
        started_at: when its last attempt started; None if it never ran.
        overhead_s: how much of its wait its environment was being opened.
    """

    id: ActionId
    kind: str
    submitted_at: Seconds
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    outcome: Outcome | None = None
    overhead_s: Seconds = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A simulated step.

    Attributes:
        actions: in order of submission.
        trajectories: how many there were.
        aborted: trajectories whose environment or action could never be placed.
        step_s: from the first arrival to the end of the last trajectory.
        cores: the size of the cluster.
        held: units held by running actions, or owned by environments.
        used: units that were at work; what is held and idle, or beyond what a curve can use, is not.
        units_used_s: unit-seconds of work and start-up that were done.
        events: how many events the kernel handled.
    """

    actions: Sequence[ActionRecord]
    trajectories: int
    aborted: int
    step_s: Seconds
    cores: int
    held: Level
    used: Level
    units_used_s: Seconds
    events: int


def simulate(
    kernel: Steps,
    workload: Workload,
    *,
    nodes: Sequence[Node],
    open_s: Seconds = 0.0,
    observe: Observer | None = None,
) -> Run:
    """Run the workload to its end on these nodes; the same arguments give the same run.

    Args:
        kernel: a fresh one.
        workload: the step to run.
        nodes: the cluster; they join before anything else happens.
        open_s: how long it takes to open an environment.
        observe: called with every event and the commands it caused.

    Raises:
        RuntimeError: nothing is left to happen, but some trajectories have not ended.
    """
    simulation = _Simulation(kernel, workload, nodes=nodes, open_s=open_s, observe=observe)
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
    """An event on the heap; one that belongs to an execution is void once its units changed."""

    event: Event
    execution: Execution | None = None
    version: int = 0


@dataclass(slots=True)
class _Simulation:
    kernel: Steps
    workload: Workload
    nodes: Sequence[Node] = field(kw_only=True)
    open_s: Seconds = field(kw_only=True)
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
    aborted: int = 0
    first_at: Seconds = 0.0
    last_at: Seconds = 0.0
    open_rollouts: int = 0

    def run(self) -> Run:
        self.first_at = min((t.start_s for t in self.workload.trajectories), default=0.0)
        for node in self.nodes:
            self._schedule(NodeJoined(at=min(self.first_at, 0.0), node=node))
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
        environment = rollout.trajectory.environment
        if environment is not None and environment.id in self.by_environment:
            self._schedule(CloseRequested(at=now, environment=environment.id))

    def _abort(self, rollout: _Rollout, *, now: Seconds) -> None:
        if not rollout.ended:
            self.aborted += 1
            self._end(rollout, now=now)

    # -- events --------------------------------------------------------------------------

    def _schedule(self, event: Event, execution: Execution | None = None) -> _Pending:
        pending = _Pending(event, execution, execution.version if execution else 0)
        heapq.heappush(self.heap, (event.at, self.seq, pending))
        self.seq += 1
        return pending

    def _step(self) -> None:
        now, _, pending = heapq.heappop(self.heap)
        event = pending.event
        if isinstance(event, ActionExited):
            execution = pending.execution
            if execution is None or execution.version != pending.version:
                return
            self._leave(execution, event, now=now)
        elif isinstance(event, ActionSubmitted):
            if self.by_action[event.action.id][0].ended:
                return
            self.records[event.action.id] = ActionRecord(
                id=event.action.id, kind=event.action.kind, submitted_at=now
            )
        elif isinstance(event, EnvironmentOpened):
            self.by_environment[event.environment].opened_at = now
        elif isinstance(event, EnvironmentClosed):
            owned = self.owned_milli.pop(event.environment, 0)
            if owned:
                self.held.add(-owned / MILLI, now)
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
        self.used_s += execution.settle(now)
        self.used.add(-execution.speed, now)
        self.held.add(-execution.lease.grant.cpu_milli / MILLI, now)
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
        self.held.add(lease.grant.cpu_milli / MILLI, now)
        self.used.add(execution.speed, now)
        self._foresee(execution)

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
        rollout, _ = self.by_action[action]
        record = self.records[action]
        record.ended_at = now
        record.outcome = outcome
        if rollout.ended:
            return
        if outcome in (Outcome.REJECTED, Outcome.CANCELLED, Outcome.LOST):
            self._abort(rollout, now=now)
        else:
            self._continue(rollout, now=now)
