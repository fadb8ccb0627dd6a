"""Finds out how fast this machine is, by playing a few rollouts alone on their own units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from ..errors import Unavailable
from .plan import Pace, Rollout
from .play import REWARD, STATIC, Act, play
from .recordings import Recording
from .setting import Setting

REHEARSED = ("lru_cache-1", "text_diff-1")
"""Recordings in which nothing hangs, with suites of average size."""
LITTLE, MUCH = 0.01, 0.4
"""The work of a suite that is all start-up, and of one that is not."""


async def rehearse(recordings: Sequence[Recording], setting: Setting) -> Pace:
    """Measure how long steps and suites take on the units of one environment.

    Raises `Unavailable` if the rollouts do not end as they were recorded.
    """
    chosen = [recording for recording in recordings if recording.name in REHEARSED]
    rollouts = [
        Rollout(
            id=f"{recording.name}-{work}",
            recording=recording,
            gaps_s=(0.0,) * (len(recording.turns) + 1),
            work=work,
        )
        for work in (LITTLE, MUCH)
        for recording in chosen
    ]
    played = await play(rollouts, STATIC, setting=setting)
    for trajectory, trouble in played.troubles.items():
        raise Unavailable(f"rehearsing {trajectory}: {trouble}")
    little = {rollout.id for rollout in rollouts if rollout.work == LITTLE}
    start_s = _mean_run_s(a for a in played.acts if a.kind == REWARD and a.trajectory in little)
    long_s = _mean_run_s(a for a in played.acts if a.kind == REWARD and a.trajectory not in little)
    return Pace(
        step_s={
            kind: _mean_run_s(act for act in played.acts if act.kind == kind)
            for kind in {act.kind for act in played.acts} - {REWARD}
        },
        start_s=start_s,
        suite_s=max(long_s - start_s, 0.01) / (MUCH - LITTLE),
    )


def _mean_run_s(acts: Iterable[Act]) -> float:
    return fmean(act.run_s for act in acts)
