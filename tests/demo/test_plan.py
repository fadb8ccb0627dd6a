from __future__ import annotations

from collections import Counter
from statistics import fmean, median

import pytest

from arl_tangram.demo.plan import Rollout, plan
from arl_tangram.demo.recordings import recordings
from arl_tangram.demo.setting import Setting

RECORDINGS = recordings()
SMALL = Setting(units=12, unit_cores=0.16, speed=1.0)
LARGE = Setting(units=63, unit_cores=1.0, speed=2.0)


def dealt(count: int = 28, seed: int = 0, setting: Setting = SMALL) -> tuple[Rollout, ...]:
    return plan(RECORDINGS, count=count, seed=seed, setting=setting)


def share_of_life(rollouts: tuple[Rollout, ...], setting: Setting) -> float:
    """The share of all lives that reward suites take on three units, other steps left out."""
    suites = sum(r.work for r in rollouts) / (3 * setting.unit_cores * setting.speed)
    return suites / (suites + sum(sum(r.gaps_s) for r in rollouts))


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


@pytest.mark.parametrize("setting", [SMALL, LARGE], ids=["small", "large"])
def test_suites_are_scaled_to_the_machine(setting: Setting) -> None:
    assert 0.05 < share_of_life(dealt(setting=setting), setting) < 0.25
