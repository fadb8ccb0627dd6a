"""Finds out how fast this machine is, by playing a few rollouts alone on their own units."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ..errors import Unavailable
from .plan import Pace, Rollout
from .play import REWARD, play
from .played import STATIC
from .recordings import Recording
from .setting import Setting

REHEARSED = ("lru_cache-1", "text_diff-1")
"""Recordings in which nothing hangs, with suites of average size."""
LITTLE, MUCH = 0.01, 0.4
"""The work of a suite that is all start-up, and of one that is not."""


async def rehearse(recordings: Sequence[Recording], setting: Setting, *, rounds: int = 2) -> Pace:
    """Measure how long steps and suites take on the units of one environment.

    The best of some rounds counts: a machine that does something else for a moment must not pass
    for a slow one. Raises `Unavailable` if the rollouts do not end as they were recorded.
    """
    paces = [await _once(recordings, setting) for _ in range(rounds)]
    return Pace(
        step_s={kind: min(pace.step_s[kind] for pace in paces) for kind in paces[0].step_s},
        start_s=min(pace.start_s for pace in paces),
        suite_s=min(pace.suite_s for pace in paces),
    )


async def _once(recordings: Sequence[Recording], setting: Setting) -> Pace:
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
    suites = [act for act in played.acts if act.kind == REWARD]
    start_s = min(act.run_s for act in suites if act.trajectory in little)
    long_s = min(act.run_s for act in suites if act.trajectory not in little)
    steps = [act for act in played.acts if act.kind != REWARD]
    return Pace(
        step_s={
            kind: median(act.run_s for act in steps if act.kind == kind)
            for kind in {act.kind for act in steps}
        },
        start_s=start_s,
        suite_s=max(long_s - start_s, 0.01) / (MUCH - LITTLE),
    )
