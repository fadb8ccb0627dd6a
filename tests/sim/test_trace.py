from __future__ import annotations

import json
from typing import Any

import pytest

from arl_tangram.core.model import CPU, MEMORY
from arl_tangram.core.speedup import Amdahl, PowerLaw, Roofline, Table
from arl_tangram.errors import ConfigError
from arl_tangram.sim.coding import coding
from arl_tangram.sim.trace import read_trace
from arl_tangram.sim.workload import Turn, Workload
from arl_tangram.sim.written import write_trace

EXAMPLE = {
    "task": "coding",
    "trajectory": "t17",
    "seq": 3,
    "kind": "bash",
    "start_s": 1.5,
    "think_s": 2.9,
    "resource": "cpu",
    "units": [1, 16],
    "work_s": 0.41,
    "speedup": {"amdahl": 0.05},
    "resizable": False,
    "environment_mib": 256,
}


def trace(*rows: dict[str, Any]) -> Workload:
    return read_trace([json.dumps(row) for row in rows], name="trace.jsonl")


def only_turn(**changes: Any) -> Turn:
    row = {k: v for k, v in (EXAMPLE | changes).items() if v is not None}
    return trace(row).trajectories[0].turns[0]


def test_a_line_says_all_about_an_action() -> None:
    (trajectory,) = trace(EXAMPLE).trajectories
    (turn,) = trajectory.turns

    assert ("coding", "t17", 1.5) == (trajectory.task, trajectory.id, trajectory.start_s)
    assert trajectory.environment is not None
    assert {MEMORY: 256} == dict(trajectory.environment.needs)
    assert (2.9, 0.41, Amdahl(serial=0.05)) == (turn.think_s, turn.work_s, turn.speedup)
    assert ("coding/t17/3", "bash") == (turn.action.id, turn.action.kind)
    assert trajectory.environment.id == turn.action.environment
    assert turn.action.elastic is not None
    assert tuple(range(1, 17)) == turn.action.elastic.units
    assert not turn.action.elastic.resizable


def test_a_line_may_say_next_to_nothing() -> None:
    (trajectory,) = trace({"trajectory": "t", "work_s": 2}).trajectories
    (turn,) = trajectory.turns

    assert (None, 0.0) == (trajectory.environment, trajectory.start_s)
    assert (0.0, 2.0, (1,), {CPU: 1000}) == (
        turn.think_s,
        turn.work_s,
        turn.allowed_units(),
        dict(turn.action.needs),
    )


def test_lines_of_different_trajectories_may_be_mixed() -> None:
    rows = [{"trajectory": name, "work_s": 1} for name in ("a", "b", "a")]

    assert [("a", ["default/a/0", "default/a/1"]), ("b", ["default/b/0"])] == [
        (t.id, [turn.action.id for turn in t.turns]) for t in trace(*rows).trajectories
    ]


def test_an_environment_holds_the_most_that_any_of_its_actions_says() -> None:
    rows = [
        {"trajectory": "t", "work_s": 1, "environment_mib": 100},
        {"trajectory": "t", "work_s": 1, "environment_mib": 300},
        {"trajectory": "t", "work_s": 1},
    ]
    (trajectory,) = trace(*rows).trajectories

    assert trajectory.environment is not None
    assert {MEMORY: 300} == dict(trajectory.environment.needs)
    assert {trajectory.environment.id} == {turn.action.environment for turn in trajectory.turns}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"roofline": 9.73}, Roofline(cap=9.73)),
        ({"amdahl": 0.1, "startup_s": 0.5}, Amdahl(serial=0.1, startup_s=0.5)),
        ({"power": 0.5}, PowerLaw(p=0.5)),
        ({"table": {"2": 1.9, "8": 4}}, Table.of({2: 1.9, 8: 4.0})),
    ],
)
def test_every_form_of_speed_up_is_read(said: dict[str, Any], meant: object) -> None:
    assert meant == only_turn(speedup=said).speedup


def test_a_list_of_three_or_more_names_the_allowed_amounts() -> None:
    assert (1, 4, 16) == only_turn(units=[1, 4, 16]).allowed_units()


def test_without_a_speed_up_an_action_is_rigid_on_its_least_amount() -> None:
    turn = only_turn(units=[2, 4], speedup=None)

    assert (None, {CPU: 2000}) == (turn.action.elastic, dict(turn.action.needs))


