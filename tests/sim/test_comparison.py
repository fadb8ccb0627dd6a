from __future__ import annotations

import math

import pytest

from arl_tangram.errors import ConfigError
from arl_tangram.sim.case import Case, Scenario
from arl_tangram.sim.compare import compare
from arl_tangram.sim.comparison import FIGURES, Comparison, compared

SMALL = Scenario(workload="coding", batch=8, nodes="2x4", seed=3)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    (found,) = compared([SMALL], ["static", "inflight"], seeds=[3, 4], processes=1)
    return found


@pytest.mark.slow
def test_processes_side_by_side_find_what_one_process_finds() -> None:
    cases = [Case(scenario=SMALL, policy=policy) for policy in ("static", "inflight")]
    shares: list[float] = []

    beside = compare(cases, processes=2, progress=lambda _, share: shares.append(share))

    assert compare(cases, processes=1) == beside
    assert 2 == shares.count(1.0)


@pytest.mark.slow
def test_a_mistake_in_one_process_reaches_the_caller() -> None:
    cases = [Case(scenario=SMALL, policy=policy) for policy in ("inflight", "outflight")]

    with pytest.raises(ConfigError, match="policy='outflight'"):
        compare(cases, processes=2)


def test_the_document_has_every_figure_of_every_policy(comparison: Comparison) -> None:
    document = comparison.as_json()

    assert ("coding", "2x4", 3, [3, 4], 8) == tuple(
        document[key] for key in ("workload", "nodes", "seed", "seeds", "trajectories")
    )
    assert {"static", "inflight"} == set(document["policies"]) == set(document["ratios"])
    for figures in document["policies"].values():
        assert {"actions", *FIGURES} <= set(figures)
        assert all(math.isfinite(figures[name]) for name in FIGURES)
    assert {"step_s", "act_mean_s"} == set(document["bounds"])


def test_figures_are_means_over_the_seeds(comparison: Comparison) -> None:
    first, second = comparison.measures["inflight"]

    assert (first.step_s + second.step_s) / 2 == comparison.mean("inflight", "step_s")
    assert first.step_s != second.step_s


def test_a_gain_is_the_figure_of_static_over_that_of_the_policy(comparison: Comparison) -> None:
    static, inflight = (comparison.mean(p, "act_mean_s") for p in ("static", "inflight"))

    assert static / inflight == comparison.gain("inflight", "act_mean_s")
    assert 1.0 == comparison.gain("static", "step_s")
    assert comparison.gain("inflight", "step_s", over="equi") is None


def test_without_static_there_are_no_ratios() -> None:
    (found,) = compared([SMALL], ["inflight"], seeds=[0])

    assert "ratios" not in found.as_json()
