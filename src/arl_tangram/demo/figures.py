"""What came out of a step under each policy, in figures, and whether the rewards agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from ..core.model import Seconds
from ..sim.measure import quantile
from .played import STATIC, Played
from .scene import Scene

PUBLISHED_SHARE = (0.20, 0.47)
"""The share of a trajectory's life spent in actions, in published measurements."""
SAME = 1e-4
"""Rewards that differ by less are the same: sums of many numbers depend on how they are shared out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A step under one policy; times in seconds, ACT being queue + overhead + run.

    Attributes:
        units_reserved_s: unit-seconds held by actions or instances, or owned by environments.
        units_used_s: unit-seconds in which something ran; of cores, the processor time.
        outcomes: how many actions ended how.
        rewards: of each trajectory; None if it has none.
    """

    act_mean_s: Seconds
    act_p50_s: Seconds
    act_p99_s: Seconds
    queue_mean_s: Seconds
    overhead_mean_s: Seconds
    run_mean_s: Seconds
    step_s: Seconds
    units_reserved_s: float
    units_used_s: float
    outcomes: Mapping[str, int]
    rewards: Mapping[str, float | None]


def figures_of(played: Played) -> Figures:
    """The figures of a step."""
    acts = sorted(act.act_s for act in played.acts)
    return Figures(
        act_mean_s=fmean(acts),
        act_p50_s=quantile(acts, 0.5),
        act_p99_s=quantile(acts, 0.99),
        queue_mean_s=fmean(act.queue_s for act in played.acts),
        overhead_mean_s=fmean(act.overhead_s for act in played.acts),
        run_mean_s=fmean(act.run_s for act in played.acts),
        step_s=played.step_s,
        units_reserved_s=played.units_reserved_s,
        units_used_s=played.units_used_s,
        outcomes=dict(Counter(act.outcome.value for act in played.acts)),
        rewards=played.rewards,
    )


def share_in_actions(played: Played) -> float:
    """The share of the trajectories' lives in which an action ran.

    Under `static` this is what they need on their own units, without any queueing.
    """
    return sum(act.run_s for act in played.acts) / sum(played.lives_s.values())


def ratio(static: float, other: float) -> float | None:
    """The figure of `static` over that of a policy; None if that is 0."""
    return static / other if other else None


def document(steps: Sequence[Played], scene: Scene) -> dict[str, Any]:
    """All figures as JSON values."""
    figures = {played.policy: figures_of(played) for played in steps}
    units = dict(scene.units)
    ratios = {}
    for played in steps:
        if played.policy == STATIC:
            units["share_of_life_in_actions"] = share_in_actions(played)
            ratios = _ratios(figures)
    return {
        "machine": dict(scene.machine),
        "units": units,
        "policies": {name: asdict(each) for name, each in figures.items()},
        "ratios": ratios,
    }


def _ratios(figures: Mapping[str, Figures]) -> dict[str, dict[str, float | None]]:
    static = figures[STATIC]
    return {
        name: {
            "act_mean": ratio(static.act_mean_s, each.act_mean_s),
            "step": ratio(static.step_s, each.step_s),
            "units_reserved": ratio(static.units_reserved_s, each.units_reserved_s),
        }
        for name, each in figures.items()
    }


def disagreements(steps: Sequence[Played]) -> list[str]:
    """A line for each trajectory whose reward is missing, or not the same under all policies."""
    lines = []
    for trajectory in steps[0].rewards:
        rewards = {played.policy: played.rewards[trajectory] for played in steps}
        found_some = [reward for reward in rewards.values() if reward is not None]
        if len(found_some) < len(rewards) or max(found_some) - min(found_some) > SAME:
            found = ", ".join(
                f"{policy} {'none' if reward is None else f'{reward:.3f}'}"
                for policy, reward in rewards.items()
            )
            reasons = [
                f" ({played.policy}: {played.troubles[trajectory]})"
                for played in steps
                if trajectory in played.troubles
            ]
            lines.append(f"{trajectory}: {found}{''.join(reasons)}")
    return lines
