from __future__ import annotations

import math
from statistics import fmean, median, pstdev

import pytest

from arl_tangram.core.model import CPU, MEMORY, MILLI, Action
from arl_tangram.core.speedup import Roofline
from arl_tangram.sim.coding import coding
from arl_tangram.sim.workload import Turn, Workload, as_static


@pytest.fixture(scope="module")
def step() -> Workload:
    return coding(seed=1)


def steps_of(workload: Workload) -> list[Turn]:
    return [turn for t in workload.trajectories for turn in t.turns[:-1]]


def rewards_of(workload: Workload) -> list[Turn]:
    return [t.turns[-1] for t in workload.trajectories]


def is_rigid_on_one_core(action: Action) -> bool:
    return action.elastic is None and {CPU: MILLI} == dict(action.needs)


def logs(values: list[float]) -> tuple[float, float]:
    """Mean and deviation of the logarithms."""
    return fmean(map(math.log, values)), pstdev(map(math.log, values))


def test_the_same_seed_gives_the_same_workload_and_another_one_another() -> None:
    assert coding(batch=5, seed=2) == coding(batch=5, seed=2)
    assert coding(batch=5, seed=2) != coding(batch=5, seed=3)


def test_a_larger_batch_begins_with_the_smaller_one() -> None:
    assert coding(batch=5).trajectories == coding(batch=9).trajectories[:5]


def test_a_batch_has_1280_trajectories_that_all_arrive_at_0(step: Workload) -> None:
    assert 1280 == len(step.trajectories)
    assert {0.0} == {t.start_s for t in step.trajectories}
    assert {256} == {t.environment.needs[MEMORY] for t in step.trajectories if t.environment}


def test_a_trajectory_has_2_to_120_steps_with_a_median_of_24(step: Workload) -> None:
    lengths = [len(t.turns) - 1 for t in step.trajectories]

    assert (2, 120) == (min(lengths), max(lengths))
    assert 24 == pytest.approx(median(lengths), abs=1.5)


def test_the_model_thinks_log_normally_before_every_action(step: Workload) -> None:
    assert (1.165, 0.571) == pytest.approx(logs([t.think_s for t in step.turns()]), abs=0.01)


def test_steps_are_rigid_on_one_core_and_cut_off_at_120_seconds(step: Workload) -> None:
    turns = steps_of(step)

    assert all(is_rigid_on_one_core(turn.action) for turn in turns)
    assert {120.0} == {turn.action.timeout_s for turn in turns}
    assert 120.0 == max(turn.work_s for turn in turns)


def test_37_percent_of_the_steps_are_shell_calls_and_1_5_percent_of_those_hang(
    step: Workload,
) -> None:
    turns = steps_of(step)
    shell = [turn.work_s for turn in turns if turn.action.kind == "bash"]

    assert 0.37 == pytest.approx(len(shell) / len(turns), abs=0.01)
    assert 0.015 == pytest.approx(sum(s == 120.0 for s in shell) / len(shell), abs=0.003)


def test_other_tools_and_shell_calls_last_as_long_as_they_were_fitted(step: Workload) -> None:
    turns = steps_of(step)
    other = [turn.work_s for turn in turns if turn.action.kind == "tool"]
    shell = [turn.work_s for turn in turns if turn.action.kind == "bash" and turn.work_s < 120.0]
    mean = 0.45 * 0.774 + 0.55 * -1.768
    spread = math.sqrt(0.45 * (1.083**2 + 0.774**2) + 0.55 * (1.414**2 + 1.768**2) - mean**2)

    assert (-2.709, 1.315) == pytest.approx(logs(other), abs=0.02)
    assert (mean, spread) == pytest.approx(logs(shell), abs=0.03)


def test_the_reward_is_elastic_up_to_the_cap_of_one_of_five_suites(step: Workload) -> None:
    rewards = rewards_of(step)
    work = [turn.work_s for turn in rewards]
    caps = [turn.speedup.cap for turn in rewards if isinstance(turn.speedup, Roofline)]

    assert 30.0 == pytest.approx(median(work), rel=0.1)
    assert max(work) <= 1200.0
    assert {16.98, 9.73, 71.91, 11.87, 2.4} == set(caps)
    assert all(0.17 < caps.count(cap) / 1280 < 0.23 for cap in set(caps))
    assert {tuple(range(1, 17))} == {turn.allowed_units() for turn in rewards}
    assert all(t.action.elastic and t.action.elastic.resizable for t in rewards)


def test_a_static_environment_owns_three_cores_and_its_actions_hold_none(step: Workload) -> None:
    static = as_static(coding(batch=10, seed=1), cores=3)

    assert {3000} == {t.environment.needs[CPU] for t in static.trajectories if t.environment}
    assert {256} == {t.environment.needs[MEMORY] for t in static.trajectories if t.environment}
    assert all({} == dict(t.action.needs) and not t.action.elastic for t in static.turns())
    assert {1} == {turn.units for turn in steps_of(static)}
    assert {3} == {turn.units for turn in rewards_of(static)}


def test_a_batch_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="batch=0: a step has at least 1 trajectory"):
        coding(batch=0)


def test_a_container_of_no_cores_is_refused() -> None:
    with pytest.raises(ValueError, match="cores=0: a container owns at least 1 core"):
        as_static(coding(batch=1), cores=0)
