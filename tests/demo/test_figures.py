from __future__ import annotations

import json
from dataclasses import replace

import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.demo.coding import LOOKS, remarks
from arl_tangram.demo.figures import (
    disagreements,
    document,
    figures_of,
    ratio,
    share_in_actions,
)
from arl_tangram.demo.ledger import ENVIRONMENT, Span
from arl_tangram.demo.played import Act, Played
from arl_tangram.demo.report import report, table_of
from arl_tangram.demo.scene import Scene
from arl_tangram.demo.setting import Setting

SETTING = Setting(units=12, unit_cores=0.5)
SCENE = Scene(
    title="Some rollouts",
    about="About seed 4.",
    machine={"node": "m"},
    unit="unit",
    units={"count": 12},
    actions=1,
    play=lambda policy, told: never(),
    remarks=lambda steps: ["A remark."],
    looks=LOOKS,
)


async def never() -> Played:
    raise AssertionError("nothing is played here")


def act(queue_s: float = 0.0, run_s: float = 1.0, trajectory: str = "t", kind: str = "bash") -> Act:
    return Act(trajectory, kind, Outcome.SUCCEEDED, queue_s, 0.5, run_s)


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
        units=12,
        units_reserved_s=24.0,
        units_used_s=1.0,
        counts={},
    )


def test_the_parts_of_act_add_up() -> None:
    figures = figures_of(played("static", act(2.0, 1.0), act(0.0, 3.0), act(1.0, 0.5)))

    assert pytest.approx(figures.act_mean_s) == (
        figures.queue_mean_s + figures.overhead_mean_s + figures.run_mean_s
    )
    assert 3.5 == figures.act_p50_s


def test_the_share_of_life_in_actions_counts_no_queue() -> None:
    assert 0.25 == share_in_actions(played("static", act(5.0, 1.0), act(0.0, 1.0)))


def test_a_ratio_is_the_figure_of_static_over_the_other() -> None:
    steps = [played("static", act(run_s=4.0), step_s=30.0), played("inflight", step_s=10.0)]

    ratios = document(steps, SCENE)["ratios"]["inflight"]

    assert {"act_mean": 3.0, "step": 3.0, "units_reserved": 1.0} == ratios
    assert ratio(1.0, 0.0) is None


def test_the_document_has_the_figures_of_every_policy() -> None:
    steps = [played("static"), played("tangram")]

    said = json.loads(json.dumps(document(steps, SCENE)))

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

    assert {} == document(steps, SCENE)["ratios"]
    assert [] == remarks(Setting(units=15, unit_cores=1.0), steps)
    assert "1.5 s" == table_of(steps, SCENE).rows[1][1]


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

    assert ["mean ACT", "10 s", "2 s  (5.00 x)"] == list(table_of(steps, SCENE).rows[1])


def test_what_parts_of_a_core_do_to_the_comparison_is_told() -> None:
    share, parts = remarks(SETTING, [played("static")])

    assert "spends 0.12 of its life in actions" in share
    assert "one core, 2 units here" in parts


def test_what_else_was_counted_has_rows_of_its_own() -> None:
    steps = [played("static"), replace(played("inflight"), counts={"restores": 7}, units=6)]

    rows = table_of(steps, SCENE).rows

    assert ["units", "12", "6"] == list(rows[0])
    assert ["restores", "", "7"] == list(rows[-1])


def test_rewards_that_differ_by_rounding_are_the_same() -> None:
    assert [] == disagreements([played("static"), played("inflight", reward=1.00001)])
    assert 1 == len(disagreements([played("static"), played("inflight", reward=1.001)]))


def test_the_report_is_one_file_that_needs_no_network() -> None:
    text = report([played("static"), played("inflight")], SCENE)

    assert "seed 4" in text
    assert 3 == text.count("Plotly.newPlot(")
    assert "<script src" not in text
    assert "<link" not in text
