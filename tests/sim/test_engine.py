from __future__ import annotations

import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.core.speedup import Amdahl, Roofline
from arl_tangram.sim.cluster import cluster
from arl_tangram.sim.engine import simulate
from arl_tangram.sim.measure import measure
from arl_tangram.sim.workload import as_static


def test_an_action_waits_for_the_one_before_it_on_a_single_core(first_come, turn, workload) -> None:
    step = workload([turn("a", work_s=2.0)], [turn("b", think_s=0.5, work_s=1.0)])

    run = simulate(first_come(), step, nodes=cluster("1"))

    assert [(0.0, 0.0, 2.0), (0.5, 2.0, 3.0)] == [
        (a.submitted_at, a.started_at, a.ended_at) for a in run.actions
    ]
    assert 3.0 == run.step_s


def test_a_trajectory_thinks_again_when_its_action_has_ended(first_come, turn, workload) -> None:
    step = workload([turn("a", think_s=1.0, work_s=2.0), turn("b", think_s=0.5, work_s=0.25)])

    run = simulate(first_come(), step, nodes=cluster("1"))

    assert [1.0, 3.5] == [a.submitted_at for a in run.actions]
    assert 3.75 == run.step_s


def test_an_action_runs_at_the_speed_of_its_units(first_come, turn, workload) -> None:
    step = workload([turn("a", work_s=12.0, units=(4, 8), speedup=Amdahl(serial=0.0))])

    run = simulate(first_come(), step, nodes=cluster("8"))

    assert 3.0 == run.step_s


def test_a_resize_changes_the_speed_at_once(first_come, turn, workload) -> None:
    step = workload([turn("a", work_s=10.0, units=(1, 4), speedup=Roofline(cap=16))])

    run = simulate(first_come(grow_at=2.0), step, nodes=cluster("4"))

    assert 2.0 + 8.0 / 4 == run.step_s
    assert 2.0 * 1 + 2.0 * 4 == run.held.integral
    assert 10.0 == run.units_used_s


def test_every_unit_that_is_added_pays_its_start_up(first_come, turn, workload) -> None:
    curve = Roofline(cap=16, startup_s=0.5)
    step = workload([turn("a", work_s=10.0, units=(1, 3), speedup=curve)])

    run = simulate(first_come(grow_at=2.5), step, nodes=cluster("4"))

    assert 2.5 + 2 * 0.5 + 8.0 / 3 == pytest.approx(run.step_s)
    assert 11.5 == pytest.approx(run.units_used_s)


def test_units_beyond_the_cap_of_a_roofline_are_held_and_not_used(
    first_come, turn, workload
) -> None:
    step = workload([turn("a", work_s=10.0, units=(4, 8), speedup=Roofline(cap=2.5))])

    run = simulate(first_come(), step, nodes=cluster("8"))
    measures = measure(run)

    assert 4.0 == run.step_s
    assert (16.0, 10.0) == (measures.units_reserved_s, measures.units_used_s)
    assert 10.0 / (8 * 4.0) == measures.utilization


def test_a_run_is_cut_off_at_its_time_limit(first_come, turn, workload) -> None:
    step = workload([turn("a", work_s=10.0, timeout_s=3.0), turn("b", work_s=1.0)])

    run = simulate(first_come(), step, nodes=cluster("1"))

    assert [(Outcome.TIMED_OUT, 3.0), (Outcome.SUCCEEDED, 4.0)] == [
        (a.outcome, a.ended_at) for a in run.actions
    ]


def test_an_action_waits_until_its_environment_is_open(first_come, turn, workload) -> None:
    step = workload([turn("a", think_s=1.0, environment="e0")], environments=True)

    run = simulate(first_come(), step, nodes=cluster("1"), open_s=3.0)
    measures = measure(run)

    assert [(1.0, 3.0)] == [(a.submitted_at, a.started_at) for a in run.actions]
    assert (0.0, 2.0, 1.0, 3.0) == (
        measures.queue_mean_s,
        measures.overhead_mean_s,
        measures.run_mean_s,
        measures.act_mean_s,
    )


def test_a_static_trajectory_waits_for_the_cores_of_another_to_come_back(
    first_come, turn, workload
) -> None:
    step = workload(
        [turn("a", think_s=5.0, work_s=12.0, units=(1, 2, 3, 4), speedup=Roofline(cap=16))],
        [turn("b", think_s=5.0, work_s=6.0, units=(1, 2, 3, 4), speedup=Roofline(cap=2))],
    )

    run = simulate(first_come(), as_static(step, cores=3), nodes=cluster("5"))

    # The first owns 3 cores from 0 to 9; the second was ready at 5 and then runs on 2 of its 3.
    assert [(5.0, 5.0, 9.0), (5.0, 9.0, 12.0)] == [
        (a.submitted_at, a.started_at, a.ended_at) for a in run.actions
    ]
    assert 3 * 12.0 == run.held.integral
    assert 18.0 == run.units_used_s


def test_a_static_container_that_no_node_can_hold_aborts_its_trajectory(
    first_come, turn, workload
) -> None:
    step = as_static(workload([turn("a", think_s=1.0)]), cores=3)

    run = simulate(first_come(), step, nodes=cluster("2"))

    assert (1, 0) == (run.aborted, len(run.actions))


def test_a_kernel_that_forgets_an_action_is_reported(first_come, turn, workload) -> None:
    class Forgets(first_come):
        def _serve(self):
            return []

    with pytest.raises(RuntimeError, match="1 trajectories never ended; 1 actions wait"):
        simulate(Forgets(), workload([turn("a")]), nodes=cluster("1"))


def test_the_observer_sees_every_event_with_its_commands(first_come, turn, workload) -> None:
    seen = []

    run = simulate(
        first_come(),
        workload([turn("a", environment="e0")], environments=True),
        nodes=cluster("1"),
        observe=lambda event, commands: seen.append(
            (type(event).__name__, [type(c).__name__ for c in commands])
        ),
    )

    assert [
        ("NodeJoined", []),
        ("EnvironmentRequested", ["OpenEnvironment"]),
        ("ActionSubmitted", []),
        ("EnvironmentOpened", ["Start"]),
        ("ActionExited", ["Resolve"]),
        ("CloseRequested", ["CloseEnvironment"]),
        ("EnvironmentClosed", []),
    ] == seen
    assert len(seen) == run.events
