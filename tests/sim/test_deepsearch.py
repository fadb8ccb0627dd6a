"""The workload `deepsearch` is what its parameter file says."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median

import pytest

from arl_tangram.core.kernel import Kernel
from arl_tangram.core.model import Quota
from arl_tangram.policies.registry import policy_named
from arl_tangram.sim.bounds import Bounds, bounds_of
from arl_tangram.sim.case import Case, Scenario
from arl_tangram.sim.catalogue import workload_named
from arl_tangram.sim.cluster import gpu_nodes
from arl_tangram.sim.deepsearch import deepsearch
from arl_tangram.sim.engine import simulate
from arl_tangram.sim.measure import Measures, measure
from arl_tangram.sim.pinned import best_widths
from arl_tangram.sim.workload import Workload, together

SAMPLE = deepsearch(seed=3)


def simulated(step: Workload) -> tuple[Measures, Bounds]:
    nodes = gpu_nodes("2")
    run = simulate(Kernel(policy_named("inflight")), step, nodes=nodes)
    return measure(run), bounds_of(step, nodes)


def test_a_step_is_searches_and_then_one_call_to_the_judge() -> None:
    assert 2048 == len(SAMPLE.trajectories)
    for trajectory in SAMPLE.trajectories:
        *searches, judgement = [turn.action for turn in trajectory.turns]
        assert {("search", None, 1)} == {
            (a.kind, a.service, a.needs["api:search"]) for a in searches
        }
        assert ("judge", "deepsearch-judge", {}) == (
            judgement.kind,
            judgement.service,
            judgement.needs,
        )


def test_searches_are_as_many_and_as_long_as_the_parameters_say() -> None:
    counts = [len(trajectory.turns) - 1 for trajectory in SAMPLE.trajectories]
    searches = [turn for turn in SAMPLE.turns() if turn.action.service is None]

    assert (2, 40) == (min(counts), max(counts))
    assert 12 == pytest.approx(median(counts), abs=0.5)
    assert 0.8 == pytest.approx(median(turn.work_s for turn in searches), rel=0.02)
    assert math.exp(1.165) == pytest.approx(median(t.think_s for t in SAMPLE.turns()), rel=0.02)


def test_judging_takes_as_long_as_the_tokens_on_one_device() -> None:
    works = [turn.work_s for turn in SAMPLE.turns() if turn.action.service is not None]

    assert 6000 / 24000 == pytest.approx(median(works), rel=0.05)


def test_the_api_allows_four_hundred_a_second_and_512_at_once() -> None:
    quota = Quota(name="search", rate_per_s=400.0, burst=400, concurrency=512)
    assert (quota,) == SAMPLE.quotas


def test_the_judge_is_a_model_like_the_teachers() -> None:
    (judge,) = SAMPLE.models
    teacher = workload_named("mopd", batch=1).models[0]

    assert judge.service.degrees == teacher.service.degrees
    assert judge.service.host_mib == teacher.service.host_mib
    assert judge.gigabytes == teacher.gigabytes


@pytest.mark.parametrize(
    ("gpus", "pinned"), [("2x8", (4, 4, 4, 4)), ("8", (2, 2, 2, 2)), ("2", (1, 1)), ("1", (1,))]
)
def test_a_static_deployment_has_four_judges_of_degree_four_if_it_can(
    gpus: str, pinned: tuple[int, ...]
) -> None:
    assert {"deepsearch-judge": pinned} == best_widths(SAMPLE, gpu_nodes(gpus))


def test_the_static_deployments_of_two_workloads_add_up() -> None:
    both = together([workload_named("mopd", batch=300), deepsearch(batch=300)])

    assert 52 == sum(w for widths in best_widths(both, gpu_nodes("7x8")).values() for w in widths)


def test_the_same_seed_is_the_same_step() -> None:
    assert deepsearch(batch=5, seed=7) == deepsearch(batch=5, seed=7)
    assert deepsearch(batch=5, seed=7) != deepsearch(batch=5, seed=8)


def test_a_step_has_at_least_one_trajectory() -> None:
    with pytest.raises(ValueError, match="batch=0"):
        deepsearch(batch=0)


def test_a_quota_of_one_name_is_one_quota_for_two_workloads_or_a_mistake() -> None:
    one = deepsearch(batch=1)
    apart = replace(one, trajectories=(), models=())
    other = replace(apart, quotas=(Quota(name="search"),))

    assert one.quotas == together([one, apart]).quotas
    with pytest.raises(ValueError, match="quota 'search' is in two of the workloads"):
        together([one, other])


@pytest.mark.parametrize("policy", ["static", "tangram", "inflight"])
def test_searches_and_judgements_run_on_shared_devices_within_the_quota(policy: str) -> None:
    scenario = Scenario(workload="mopd+deepsearch", batch=120, nodes="1", gpus="8+8")

    measures = Case(scenario=scenario, policy=policy).run()

    searches = sum(len(t.turns) - 1 for t in deepsearch(batch=120).trajectories)
    assert {"succeeded": 240 + searches} == measures.outcomes
    assert searches == measures.quotas["search"].tokens
    assert 0.0 == measures.quotas["search"].most_over
    assert 0.0 == measures.units_used_s
    assert {"judge", "score", "search"} == set(measures.act_mean_by_kind_s)


def test_a_tight_quota_is_used_up_while_anybody_waits_and_bounds_the_step() -> None:
    step = deepsearch(batch=40)
    tight = replace(step.quotas[0], rate_per_s=2.0, burst=5, concurrency=20)
    measures, bounds = simulated(replace(step, quotas=(tight,)))

    found = measures.quotas["search"]
    assert 0.0 == found.most_over
    assert found.used_while_waiting > 0.999
    assert found.waited_s > 30.0
    assert bounds.step_s <= measures.step_s < 1.3 * bounds.step_s
    assert bounds.step_s > (found.tokens - 5) / 2.0 - 1e-9


def test_calls_at_once_bound_the_step_too() -> None:
    step = deepsearch(batch=40)
    few = replace(step.quotas[0], rate_per_s=None, concurrency=2)
    measures, bounds = simulated(replace(step, quotas=(few,)))

    found = measures.quotas["search"]
    assert 2 == found.most_at_once
    assert found.used_while_waiting > 0.999
    assert bounds.work_s == bounds.step_s <= measures.step_s < 1.3 * bounds.step_s
