from __future__ import annotations

import json

import pytest

from arl_tangram.sim.case import Scenario
from arl_tangram.sim.comparison import Comparison, compared
from arl_tangram.sim.figures import act_curves, colours_of, step_against_bound, units_over_time
from arl_tangram.sim.page import Chapter, Panel, TableOf, page
from arl_tangram.sim.report import said_of, table_of


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    scenario = Scenario(workload="coding", batch=6, nodes="8")
    (found,) = compared([scenario], ["static", "inflight"], seeds=[0], processes=1)
    return found


def test_the_table_has_a_row_for_every_policy_and_one_for_the_bounds(comparison) -> None:
    table = table_of(comparison)

    assert ["static", "inflight", "bound"] == [row[0] for row in table.rows]
    assert {len(table.heads)} == {len(row) for row in table.rows}
    assert ["1.00 x", "1.00 x"] == list(table.rows[0][-2:])


def test_the_text_says_what_was_simulated(comparison) -> None:
    said = said_of(comparison)

    assert "6 trajectories with" in said
    assert "on 1 node (8, 8 cores), seed 0; durations learned from what finished" in said
    assert "owns a container of 3 cores" in said


def test_a_step_that_did_not_run_whole_has_no_ratios() -> None:
    scenario = Scenario(workload="coding", batch=3, nodes="2")
    (found,) = compared([scenario], ["static", "inflight"], seeds=[0], processes=1)

    assert found.gain("inflight", "step_s") is None
    assert found.step_over_bound("static") is None
    assert "Under static, 3 trajectories fit on no node and did not run." in said_of(found)
    assert "NaN" not in json.dumps(found.as_json())


def test_a_policy_has_the_same_colour_beside_any_others() -> None:
    few, many = colours_of(["inflight"]), colours_of(["fixed:4", "inflight", "equi"])

    assert few["inflight"] == many["inflight"]
    assert 3 == len(set(many.values()))


def test_the_completion_times_are_drawn_on_a_logarithmic_axis_that_has_no_zero() -> None:
    figure = act_curves({"inflight": [(0.0, 0.0), (1.0, 9.0)]}, means={"inflight": 4.5})

    assert [0.001, 9.0] == figure["data"][0]["x"]
    assert "log" == figure["layout"]["xaxis"]["type"]
    assert "inflight (mean 4.5 s)" == figure["data"][0]["name"]


def test_units_over_time_are_steps_below_a_line_of_all_there_are() -> None:
    curve = [(0.0, 2.0), (1.0, 4.0)]

    figure = units_over_time({"equi": curve}, used={"equi": curve}, capacity=8)

    assert ["equi: held", "equi: at work"] == [each["name"] for each in figure["data"]]
    assert "hv" == figure["data"][0]["line"]["shape"]
    assert 8 == figure["layout"]["shapes"][0]["y0"]


def test_a_step_is_told_as_a_multiple_of_its_bound() -> None:
    figure = step_against_bound({"inflight": 110.0}, bound_s=100.0)

    assert ["110 s, 1.10 x bound"] == figure["data"][0]["text"]


def test_text_from_outside_cannot_become_markup() -> None:
    nasty = "</script><b>"
    figure = step_against_bound({nasty: 1.0}, bound_s=1.0)
    table = TableOf(heads=[nasty], rows=[[nasty]])
    chapter = Chapter(
        title=nasty,
        about=nasty,
        panels=[Panel(title=nasty, content=figure), Panel(title="t", about=nasty, content=table)],
    )

    assert nasty not in page(nasty, about=nasty, chapters=[chapter])
