"""A simulated run in a few figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from ..core.model import Seconds
from .meters import QuotaFigures
from .run import Run

Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What a policy made of a step; times in seconds, ACT being queue + overhead + run.

    Attributes:
        trajectories: how many there were.
        actions: how many they submitted.
        utilization: the share of the cluster's unit-seconds that did work during the step.
        units_reserved_s: unit-seconds held by running actions or owned by environments.
        units_used_s: unit-seconds of work and start-up.
        outcomes: how many actions ended in each outcome.
        aborted: trajectories that could not be placed; above 0, the other figures flatter.
        act_mean_by_kind_s: mean ACT of each kind.
        act_quantiles_s: ACT at evenly spaced shares of the actions, the share first.
        held: units held over time, as (second, units).
        used: units at work over time.
        gpu_utilization: the share of all GPU-seconds that did work; 0 without GPUs.
        gpus_held_s: GPU-seconds of the instances that answered calls.
        restores: how many instances of services were restored.
        step_by_task_s: when the last trajectory of each task ended.
        quotas: what was made of each quota, by name.
    """

    trajectories: int
    actions: int
    act_mean_s: Seconds
    act_p50_s: Seconds
    act_p99_s: Seconds
    queue_mean_s: Seconds
    overhead_mean_s: Seconds
    run_mean_s: Seconds
    step_s: Seconds
    utilization: float
    units_reserved_s: Seconds
    units_used_s: Seconds
    outcomes: Mapping[str, int]
    aborted: int
    act_mean_by_kind_s: Mapping[str, Seconds]
    act_quantiles_s: Curve
    held: Curve
    used: Curve
    gpu_utilization: float = 0.0
    gpus_held_s: Seconds = 0.0
    restores: int = 0
    step_by_task_s: Mapping[str, Seconds] = field(default_factory=dict)
    quotas: Mapping[str, QuotaFigures] = field(default_factory=dict)

    @property
    def ran(self) -> bool:
        """Whether any trajectory found a place; if not, the figures mean nothing."""
        return self.aborted < self.trajectories


def measure(run: Run) -> Measures:
    """The figures of a run; actions that never ran count in `outcomes` only."""
    act: list[float] = []
    queue: list[float] = []
    running: list[float] = []
    overhead: list[float] = []
    by_kind: dict[str, list[float]] = {}
    for record in run.actions:
        if record.started_at is None or record.ended_at is None:
            continue
        whole = record.ended_at - record.submitted_at
        act.append(whole)
        running.append(record.ended_at - record.started_at)
        overhead.append(record.overhead_s)
        queue.append(record.started_at - record.submitted_at - record.overhead_s)
        by_kind.setdefault(record.kind, []).append(whole)
    act.sort()
    capacity_s = run.cores * run.step_s
    return Measures(
        trajectories=run.trajectories,
        actions=len(run.actions),
        act_mean_s=_mean(act),
        act_p50_s=quantile(act, 0.5),
        act_p99_s=quantile(act, 0.99),
        queue_mean_s=_mean(queue),
        overhead_mean_s=_mean(overhead),
        run_mean_s=_mean(running),
        step_s=run.step_s,
        utilization=run.units_used_s / capacity_s if capacity_s else 0.0,
        units_reserved_s=run.held.integral,
        units_used_s=run.units_used_s,
        outcomes=dict(Counter(r.outcome.value if r.outcome else "none" for r in run.actions)),
        aborted=run.aborted,
        act_mean_by_kind_s={kind: fmean(values) for kind, values in sorted(by_kind.items())},
        act_quantiles_s=tuple((i / 200, quantile(act, i / 200)) for i in range(201)),
        held=run.held.curve(end=run.step_s),
        used=run.used.curve(end=run.step_s),
        gpu_utilization=run.gpus_used_s / (run.gpus * run.step_s) if run.gpus else 0.0,
        gpus_held_s=run.gpus_held.integral,
        restores=run.restores,
        step_by_task_s=dict(sorted(run.ends.items())),
        quotas=run.quotas,
    )


def quantile(ascending: Sequence[float], share: float) -> float:
    """The value below which this share lies, linear between neighbours; 0 of nothing is 0."""
    if not ascending:
        return 0.0
    place = share * (len(ascending) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ascending[low] + (ascending[high] - ascending[low]) * (place - low)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
