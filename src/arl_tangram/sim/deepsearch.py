"""The built-in workload `deepsearch`: searches one after the other, then a judge of the answer."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from random import Random

from ..core.model import Action, ActionId, Quota, TaskId, TrajectoryId
from .draws import Count, LogNormal
from .models import ModelParameters
from .workload import Trajectory, Turn, Workload, batch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepsearchParameters:
    """The figures of `workloads/deepsearch.toml`, where each is explained."""

    task: TaskId
    batch: int
    think: LogNormal
    turns: Count
    search_kind: str
    search: LogNormal
    quota: Quota
    judge_kind: str
    tokens: LogNormal
    tokens_per_s: float
    judge: ModelParameters


def deepsearch_parameters() -> DeepsearchParameters:
    """The parameters that ship with the package."""
    text = files("arl_tangram.workloads").joinpath("deepsearch.toml").read_text("utf-8")
    table = tomllib.loads(text)
    turns, search, judge = table["turns"], table["search"], table["judge"]
    return DeepsearchParameters(
        task=TaskId(table["task"]),
        batch=table["batch"],
        think=LogNormal.of(table["think"]),
        turns=Count(LogNormal.of(turns), turns["least"], turns["most"]),
        search_kind=search["kind"],
        search=LogNormal.of(search),
        quota=Quota(**search["quota"]),
        judge_kind=judge["kind"],
        tokens=LogNormal.of(judge),
        tokens_per_s=judge["per_s"],
        judge=ModelParameters.of(judge["model"]),
    )


def deepsearch(*, batch: int | None = None, seed: int = 0) -> Workload:
    """A step of `batch` trajectories (2,048 if None), the same for the same arguments.

    Raises:
        ValueError: `batch` is less than 1.
    """
    parameters = deepsearch_parameters()
    size = batch_size(batch, parameters.batch)
    random = Random(seed)
    return Workload(
        name="deepsearch",
        trajectories=tuple(_trajectory(f"t{i}", parameters, random) for i in range(size)),
        models=(parameters.judge.named(_judge(parameters)),),
        quotas=(parameters.quota,),
    )


def _judge(parameters: DeepsearchParameters) -> str:
    return f"{parameters.task}-judge"


def _trajectory(name: str, parameters: DeepsearchParameters, random: Random) -> Trajectory:
    searches = parameters.turns.draw(random)
    turns = [_search(name, seq, parameters, random) for seq in range(searches)]
    turns.append(_judgement(name, searches, parameters, random))
    return Trajectory(id=TrajectoryId(name), task=parameters.task, turns=tuple(turns))


def _search(name: str, seq: int, parameters: DeepsearchParameters, random: Random) -> Turn:
    think_s = parameters.think.draw(random)
    action = Action(
        id=ActionId(f"{parameters.task}/{name}/{seq}"),
        task=parameters.task,
        trajectory=TrajectoryId(name),
        kind=parameters.search_kind,
        needs={parameters.quota.resource: 1},
    )
    return Turn(think_s=think_s, action=action, work_s=parameters.search.draw(random))


def _judgement(name: str, seq: int, parameters: DeepsearchParameters, random: Random) -> Turn:
    think_s = parameters.think.draw(random)
    action = Action(
        id=ActionId(f"{parameters.task}/{name}/{seq}"),
        task=parameters.task,
        trajectory=TrajectoryId(name),
        kind=parameters.judge_kind,
        service=_judge(parameters),
    )
    return Turn(
        think_s=think_s,
        action=action,
        work_s=parameters.tokens.draw(random) / parameters.tokens_per_s,
        speedup=parameters.judge.speedup,
        degrees=parameters.judge.degrees,
    )