def test_one_amount_is_rigid_and_runs_at_the_speed_of_that_amount() -> None:
    turn = only_turn(units=4, speedup={"roofline": 16})

    assert (None, 4, 4.0) == (turn.action.elastic, turn.units, turn.speedup.at(turn.units))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"work_s": -1}, "work_s=-1: give seconds, at least 0"),
        ({"work_s": None}, "work_s is missing: give seconds"),
        ({"work_s": float("inf")}, "work_s=inf: give seconds"),
        ({"think_s": "2"}, "think_s='2': give seconds"),
        ({"units": 0}, "units=0: give one whole number from 1 up"),
        ({"units": [4, 2]}, r"units=\[4, 2\]: give"),
        ({"units": []}, r"units=\[\]: give"),
        ({"units": [1, 1000000]}, "at most 4096 units"),
        ({"units": 1.5}, "units=1.5: give"),
        ({"resource": "disk"}, "resource='disk': give 'cpu', 'gpu:SERVICE' or 'api:NAME'"),
        ({"speedup": 2}, "speedup=2: give one of"),
        ({"speedup": {"gustafson": 2}}, "speedup={'gustafson': 2}: give one of"),
        ({"speedup": {"roofline": 0.5}}, "cap=0.5: a speed-up cap is at least 1"),
        ({"speedup": {"amdahl": True}}, "True is not a number"),
        ({"speedup": {"table": {"2": 3, "4": 2}}}, "more units are never slower"),
        ({"resizable": "yes"}, "resizable='yes': give true or false"),
        ({"environment_mib": 1.5}, "environment_mib=1.5: give a whole number"),
        ({"trajectory": None}, "trajectory is missing: give a name"),
        ({"trajectory": 17}, "trajectory=17: give a name, in quotes"),
        ({"work": 1}, "'work' is not a field; did you mean 'work_s'?"),
        ({"zebra": 1}, "'zebra' is not a field; the fields are task, trajectory"),
    ],
)
def test_a_bad_line_gives_its_number_the_field_the_value_and_the_mend(
    changes: dict[str, Any], message: str
) -> None:
    good = EXAMPLE | {"trajectory": "other"}
    bad = {k: v for k, v in (EXAMPLE | changes).items() if v is not None}

    with pytest.raises(ConfigError, match=r"trace.jsonl, line 2: ") as caught:
        trace(good, bad)

    caught.match(message)


def test_actions_out_of_order_are_refused() -> None:
    with pytest.raises(ConfigError, match="line 2: seq=3: trajectory 't17' is at 3 already"):
        trace(EXAMPLE, EXAMPLE)


@pytest.mark.parametrize("text", ["{", "[1]", "hello"])
def test_what_is_not_a_json_object_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"line 1: .*give one object a line"):
        read_trace([text], name="trace.jsonl")


def test_an_empty_trace_is_refused() -> None:
    with pytest.raises(ConfigError, match="it holds no actions"):
        read_trace(["\n"], name="trace.jsonl")


def test_a_workload_that_is_written_is_read_back_the_same() -> None:
    step = coding(batch=20, seed=3)

    assert step.trajectories == read_trace(write_trace(step), name="coding").trajectories


def test_every_form_of_speed_up_survives_writing() -> None:
    rows = [
        {"trajectory": "t", "work_s": 1, "units": [1, 4], "speedup": speedup}
        for speedup in (
            {"roofline": 1.0},
            {"amdahl": 0.1, "startup_s": 0.5},
            {"power": 0.5},
            {"table": {"2": 1.9}},
        )
    ]
    rows.append({"trajectory": "t", "work_s": 1, "units": [1, 4, 8], "speedup": {"power": 1}})
    rows.append({"trajectory": "t", "work_s": 1, "units": 4})
    step = trace(*rows)

    assert step.trajectories == read_trace(write_trace(step), name="again").trajectories


def test_a_pair_that_would_read_as_a_range_is_not_written() -> None:
    turns = only_turn(units=[1, 4, 8])
    assert turns.action.elastic is not None
    object.__setattr__(turns.action.elastic, "units", (1, 8))
    step = trace(EXAMPLE)
    object.__setattr__(step.trajectories[0], "turns", (turns,))

    with pytest.raises(ValueError, match="a trace reads a pair as a range"):
        list(write_trace(step))
