"""What is to be simulated: trajectories of model turns, with the true work behind every action."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..core.model import (
    CPU,
    MILLI,
    Action,
    ActionId,
    Environment,
    EnvironmentId,
    Quota,
    Seconds,
    Service,
    TaskId,
    TrajectoryId,
)
from ..core.speedup import Roofline, Speedup

RIGID: Speedup = Roofline(cap=1.0)
"""The curve of an action that more units do not speed up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The model thinks, then one action runs.

    Attributes:
        think_s: model time before the action is submitted.
        work_s: how long the action takes on one unit, start-up not counted.
        speedup: its true curve; what `action.elastic` tells the scheduler may be less.
        units: what it runs on if `action.elastic` is None, whatever it holds in the books.
        degrees: of a call, those that its service may have.
    """

    think_s: Seconds
    action: Action
    work_s: Seconds
    speedup: Speedup = RIGID
    units: int = 1
    degrees: tuple[int, ...] = ()

    def allowed_units(self) -> tuple[int, ...]:
        """The amounts it may run on, ascending."""
        elastic = self.action.elastic
        if self.degrees:
            return self.degrees
        return (self.units,) if elastic is None else elastic.units


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One rollout: it opens its environment at `start_s`, and one turn follows another."""

    id: TrajectoryId
    task: TaskId = TaskId("default")
    start_s: Seconds = 0.0
    environment: Environment | None = None
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A service, with the truth about its restores.

    Attributes:
        fixed_s: the part of a restore that takes as long whatever is moved.
        gigabytes: what is moved from the host to the devices.
        link_gb_per_s: how fast it goes to one device.
        static_instances: how many instances a static deployment has at most.
    """

    service: Service
    fixed_s: Seconds = 0.0
    gigabytes: float = 0.0
    link_gb_per_s: float = 25.0
    static_instances: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A step: the trajectories of one batch, the services they call and the quotas they keep to."""

    name: str
    trajectories: tuple[Trajectory, ...]
    models: tuple[ServedModel, ...] = ()
    quotas: tuple[Quota, ...] = ()

    def turns(self) -> Iterator[Turn]:
        """Every turn of every trajectory, one trajectory after the other."""
        for trajectory in self.trajectories:
            yield from trajectory.turns

    def true_work(self) -> Mapping[ActionId, Seconds]:
        """The one-unit work of every action: what an oracle knows."""
        return {turn.action.id: turn.work_s for turn in self.turns()}


def calls_of(trajectory: Trajectory) -> Iterator[tuple[str, Seconds, Seconds]]:
    """The calls to services of a trajectory that never waits: which, when, and how much work."""
    at = trajectory.start_s
    for turn in trajectory.turns:
        at += turn.think_s
        if turn.action.service is not None:
            yield turn.action.service, at, turn.work_s
        at += turn.work_s / max(turn.speedup.at(units) for units in turn.allowed_units())


def together(workloads: Sequence[Workload]) -> Workload:
    """Several workloads as one step, on the same resources.

    Raises:
        ValueError: two of them have a service of the same name, a quota of the same name that is
            not the same, or an action of the same id.
    """
    names = Counter(model.service.name for workload in workloads for model in workload.models)
    ids = Counter(str(turn.action.id) for workload in workloads for turn in workload.turns())
    quotas = tuple(dict.fromkeys(quota for workload in workloads for quota in workload.quotas))
    limits = Counter(quota.name for quota in quotas)
    for what, found in (("service", names), ("quota", limits), ("action", ids)):
        for name, times in found.most_common(1):
            if times > 1:
                raise ValueError(f"{what} {name!r} is in two of the workloads")
    return Workload(
        name="+".join(workload.name for workload in workloads),
        trajectories=tuple(t for workload in workloads for t in workload.trajectories),
        models=tuple(model for workload in workloads for model in workload.models),
        quotas=quotas,
    )


def as_static(workload: Workload, *, cores: int = 3) -> Workload:
    """The same workload with a container per trajectory that owns its cores for life.

    Every environment's needs include `cores`; its actions hold no CPU of their own and run on
    as many of the environment's cores as they can use.

    Raises:
        ValueError: `cores` is less than 1.
    """
    if cores < 1:
        raise ValueError(f"cores={cores}: a container owns at least 1 core")
    trajectories = tuple(
        _with_own_cores(t, cores=cores) if _needs_cores(t) else t for t in workload.trajectories
    )
    return replace(workload, trajectories=trajectories)


def _needs_cores(trajectory: Trajectory) -> bool:
    if trajectory.environment is not None:
        return True
    actions = [turn.action for turn in trajectory.turns]
    return any(a.needs.get(CPU) or (a.elastic and a.elastic.resource == CPU) for a in actions)


def _with_own_cores(trajectory: Trajectory, *, cores: int) -> Trajectory:
    environment = trajectory.environment or Environment(
        id=EnvironmentId(f"{trajectory.task}/{trajectory.id}"),
        task=trajectory.task,
        trajectory=trajectory.id,
    )
    owning = replace(environment, needs={**environment.needs, CPU: cores * MILLI})
    turns = tuple(_on_owned(turn, owning.id, cores=cores) for turn in trajectory.turns)
    return replace(trajectory, environment=owning, turns=turns)


def _on_owned(turn: Turn, environment: EnvironmentId, *, cores: int) -> Turn:
    fitting = [units for units in turn.allowed_units() if units <= cores]
    others = {name: amount for name, amount in turn.action.needs.items() if name != CPU}
    action = replace(turn.action, needs=others, elastic=None, environment=environment)
    # An action whose least amount is more than the container has makes do with what there is.
    return replace(turn, action=action, units=fitting[-1] if fitting else cores)


def batch_size(asked: int | None, usual: int) -> int:
    """How many trajectories a generated step has; raises `ValueError` for less than 1."""
    size = usual if asked is None else asked
    if size < 1:
        raise ValueError(f"batch={size}: a step has at least 1 trajectory")
    return size
