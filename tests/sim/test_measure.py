from __future__ import annotations

import pytest

from arl_tangram.sim.cluster import cluster
from arl_tangram.sim.engine import simulate
from arl_tangram.sim.measure import measure, quantile


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1.0), (0.125, 1.5), (0.5, 4.0), (0.99, 8.84), (1.0, 9.0)]
)
def test_a_quantile_is_linear_between_its_neighbours(share: float, expected: float) -> None:
    assert expected == pytest.approx(quantile([1.0, 2.0, 4.0, 5.0, 9.0], share))


def test_the_quantile_of_nothing_is_zero() -> None:
    assert 0.0 == quantile([], 0.5)


def test_completion_time_is_queue_plus_overhead_plus_run(first_come, turn, workload) -> None:
    step = workload(
        [turn("a", work_s=2.0, environment="e0")],
        [turn("b", work_s=1.0, environment="e1")],
        environments=True,
    )

    measures = measure(simulate(first_come(), step, nodes=cluster("1"), open_s=0.25))

    assert 2 == measures.actions
    assert (2.25 + 3.25) / 2 == measures.act_mean_s
    assert measures.act_mean_s == pytest.approx(
        measures.queue_mean_s + measures.overhead_mean_s + measures.run_mean_s
    )
    assert (1.0, 0.25, 1.5) == (
        measures.queue_mean_s,
        measures.overhead_mean_s,
        measures.run_mean_s,
    )
    assert {"succeeded": 2} == measures.outcomes
    assert {"test": 2.75} == measures.act_mean_by_kind_s
    assert 3.0 / 3.25 == measures.utilization
