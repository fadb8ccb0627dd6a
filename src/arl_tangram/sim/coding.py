"""The built-in workload `coding`: sandbox steps one after the other, then a test suite as reward."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from random import Random

from ..core.model import (
    CPU,
    MEMORY,
    MILLI,
    Action,
    ActionId,
    Elastic,
    Environment,
    EnvironmentId,
    Seconds,
    TaskId,
    TrajectoryId,
)
from ..core.speedup import Roofline, Speedup
from .draws import Count, LogNormal
from .workload import Trajectory, Turn, Workload, batch_size

SHELL = "bash"
OTHER_TOOL = "tool"
REWARD = "reward"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingParameters:
    """The figures of `workloads/coding.toml`, where each has its source."""

    task: TaskId
    batch: int
    environment_mib: int
    think: LogNormal
    steps: Count
    limit_s: Seconds
    shell_share: float
    hang_share: float
    long_share: float
    long: LogNormal
    short: LogNormal
    other: LogNormal
    reward: LogNormal
    most_reward_s: Seconds
    units: tuple[int, ...]
    suites: tuple[Speedup, ...]


def coding_parameters() -> CodingParameters:
    """The parameters that ship with the package."""
    text = files("arl_tangram.workloads").joinpath("coding.toml").read_text("utf-8")
    table = tomllib.loads(text)
    steps, step, reward = table["steps"], table["step"], table["reward"]
    first, last = reward["units"]
    return CodingParameters(
        task=TaskId(table["task"]),
        batch=table["batch"],
        environment_mib=table["environment_mib"],
        think=LogNormal.of(table["think"]),
        steps=Count(LogNormal.of(steps), steps["least"], steps["most"]),
        limit_s=step["limit_s"],
        shell_share=step["shell_share"],
        hang_share=step["hang_share"],
        long_share=step["long_share"],
        long=LogNormal.of(step["long"]),
        short=LogNormal.of(step["short"]),
        other=LogNormal.of(step["other"]),
        reward=LogNormal(math.log(reward["median_s"]), reward["sigma"]),
        most_reward_s=reward["most_s"],
        units=tuple(range(first, last + 1)),
        suites=tuple(Roofline(cap=suite["cap"]) for suite in reward["suites"]),
    )


def coding(*, batch: int | None = None, seed: int = 0) -> Workload:
    """A step of `batch` trajectories (1,280 if None), the same for the same arguments.

    Raises:
        ValueError: `batch` is less than 1.
    """
    parameters = coding_parameters()
    size = batch_size(batch, parameters.batch)
    random = Random(seed)
    trajectories = tuple(_trajectory(f"t{i}", parameters, random) for i in range(size))
    return Workload(name="coding", trajectories=trajectories)


def _trajectory(name: str, parameters: CodingParameters, random: Random) -> Trajectory:
    task, trajectory = parameters.task, TrajectoryId(name)
    environment = Environment(
        id=EnvironmentId(f"{task}/{name}"),
        task=task,
        trajectory=trajectory,
        needs={MEMORY: parameters.environment_mib},
    )
    steps = parameters.steps.draw(random)
    turns = [_step(seq, environment, parameters, random) for seq in range(steps)]
    turns.append(_reward(steps, environment, parameters, random))
    return Trajectory(id=trajectory, task=task, environment=environment, turns=tuple(turns))


def _step(seq: int, environment: Environment, parameters: CodingParameters, random: Random) -> Turn:
    think_s = parameters.think.draw(random)
    kind = SHELL if random.random() < parameters.shell_share else OTHER_TOOL
    if kind == OTHER_TOOL:
        work_s = parameters.other.draw(random)
    elif random.random() < parameters.hang_share:
        work_s = math.inf
    elif random.random() < parameters.long_share:
        work_s = parameters.long.draw(random)
    else:
        work_s = parameters.short.draw(random)
    action = Action(
        id=ActionId(f"{environment.id}/{seq}"),
        task=environment.task,
        trajectory=environment.trajectory,
        kind=kind,
        needs={CPU: MILLI},
        environment=environment.id,
        timeout_s=parameters.limit_s,
    )
    return Turn(think_s=think_s, action=action, work_s=min(work_s, parameters.limit_s))


def _reward(
    seq: int, environment: Environment, parameters: CodingParameters, random: Random
) -> Turn:
    think_s = parameters.think.draw(random)
    work_s = min(parameters.reward.draw(random), parameters.most_reward_s)
    speedup = random.choice(parameters.suites)
    action = Action(
        id=ActionId(f"{environment.id}/{seq}"),
        task=environment.task,
        trajectory=environment.trajectory,
        kind=REWARD,
        elastic=Elastic(units=parameters.units, speedup=speedup, resizable=True),
        environment=environment.id,
    )
    return Turn(think_s=think_s, action=action, work_s=work_s, speedup=speedup)
