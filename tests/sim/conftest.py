from __future__ import annotations

from collections.abc import Callable

import pytest

from arl_tangram.core.commands import (
    CloseEnvironment,
    Command,
    OpenEnvironment,
    Resize,
    Resolve,
    ResolveEnvironment,
    Start,
    WakeAt,
)
from arl_tangram.core.events import (
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
from arl_tangram.core.model import (
    CPU,
    MILLI,
    Action,
    ActionId,
    Elastic,
    Environment,
    EnvironmentId,
    Grant,
    Lease,
    NodeId,
    Outcome,
    TrajectoryId,
)
from arl_tangram.core.speedup import Roofline, Speedup
from arl_tangram.sim.workload import RIGID, Trajectory, Turn, Workload


class FirstCome:
    """A one-node kernel: first come, first served, on the least amount.

    With `grow_at`, it asks to be woken then, and gives running elastic actions their most.
    """

    def __init__(self, *, grow_at: float | None = None) -> None:
        self.grow_at = grow_at
        self.node = NodeId("")
        self.cores = self.free = 0
        self.open: set[EnvironmentId] = set()
        self.wanted: list[Environment] = []
        self.queue: list[Action] = []
        self.leases: dict[ActionId, tuple[Action, Lease]] = {}
        self.owned: dict[EnvironmentId, int] = {}

    def handle(self, event: Event) -> list[Command]:
        out: list[Command] = []
        match event:
            case NodeJoined(node=node):
                self.node = node.id
                self.cores = self.free = node.capacity[CPU]
                if self.grow_at is not None:
                    out.append(WakeAt(self.grow_at))
            case EnvironmentRequested(environment=environment):
                if environment.needs.get(CPU, 0) > self.cores:
                    out.append(ResolveEnvironment(environment.id, Outcome.REJECTED, "too big"))
                else:
                    self.wanted.append(environment)
            case EnvironmentOpened(environment=environment):
                self.open.add(environment)
            case CloseRequested(environment=environment):
                out.append(CloseEnvironment(environment, self.node))
            case EnvironmentClosed(environment=environment):
                self.free += self.owned.pop(environment)
            case ActionSubmitted(action=action):
                self.queue.append(action)
            case ActionExited(action=action_id, outcome=outcome):
                _, lease = self.leases.pop(action_id)
                self.free += lease.grant.cpu_milli
                out.append(Resolve(action_id, outcome))
            case Woke():
                out += [self._grown(*pair) for pair in self.leases.values() if pair[0].elastic]
        return out + self._serve()

    def _serve(self) -> list[Command]:
        out: list[Command] = []
        while self.wanted and self.wanted[0].needs.get(CPU, 0) <= self.free:
            environment = self.wanted.pop(0)
            self.owned[environment.id] = environment.needs.get(CPU, 0)
            self.free -= self.owned[environment.id]
            out.append(OpenEnvironment(environment, self.node))
        for action in list(self.queue):
            if action.environment is not None and action.environment not in self.open:
                continue
            units = action.elastic.least if action.elastic else 0
            milli = units * MILLI or action.needs.get(CPU, 0)
            if milli > self.free:
                break
            self.queue.remove(action)
            self.free -= milli
            grant = Grant(amounts={CPU: milli}, units=units)
            lease = Lease(action=action.id, attempt=1, node=self.node, grant=grant)
            self.leases[action.id] = action, lease
            out.append(Start(lease))
        return out

    def _grown(self, action: Action, lease: Lease) -> Resize:
        assert action.elastic is not None
        units = action.elastic.most
        self.free -= units * MILLI - lease.grant.cpu_milli
        grant = Grant(amounts={CPU: units * MILLI}, units=units)
        lease = Lease(action=action.id, attempt=1, node=self.node, grant=grant)
        self.leases[action.id] = action, lease
        return Resize(lease)


@pytest.fixture
def first_come() -> Callable[..., FirstCome]:
    return FirstCome


def turn(
    name: str,
    *,
    think_s: float = 0.0,
    work_s: float = 1.0,
    units: tuple[int, ...] = (1,),
    speedup: Speedup = RIGID,
    timeout_s: float | None = None,
    environment: str | None = None,
) -> Turn:
    wide = len(units) > 1
    action = Action(
        id=ActionId(name),
        kind="test",
        needs={} if wide else {CPU: units[0] * MILLI},
        elastic=Elastic(units=units, speedup=speedup) if wide else None,
        timeout_s=timeout_s,
        environment=None if environment is None else EnvironmentId(environment),
    )
    return Turn(think_s=think_s, action=action, work_s=work_s, speedup=speedup, units=units[0])


@pytest.fixture(name="turn", scope="session")
def make_turn() -> Callable[..., Turn]:
    return turn


@pytest.fixture
def workload() -> Callable[..., Workload]:
    """A workload whose trajectories are given as lists of turns; all start at 0."""

    def build(*trajectories: list[Turn], environments: bool = False) -> Workload:
        return Workload(
            name="small",
            trajectories=tuple(
                Trajectory(
                    id=TrajectoryId(f"t{i}"),
                    turns=tuple(turns),
                    environment=Environment(id=EnvironmentId(f"e{i}")) if environments else None,
                )
                for i, turns in enumerate(trajectories)
            ),
        )

    return build


@pytest.fixture
def roofline() -> Callable[[float], Roofline]:
    return lambda cap: Roofline(cap=cap)
