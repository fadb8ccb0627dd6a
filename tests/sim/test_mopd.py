"""The workload `mopd` is what its parameter file says."""

from __future__ import annotations

import math
from collections import Counter
from statistics import median

import pytest

from arl_tangram.sim.mopd import mopd, mopd_parameters

SAMPLE = mopd(seed=3)


def test_a_step_has_a_batch_of_trajectories_that_ask_one_of_nine_teachers_once() -> None:
    assert 2048 == len(SAMPLE.trajectories)
    assert {1} == {len(trajectory.turns) for trajectory in SAMPLE.trajectories}
    names = {model.service.name for model in SAMPLE.models}
    assert 9 == len(names)
    assert names == {turn.action.service for turn in SAMPLE.turns()}


def test_generation_and_scores_take_as_long_as_the_parameters_say() -> None:
    parameters = mopd_parameters()
    thinks = [math.log(turn.think_s) for turn in SAMPLE.turns()]
    works = [turn.work_s for turn in SAMPLE.turns()]

    assert math.log(300.0) == pytest.approx(median(thinks), abs=0.06)
    assert 8000 / 24000 == pytest.approx(median(works), rel=0.08)
    assert max(works) <= parameters.most_tokens / parameters.tokens_per_s


def test_the_popular_teachers_move_on_by_three_places_every_400_seconds() -> None:
    large = mopd(batch=20_000, seed=1)
    first: dict[int, Counter[str]] = {0: Counter(), 1: Counter(), 2: Counter()}
    for turn in large.turns():
        period = int(turn.think_s // 400)
        if period in first:
            first[period][str(turn.action.service)] += 1

    popular = [count.most_common(1)[0][0] for count in first.values()]
    assert ["mopd-teacher-1", "mopd-teacher-4", "mopd-teacher-7"] == popular
    shares = [count for _, count in first[0].most_common()]
    assert 2**0.8 == pytest.approx(shares[0] / shares[1], rel=0.1)


def test_a_teacher_is_restored_faster_on_more_devices() -> None:
    (service,) = {model.service.degrees for model in SAMPLE.models}

    assert [2.7, 1.5, 0.9] == pytest.approx([degree.restore_s for degree in service])
    assert [1.0, 1 / 0.55, 1 / 0.325] == pytest.approx([degree.speedup for degree in service])


def test_the_same_seed_is_the_same_step() -> None:
    assert mopd(batch=50, seed=7) == mopd(batch=50, seed=7)
    assert mopd(batch=50, seed=7) != mopd(batch=50, seed=8)


def test_a_step_has_at_least_one_trajectory() -> None:
    with pytest.raises(ValueError, match="batch=0"):
        mopd(batch=0)
