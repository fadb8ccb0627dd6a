from __future__ import annotations

import json

import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.demo.figures import (
    disagreements,
    document,
    figures_of,
    ratio,
    share_in_actions,
)
from arl_tangram.demo.ledger import ENVIRONMENT, Span
from arl_tangram.demo.play import Act, Played
from arl_tangram.demo.report import caution_said, report, share_said, table_of
from arl_tangram.demo.setting import Setting

SETTING = Setting(units=12, unit_cores=0.5)
MACHINE = {"node": "m", "enforcement": "cgroup-v1", "isolation": "namespaces"}


def act(queue_s: float = 0.0, run_s: float = 1.0, trajectory: str = "t", kind: str = "bash") -> Act:
    return Act(trajectory, kind, Outcome.SUCCEEDED, queue_s, 0.5, run_s, cpu_s=0.25)


def played(
    policy: str, *acts: Act, reward: float | None = 1.0, step_s: float = 10.0, **troubles: str
) -> Played:
    return Played(
        policy=policy,
        acts=acts or (act(),),
        rewards={"t": reward},
        troubles=troubles,
        lives_s={"t": 8.0},
        spans=(Span("t", ENVIRONMENT, held=[(0.0, 3.0)], ended_at=8.0),),
        step_s=step_s,
    )


def test_the_parts_of_act_add_up() -> None:
    figures = figures_of(played("static", act(2.0, 1.0), act(0.0, 3.0), act(1.0, 0.5)), SETTING)

    assert pytest.approx(figures.act_mean_s) == (
        figures.queue_mean_s + figures.overhead_mean_s + figures.run_mean_s
    )
    assert 3.5 == figures.act_p50_s


def test_units_are_counted_in_units_and_not_in_cores() -> None:
    figures = figures_of(played("static", act(), act()), SETTING)

    assert (24.0, 1.0) == (figures.units_reserved_s, figures.units_used_s)


def test_the_share_of_life_in_actions_counts_no_queue() -> None:
    assert 0.25 == share_in_actions(played("static", act(5.0, 1.0), act(0.0, 1.0)))


def test_a_ratio_is_the_figure_of_static_over_the_other() -> None:
    steps = [played("static", act(run_s=4.0), step_s=30.0), played("inflight", step_s=10.0)]

    ratios = document(steps, SETTING, MACHINE)["ratios"]["inflight"]

    assert {"act_mean": 3.0, "step": 3.0, "units_reserved": 1.0} == ratios
    assert ratio(1.0, 0.0) is None


def test_the_document_has_the_figures_of_every_policy() -> None:
    steps = [played("static"), played("tangram")]

    said = json.loads(json.dumps(document(steps, SETTING, MACHINE)))

    assert ["machine", "units", "policies", "ratios"] == list(said)
    assert 0.125 == said["units"]["share_of_life_in_actions"]
    assert [
        "act_mean_s",
        "act_p50_s",
        "act_p99_s",
        "queue_mean_s",
        "overhead_mean_s",
        "run_mean_s",
        "step_s",
        "units_reserved_s",
        "units_used_s",
        "outcomes",
        "rewards",
    ] == list(said["policies"]["tangram"])
    assert {"t": 1.0} == said["policies"]["tangram"]["rewards"]


def test_without_static_there_is_nothing_to_compare_with() -> None:
    steps = [played("inflight")]

    assert {} == document(steps, SETTING, MACHINE)["ratios"]
    assert share_said(steps) is None
    assert "1.5 s" == table_of(steps, SETTING).rows[0][1]


def test_equal_rewards_are_no_disagreement() -> None:
    assert [] == disagreements([played("static"), played("inflight")])


def test_a_reward_that_differs_is_named() -> None:
    steps = [played("static"), played("inflight", reward=0.5)]

    assert ["t: static 1.000, inflight 0.500"] == disagreements(steps)


def test_a_reward_that_is_missing_is_named_with_its_reason() -> None:
    steps = [played("static", reward=None, t="its environment is gone"), played("inflight")]

    assert ["t: static none, inflight 1.000 (static: its environment is gone)"] == disagreements(
        steps
    )


def test_the_table_tells_how_many_times_better() -> None:
    steps = [played("static", act(run_s=9.5)), played("inflight", act(run_s=1.5))]

    assert ["mean ACT", "10 s", "2 s  (5.00 x)"] == list(table_of(steps, SETTING).rows[0])


def test_what_parts_of_a_core_do_to_the_comparison_is_told() -> None:
    assert "one core, 2 units here" in (caution_said(SETTING) or "")
    assert caution_said(Setting(units=15, unit_cores=1.0)) is None


def test_the_report_is_one_file_that_needs_no_network() -> None:
    text = report([played("static"), played("inflight")], SETTING, machine=MACHINE, seed=4)

    assert "seed 4" in text
    assert 3 == text.count("Plotly.newPlot(")
    assert "<script src" not in text
    assert "<link" not in text
