"""The built-in workload `mopd`: trajectories are generated, then each asks one teacher for a score."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from random import Random

from ..core.model import Action, ActionId, Seconds, TaskId, TrajectoryId
from .models import ModelParameters
from .workload import Trajectory, Turn, Workload, batch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class MopdParameters:
    """The figures of `workloads/mopd.toml`, where each is explained."""

    task: TaskId
    kind: str
    batch: int
    generate_median_s: Seconds
    generate_sigma: float
    exponent: float
    places: int
    every_s: Seconds
    tokens_median: float
    tokens_sigma: float
    most_tokens: float
    tokens_per_s: float
    teachers: ModelParameters


def mopd_parameters() -> MopdParameters:
    """The parameters that ship with the package."""
    text = files("arl_tangram.workloads").joinpath("mopd.toml").read_text("utf-8")
    table = tomllib.loads(text)
    generate, popularity = table["generate"], table["popularity"]
    tokens = table["tokens"]
    return MopdParameters(
        task=TaskId(table["task"]),
        kind=table["kind"],
        batch=table["batch"],
        generate_median_s=generate["median_s"],
        generate_sigma=generate["sigma"],
        exponent=popularity["exponent"],
        places=popularity["places"],
        every_s=popularity["every_s"],
        tokens_median=tokens["median"],
        tokens_sigma=tokens["sigma"],
        most_tokens=tokens["most"],
        tokens_per_s=tokens["per_s"],
        teachers=ModelParameters.of(table["teachers"]),
    )


def mopd(*, batch: int | None = None, seed: int = 0) -> Workload:
    """A step of `batch` trajectories (2,048 if None), the same for the same arguments.

    Raises:
        ValueError: `batch` is less than 1.
    """
    parameters = mopd_parameters()
    size = batch_size(batch, parameters.batch)
    random = Random(seed)
    return Workload(
        name="mopd",
        trajectories=tuple(_trajectory(f"t{i}", parameters, random) for i in range(size)),
        models=tuple(
            parameters.teachers.named(_name(number, parameters))
            for number in range(parameters.teachers.count)
        ),
    )


def _trajectory(name: str, parameters: MopdParameters, random: Random) -> Trajectory:
    mu = math.log(parameters.generate_median_s)
    think_s = random.lognormvariate(mu, parameters.generate_sigma)
    tokens = random.lognormvariate(math.log(parameters.tokens_median), parameters.tokens_sigma)
    action = Action(
        id=ActionId(f"{parameters.task}/{name}/0"),
        task=parameters.task,
        trajectory=TrajectoryId(name),
        kind=parameters.kind,
        service=_name(_asked(think_s, parameters, random), parameters),
    )
    turn = Turn(
        think_s=think_s,
        action=action,
        work_s=min(tokens, parameters.most_tokens) / parameters.tokens_per_s,
        speedup=parameters.teachers.speedup,
        degrees=parameters.teachers.degrees,
    )
    return Trajectory(id=TrajectoryId(name), task=parameters.task, turns=(turn,))


def _asked(at: Seconds, parameters: MopdParameters, random: Random) -> int:
    """The teacher that a call at this time goes to."""
    count = parameters.teachers.count
    shares = [1.0 / rank**parameters.exponent for rank in range(1, count + 1)]
    (rank,) = random.choices(range(count), weights=shares)
    moved = int(at // parameters.every_s) * parameters.places
    return (rank + moved) % count


def _name(number: int, parameters: MopdParameters) -> str:
    return f"{parameters.task}-teacher-{number + 1}"
