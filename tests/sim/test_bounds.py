from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl_tangram.core.speedup import Amdahl, PowerLaw, Roofline, Speedup, Table
from arl_tangram.sim.bounds import batch_act_s, best_run_s, bounds_of, least_work_s
from arl_tangram.sim.cluster import cluster
from arl_tangram.sim.engine import simulate
from arl_tangram.sim.measure import measure


def test_the_step_is_at_least_the_longest_trajectory_at_its_best_speed(turn, workload) -> None:
    wide = turn("b", think_s=2.0, work_s=12.0, units=(1, 2, 4), speedup=Roofline(cap=3))
    step = workload([turn("a", think_s=1.0, work_s=4.0), wide], [turn("c")])

    bounds = bounds_of(step, cluster("64"))

    assert 1.0 + 4.0 + 2.0 + 12.0 / 3 == bounds.critical_path_s == bounds.step_s
    assert (4.0 + 4.0 + 1.0) / 3 == bounds.act_mean_s


def test_the_step_is_at_least_all_work_over_the_cluster(turn, workload) -> None:
    step = workload(*([turn(f"a{i}", think_s=0.5, work_s=3.0)] for i in range(8)))

    assert 8 * 3.0 / 2 == bounds_of(step, cluster("2")).step_s


def test_no_action_runs_on_more_than_the_largest_node(turn) -> None:
    wide = turn("a", work_s=12.0, units=(1, 2, 4), speedup=Roofline(cap=4))

    assert (6.0, 3.0) == (best_run_s(wide, most=2), best_run_s(wide, most=256))


def test_start_up_makes_width_cost(turn) -> None:
    wide = turn("a", work_s=4.0, units=(1, 2, 4), speedup=Roofline(cap=4, startup_s=1.0))

    assert 2 * 1.0 + 4.0 / 2 == best_run_s(wide, most=4)
    assert 1.0 + 4.0 == least_work_s(wide)


def test_a_run_that_is_cut_off_holds_its_units_until_then(turn) -> None:
    assert 3.0 == best_run_s(turn("a", work_s=9.0, timeout_s=3.0), most=1)
    assert 6.0 == least_work_s(turn("a", work_s=9.0, timeout_s=3.0, units=(2,)))


def test_a_batch_present_together_is_served_shortest_first_on_all_cores(turn, workload) -> None:
    assert (1 * 8.0 + 2 * 4.0 + 3 * 2.0) / 2 == batch_act_s([2.0, 8.0, 4.0], 2)

    step = workload(*([turn(f"a{i}", work_s=w)] for i, w in enumerate((2.0, 8.0, 4.0))))

    assert 22.0 / 1 / 3 == bounds_of(step, cluster("1")).act_mean_s


curves = st.one_of(
    st.floats(1, 20).map(lambda cap: Roofline(cap=cap)),
    st.floats(0, 1).map(lambda serial: Amdahl(serial=serial)),
    st.floats(0, 1).map(lambda p: PowerLaw(p=p)),
    st.just(Table.of({2: 1.5, 4: 3.9})),
)


@given(speedup=curves, work_s=st.floats(0.01, 100), widths=st.lists(st.integers(1, 8), min_size=1))
def test_no_sequence_of_resizes_takes_less_than_the_least_work(
    turn, speedup: Speedup, work_s: float, widths: list[int]
) -> None:
    any_width = turn("a", work_s=work_s, units=tuple(range(1, 9)), speedup=speedup)

    spent, left = 0.0, work_s
    for units in widths:  # each width does half of what is left, the last one all of it
        part = left / 2
        spent += units * part / speedup.at(units)
        left -= part
    spent += widths[-1] * left / speedup.at(widths[-1])

    assert least_work_s(any_width) <= spent * (1 + 1e-9)


@pytest.mark.parametrize("nodes", ["1", "4"])
def test_a_first_come_run_is_never_better_than_the_bounds(
    first_come, turn, workload, nodes
) -> None:
    step = workload(
        *(
            [
                turn(f"a{i}", think_s=0.1 * i, work_s=1.0 + i % 3),
                turn(f"b{i}", work_s=5.0, units=(1, 2), speedup=Amdahl(serial=0.2)),
            ]
            for i in range(6)
        )
    )

    measures = measure(simulate(first_come(), step, nodes=cluster(nodes)))
    bounds = bounds_of(step, cluster(nodes))

    assert bounds.step_s <= measures.step_s * (1 + 1e-9)
    assert bounds.act_mean_s <= measures.act_mean_s * (1 + 1e-9)
