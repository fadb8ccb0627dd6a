"""Deals the rollouts of a step: which recording, how long the model thinks, how much work a suite is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

from ..core.model import Seconds
from .recordings import Recording, Turn
from .setting import STATIC_UNITS, Setting

GAP_MU, GAP_SIGMA = 1.165, 0.571
"""The logarithm of a model's seconds between two actions, fitted to published traces."""
TIME_SCALE = 0.22
"""Demo seconds per second of such a gap."""
SUITE_SIGMA = 1.2
"""The spread of the logarithm of a suite's work."""
LARGEST_SUITE = 40.0
"""The largest suite, relative to the median one."""
SHARE = 0.25
"""The share of a rollout's life that its actions are to take, alone and on `STATIC_UNITS`."""
STEP_CORE_S = {"bash": 0.012, "test": 0.08, "reward": 0.1}
"""Core seconds of an average step of each kind at speed 1, the work of a suite left out."""
STEP_WORK = 0.02
"""How many times over a suite's work is done when an agent runs some of its tests by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One trajectory of the step.

    Attributes:
        gaps_s: seconds the model thinks before each turn, and before the reward.
        work: how many times over the suite does its work for the reward; at 1 it takes a core
            second at speed 1.
    """

    id: str
    recording: Recording
    gaps_s: tuple[Seconds, ...]
    work: float

    @property
    def actions(self) -> int:
        """How many actions it takes, the reward included."""
        return len(self.recording.turns) + 1


def plan(
    recordings: Sequence[Recording], *, count: int, seed: int, setting: Setting
) -> tuple[Rollout, ...]:
    """The rollouts of a step, the same for the same arguments.

    Every recording is used about equally often. The sizes of the suites are spread evenly over a
    log-normal distribution, so a seed deals the same spread in another way.
    """
    rng = Random(seed)
    dealt = _dealt(recordings, count, rng)
    scale = TIME_SCALE * math.exp(GAP_MU)
    gaps = [
        tuple(scale * rng.lognormvariate(0, GAP_SIGMA) for _ in range(len(recording.turns) + 1))
        for recording in dealt
    ]
    sizes = _sizes(count, rng)
    thinking_s = sum(map(sum, gaps)) / count
    suite_s = _suite_s(dealt, thinking_s, setting) / (sum(sizes) / count)
    width = len(str(count - 1))
    return tuple(
        Rollout(
            id=f"{i:0{width}}-{recording.name}",
            recording=recording,
            gaps_s=gaps[i],
            work=max(size * suite_s * STATIC_UNITS * setting.unit_cores * setting.speed, 0.01),
        )
        for i, (recording, size) in enumerate(zip(dealt, sizes, strict=True))
    )


def _dealt(recordings: Sequence[Recording], count: int, rng: Random) -> list[Recording]:
    dealt: list[Recording] = []
    while len(dealt) < count:
        dealt += rng.sample(recordings, len(recordings))
    return dealt[:count]


def _sizes(count: int, rng: Random) -> list[float]:
    """Log-normal sizes with median 1, the middle one of each of `count` equally likely ranges."""
    normal = NormalDist(0, SUITE_SIGMA)
    sizes = [math.exp(normal.inv_cdf((i + 0.5) / count)) for i in range(count)]
    rng.shuffle(sizes)
    return [min(size, LARGEST_SUITE) for size in sizes]


def _suite_s(dealt: Sequence[Recording], thinking_s: Seconds, setting: Setting) -> Seconds:
    """How long a mean suite may take on its own units, for actions to have their share of life."""
    pace = min(1.0, STATIC_UNITS * setting.unit_cores) * setting.speed
    steps_s = sum(_step_s(turn, pace) for recording in dealt for turn in recording.turns)
    others_s = steps_s / len(dealt) + STEP_CORE_S["reward"] / pace
    return max(thinking_s * SHARE / (1 - SHARE) - others_s, thinking_s * SHARE / 4)


def _step_s(turn: Turn, pace: float) -> Seconds:
    return STEP_CORE_S[turn.kind] / pace if turn.timeout_s is None else turn.timeout_s
