"""Deals the rollouts of a step: which recording, how long the model thinks, how much work a suite is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

from ..core.model import Seconds
from .recordings import Recording, Turn

GAP_MU, GAP_SIGMA = 1.165, 0.571
"""The logarithm of a model's seconds between two actions, fitted to published traces."""
TIME_SCALE = 0.22
"""Demo seconds per second of such a gap."""
SUITE_SIGMA = 1.2
"""The spread of the logarithm of a suite's work."""
LARGEST_SUITE = 40.0
"""The largest suite, relative to the median one."""
SHARE = 0.22
"""The share of all lives that actions are to take, alone and on the units of an environment."""
LEAST_WORK = 0.01
STEP_WORK = 0.02
"""How many times over a suite's work is done when an agent runs some of its tests by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take on the units that an environment owns under `static`, without queueing.

    Attributes:
        step_s: a step, by kind.
        start_s: a suite that has no work.
        suite_s: what a suite takes longer for each time its work is done.
    """

    step_s: Mapping[str, Seconds]
    start_s: Seconds
    suite_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One trajectory of the step.

    Attributes:
        gaps_s: seconds the model thinks before each turn, and before the reward.
        work: how many times over the suite does its work for the reward.
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
    recordings: Sequence[Recording], *, count: int, seed: int, pace: Pace
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
    once = _suite_s(dealt, sum(map(sum, gaps)) / count, pace) / pace.suite_s
    mean_size = sum(sizes) / count
    width = len(str(count - 1))
    return tuple(
        Rollout(
            id=f"{i:0{width}}-{recording.name}",
            recording=recording,
            gaps_s=gaps[i],
            work=max(once * size / mean_size, LEAST_WORK),
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


def _suite_s(dealt: Sequence[Recording], thinking_s: Seconds, pace: Pace) -> Seconds:
    """How long a mean suite may work on its own units, for actions to have their share of life."""
    steps_s = sum(_step_s(turn, pace) for recording in dealt for turn in recording.turns)
    others_s = steps_s / len(dealt) + pace.start_s
    return max(thinking_s * SHARE / (1 - SHARE) - others_s, 0.0)


def _step_s(turn: Turn, pace: Pace) -> Seconds:
    return pace.step_s[turn.kind] if turn.timeout_s is None else turn.timeout_s
