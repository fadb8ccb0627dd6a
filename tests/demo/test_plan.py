from __future__ import annotations

from collections import Counter
from statistics import fmean, median

import pytest

from arl_tangram.demo.plan import SHARE, Pace, Rollout, plan
from arl_tangram.demo.recordings import recordings

RECORDINGS = recordings()
SLOW = Pace(step_s={"bash": 0.02, "test": 0.13}, start_s=0.2, suite_s=2.1)
FAST = Pace(step_s={"bash": 0.01, "test": 0.05}, start_s=0.05, suite_s=0.25)


def dealt(count: int = 28, seed: int = 0, pace: Pace = SLOW) -> tuple[Rollout, ...]:
    return plan(RECORDINGS, count=count, seed=seed, pace=pace)


def share_of_life(rollouts: tuple[Rollout, ...], pace: Pace) -> float:
    """The share of all lives that actions take on the units of an environment."""
    acting = sum(
        sum(turn.timeout_s or pace.step_s[turn.kind] for turn in rollout.recording.turns)
        + pace.start_s
        + pace.suite_s * rollout.work
        for rollout in rollouts
    )
    return acting / (acting + sum(sum(rollout.gaps_s) for rollout in rollouts))


def test_a_seed_deals_the_same_rollouts_again() -> None:
    assert dealt(seed=3) == dealt(seed=3)


def test_another_seed_deals_others() -> None:
    one, other = dealt(seed=0), dealt(seed=1)

    assert [r.recording for r in one] != [r.recording for r in other]
    assert [r.gaps_s for r in one] != [r.gaps_s for r in other]


@pytest.mark.parametrize("count", [1, 33, 100])
def test_recordings_are_used_about_equally_often(count: int) -> None:
    uses = Counter(rollout.recording.name for rollout in dealt(count))

    assert count == sum(uses.values())
    assert max(uses.values()) - min(uses.values()) <= 1


def test_every_rollout_has_a_name_of_its_own() -> None:
    assert 150 == len({rollout.id for rollout in dealt(150)})


def test_the_model_thinks_before_each_action() -> None:
    assert all(rollout.actions == len(rollout.gaps_s) for rollout in dealt())


def test_gaps_are_the_published_ones_in_another_scale() -> None:
    gaps = sorted(gap for rollout in dealt(1000) for gap in rollout.gaps_s)

    assert 1.72 == pytest.approx(gaps[len(gaps) * 83 // 100] / median(gaps), rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_suites_are_heavy_tailed_whatever_the_seed(seed: int) -> None:
    works = [rollout.work for rollout in dealt(60, seed=seed)]

    assert max(works) > 8 * median(works)
    assert fmean(works) > 1.6 * median(works)


@pytest.mark.parametrize("pace", [SLOW, FAST], ids=["slow", "fast"])
@pytest.mark.parametrize("seed", range(5))
def test_actions_have_their_share_of_life_whatever_the_machine(pace: Pace, seed: int) -> None:
    assert SHARE == pytest.approx(share_of_life(dealt(seed=seed, pace=pace), pace), rel=0.01)


def test_a_machine_too_slow_for_that_still_does_some_work() -> None:
    hopeless = Pace(step_s={"bash": 1.0, "test": 9.0}, start_s=9.0, suite_s=90.0)

    assert {0.01} == {rollout.work for rollout in dealt(pace=hopeless)}
