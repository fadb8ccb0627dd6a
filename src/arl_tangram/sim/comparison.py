"""What several policies made of the same steps, beside the bounds, as means over seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from .bounds import Bounds
from .case import STATIC, Case, Scenario
from .compare import compare
from .engine import Observer
from .measure import Curve, Measures

FIGURES = (
    "act_mean_s",
    "act_p50_s",
    "act_p99_s",
    "queue_mean_s",
    "overhead_mean_s",
    "run_mean_s",
    "step_s",
    "utilization",
    "units_reserved_s",
    "units_used_s",
    "gpu_utilization",
    "gpus_held_s",
    "restores",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A scenario under several policies, with one or more seeds.

    Attributes:
        scenario: what was simulated, with the first seed.
        bounds: for each seed, what no policy can beat.
        measures: for each policy, what it made of each seed.
    """

    scenario: Scenario
    seeds: tuple[int, ...]
    bounds: tuple[Bounds, ...]
    measures: Mapping[str, tuple[Measures, ...]]

    @property
    def step_bound_s(self) -> float:
        """The mean lower bound of the step."""
        return fmean(bounds.step_s for bounds in self.bounds)

    @property
    def act_bound_s(self) -> float:
        """The mean lower bound of the mean ACT."""
        return fmean(bounds.act_mean_s for bounds in self.bounds)

    @property
    def trajectories(self) -> int:
        """How many trajectories the step has."""
        return next(iter(self.measures.values()))[0].trajectories

    def mean(self, policy: str, figure: str) -> float:
        """A figure of `Measures` under a policy, as its mean over the seeds."""
        return fmean(getattr(measures, figure) for measures in self.measures[policy])

    def mean_of_each(self, policy: str, table: str) -> dict[str, float]:
        """The figures of one of the tables of `Measures`, as means over the seeds."""
        tables = [getattr(measures, table) for measures in self.measures[policy]]
        names = sorted({name for each in tables for name in each})
        return {name: fmean(each[name] for each in tables if name in each) for name in names}

    def gain(self, policy: str, figure: str, *, over: str = STATIC) -> float | None:
        """How many times smaller a figure is than under `over`.

        None if `over` was not simulated, or if under either some trajectories did not run at all,
        so that the figures are not of the same work.
        """
        if over not in self.measures or self.aborted(policy) or self.aborted(over):
            return None
        return _ratio(self.mean(over, figure), self.mean(policy, figure))

    def step_over_bound(self, policy: str) -> float | None:
        """The step time as a multiple of its bound; None if not all of the step ran."""
        return (
            None if self.aborted(policy) else _ratio(self.mean(policy, "step_s"), self.step_bound_s)
        )

    def act_quantiles_s(self, policy: str) -> Curve:
        """The distribution of ACT: its quantiles, each as the mean over the seeds."""
        curves = [measures.act_quantiles_s for measures in self.measures[policy]]
        return tuple(
            (points[0][0], fmean(value for _, value in points))
            for points in zip(*curves, strict=True)
        )

    def aborted(self, policy: str) -> int:
        """Trajectories that could not be placed, over all seeds."""
        return sum(measures.aborted for measures in self.measures[policy])

    def ran(self, policy: str) -> bool:
        """Whether any trajectory found a place under a policy; if not, it has no figures."""
        return any(measures.ran for measures in self.measures[policy])

    def as_json(self) -> dict[str, Any]:
        """The document that `simulate -o json` prints."""
        document: dict[str, Any] = {
            "workload": self.scenario.workload,
            "nodes": self.scenario.nodes,
            "gpus": self.scenario.gpus,
            "seed": self.scenario.seed,
            "seeds": list(self.seeds),
            "trajectories": self.trajectories,
            "estimates": self.scenario.estimates,
            "static_cores": self.scenario.static_cores,
            "bounds": {"step_s": self.step_bound_s, "act_mean_s": self.act_bound_s},
            "policies": {policy: self._figures(policy) for policy in self.measures},
        }
        if STATIC in self.measures:
            document["ratios"] = {
                policy: {
                    "act_mean": self.gain(policy, "act_mean_s"),
                    "step": self.gain(policy, "step_s"),
                    "units_reserved": self.gain(policy, "units_reserved_s"),
                }
                for policy in self.measures
            }
        return document

    def _figures(self, policy: str) -> dict[str, Any]:
        all_measures = self.measures[policy]
        actions = [measures.actions for measures in all_measures]
        ran = self.ran(policy)
        outcomes = sorted({name for measures in all_measures for name in measures.outcomes})
        return {
            "actions": actions[0] if len(actions) == 1 else fmean(actions),
            **{figure: self.mean(policy, figure) if ran else None for figure in FIGURES},
            "step_over_bound": self.step_over_bound(policy),
            "aborted_trajectories": self.aborted(policy),
            "outcomes": {
                name: sum(measures.outcomes.get(name, 0) for measures in all_measures)
                for name in outcomes
            },
            "act_mean_by_kind_s": self.mean_of_each(policy, "act_mean_by_kind_s"),
            "step_by_task_s": self.mean_of_each(policy, "step_by_task_s"),
            **self._quotas(policy),
            "step_by_seed_s": [measures.step_s for measures in all_measures if measures.ran],
            "act_mean_by_seed_s": [m.act_mean_s for m in all_measures if m.ran],
        }

    def _quotas(self, policy: str) -> dict[str, Any]:
        """The worst seed's figures of every quota, if there are any."""
        tables = [measures.quotas for measures in self.measures[policy]]
        if not tables[0]:
            return {}
        return {
            "quotas": {
                name: {
                    "most_over": max(table[name].most_over for table in tables),
                    "most_at_once": max(table[name].most_at_once for table in tables),
                    "waited_s": max(table[name].waited_s for table in tables),
                    "used_while_waiting": min(table[name].used_while_waiting for table in tables),
                }
                for name in tables[0]
            }
        }


def _ratio(figure: float, other: float) -> float | None:
    return figure / other if other else None


def compared(
    scenarios: Sequence[Scenario],
    policies: Sequence[str],
    *,
    seeds: Sequence[int],
    processes: int | None = None,
    progress: Callable[[Case, float], None] | None = None,
    observers: Sequence[Observer] = (),
) -> list[Comparison]:
    """Every scenario under every policy with every seed; arguments are those of `compare`.

    Raises:
        ConfigError: a scenario or a policy is wrong.
    """
    bounds = {(s, seed): replace(s, seed=seed).bounds() for s in scenarios for seed in seeds}
    cases = [
        Case(scenario=replace(scenario, seed=seed), policy=policy)
        for scenario in scenarios
        for seed in seeds
        for policy in policies
    ]
    found = compare(cases, processes=processes, progress=progress, observers=observers)
    measures = dict(zip(cases, found, strict=True))
    return [
        Comparison(
            scenario=replace(scenario, seed=seeds[0]),
            seeds=tuple(seeds),
            bounds=tuple(bounds[scenario, seed] for seed in seeds),
            measures={
                policy: tuple(
                    measures[Case(scenario=replace(scenario, seed=seed), policy=policy)]
                    for seed in seeds
                )
                for policy in policies
            },
        )
        for scenario in scenarios
    ]
