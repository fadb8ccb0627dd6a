"""A step whose actions call services, through the kernel."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from arl_tangram.core.commands import Command
from arl_tangram.core.events import Event
from arl_tangram.core.kernel import Kernel
from arl_tangram.core.model import Outcome
from arl_tangram.errors import ConfigError
from arl_tangram.policies.registry import policy_named
from arl_tangram.sim.bounds import bounds_of
from arl_tangram.sim.case import Case, Scenario
from arl_tangram.sim.catalogue import workload_named
from arl_tangram.sim.cluster import gpu_nodes
from arl_tangram.sim.comparison import compared
from arl_tangram.sim.deepsearch import deepsearch
from arl_tangram.sim.engine import simulate
from arl_tangram.sim.mopd import mopd
from arl_tangram.sim.report import said_of, table_of
from arl_tangram.sim.trace import read_trace
from arl_tangram.sim.written import write_trace

STEP = Scenario(workload="mopd", batch=300, nodes="1", gpus="8+2")


def journal(gpus: str, *, seed: int) -> list[tuple[Event, tuple[Command, ...]]]:
    lines: list[tuple[Event, tuple[Command, ...]]] = []
    simulate(
        Kernel(policy_named("inflight")),
        mopd(batch=100, seed=seed),
        nodes=gpu_nodes(gpus),
        observe=lambda event, commands: lines.append((event, tuple(commands))),
    )
    return lines


def test_the_same_seed_is_the_same_journal() -> None:
    assert journal("4", seed=5) == journal("4", seed=5)


def test_the_books_balance_all_the_way() -> None:
    kernel = Kernel(policy_named("inflight"))

    run = simulate(
        kernel,
        mopd(batch=120),
        nodes=gpu_nodes("4+2"),
        observe=lambda _event, _commands: kernel.check(),
    )

    assert {Outcome.SUCCEEDED} == {record.outcome for record in run.actions}
    assert {} == kernel._cluster.entries


@pytest.mark.parametrize("policy", ["static", "tangram", "inflight", "fixed:2"])
def test_every_call_is_answered_under(policy: str) -> None:
    measures = Case(scenario=STEP, policy=policy).run()

    assert {"succeeded": 300} == measures.outcomes
    assert measures.act_mean_s == pytest.approx(
        measures.queue_mean_s + measures.overhead_mean_s + measures.run_mean_s
    )
    bounds = STEP.bounds()
    assert measures.step_s >= bounds.step_s
    assert measures.act_mean_s >= bounds.act_mean_s


def test_one_pinned_instance_each_is_restored_once_and_never_again() -> None:
    assert 9 == Case(scenario=STEP, policy="static").run().restores


def test_the_work_of_calls_is_what_the_devices_did() -> None:
    workload = mopd(batch=50)
    run = simulate(Kernel(policy_named("inflight")), workload, nodes=gpu_nodes("2x8"))

    assert sum(t.work_s for t in workload.turns()) == pytest.approx(run.gpus_used_s)
    assert run.gpus_held.integral >= run.gpus_used_s


def test_restores_are_slower_where_the_host_sends_less() -> None:
    tight = replace(STEP, gpus="4", host_gb_per_s=25.0)
    roomy = replace(STEP, gpus="4", host_gb_per_s=400.0)

    slow = Case(scenario=tight, policy="inflight").run()
    fast = Case(scenario=roomy, policy="inflight").run()

    assert slow.act_mean_s > fast.act_mean_s


@pytest.mark.slow
def test_instances_follow_the_popular_services_and_beat_a_deployment_with_hindsight() -> None:
    scenario = Scenario(workload="mopd", nodes="1", gpus="8+3")
    (found,) = compared([scenario], ["static", "inflight"], seeds=[0, 1], processes=1)

    assert found.mean("inflight", "act_mean_s") < 0.97 * found.mean("static", "act_mean_s")
    assert found.mean("inflight", "step_s") < 1.01 * found.mean("static", "step_s")


@pytest.mark.slow
def test_fewer_devices_than_services_answer_within_a_second_on_average() -> None:
    measures = Case(
        scenario=Scenario(workload="mopd", nodes="1", gpus="8"), policy="inflight"
    ).run()

    assert measures.act_mean_s < 1.1
    assert measures.overhead_mean_s < 0.3 * measures.act_mean_s


def test_several_workloads_are_one_step_on_the_same_cluster() -> None:
    both = workload_named("coding+mopd", batch=20)

    assert 40 == len(both.trajectories)
    assert 9 == len(both.models)
    scenario = Scenario(workload="coding+mopd", batch=20, nodes="64", gpus="8")
    measures = Case(scenario=scenario, policy="inflight").run()
    assert {"coding", "mopd"} == set(measures.step_by_task_s)
    assert measures.step_s == max(measures.step_by_task_s.values())


def test_one_workload_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="'mopd-teacher-1' is in two of the workloads"):
        workload_named("mopd+mopd", batch=2)


def test_services_without_gpus_are_refused() -> None:
    with pytest.raises(ConfigError, match="give nodes with GPUs, as in --gpus 5x8"):
        Scenario(workload="mopd", batch=2).build()


def test_the_bounds_know_cells_and_all_work_over_all_devices() -> None:
    workload = mopd(batch=40)
    narrow, wide = bounds_of(workload, gpu_nodes("1")), bounds_of(workload, gpu_nodes("4"))

    assert sum(t.work_s for t in workload.turns()) == pytest.approx(narrow.work_s)
    assert wide.act_mean_s == pytest.approx(narrow.act_mean_s * 0.325)


def test_the_table_tells_of_restores_and_devices() -> None:
    (found,) = compared([STEP], ["static", "inflight"], seeds=[0], processes=1)
    table = table_of(found)

    assert {"restoring", "restores", "GPUs at work"} <= set(table.heads)
    assert {len(table.heads)} == {len(row) for row in table.rows}
    assert "and 10 GPUs (8+2)" in said_of(found)
    assert "their widths chosen with hindsight" in said_of(found)


def test_a_trace_holds_calls_to_services() -> None:
    workload = mopd(batch=5)

    again = read_trace(write_trace(workload), name="mopd")

    assert workload.trajectories == again.trajectories
    called = {turn.action.service for turn in workload.turns()}
    models = {model.service.name: model for model in workload.models}
    assert {name: models[name] for name in called} == {m.service.name: m for m in again.models}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"resource": "tpu:x"}, "resource='tpu:x': give 'cpu', 'gpu:SERVICE' or 'api:NAME'"),
        ({"resource": "gpu:x", "units": [3]}, "gpus=3: a cell has 1, 2, 4 or 8 devices"),
        ({"resource": "gpu:x", "weights_gb": -1}, "weights_gb=-1.0: give gigabytes"),
    ],
)
def test_a_call_that_no_trace_can_hold_is_refused(line: dict[str, object], message: str) -> None:
    text = json.dumps({"trajectory": "t", "work_s": 1.0, **line})

    with pytest.raises(ConfigError, match=message):
        read_trace([text], name="mine")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"units": [1, 2]}, "a call to an API takes one number of tokens as its units"),
        ({"speedup": {"amdahl": 0.1}}, "resource='api:x': a call to an API takes one number"),
        ({"quota": 5}, "quota=5: give an object of rate_per_s, burst, concurrency"),
        ({"quota": {"rate": 5}}, "give an object of rate_per_s, burst, concurrency"),
        ({"quota": {"rate_per_s": 0}}, "rate_per_s=0.0: a rate is above zero"),
        ({"quota": {"concurrency": 0}}, "concurrency=0: calls at once are at least 1"),
    ],
)
def test_a_call_to_an_api_that_no_trace_can_hold_is_refused(
    line: dict[str, object], message: str
) -> None:
    text = json.dumps({"trajectory": "t", "work_s": 1.0, "resource": "api:x", **line})

    with pytest.raises(ConfigError, match=message):
        read_trace([text], name="mine")


def test_a_quota_with_two_faces_in_a_trace_is_refused() -> None:
    lines = [
        json.dumps(
            {"trajectory": "t", "work_s": 1.0, "resource": "api:x", "quota": {"rate_per_s": rate}}
        )
        for rate in (1, 2)
    ]

    with pytest.raises(ConfigError, match="line 2: resource='api:x': quota differs"):
        read_trace(lines, name="mine")


def test_a_trace_holds_calls_to_apis() -> None:
    workload = deepsearch(batch=3)

    again = read_trace(write_trace(workload), name="deepsearch")

    assert workload.trajectories == again.trajectories
    assert workload.quotas == again.quotas


def test_the_first_trajectories_of_a_trace_keep_their_services_and_quotas(tmp_path: Path) -> None:
    trace = tmp_path / "deepsearch.jsonl"
    trace.write_text("".join(write_trace(deepsearch(batch=3))))

    found = workload_named(str(trace), batch=2)

    assert (2, 1, 1) == (len(found.trajectories), len(found.models), len(found.quotas))


def test_a_service_with_two_faces_in_a_trace_is_refused() -> None:
    lines = [
        json.dumps({"trajectory": "t", "work_s": 1.0, "resource": "gpu:x", "weights_gb": gb})
        for gb in (10, 20)
    ]

    with pytest.raises(
        ConfigError, match="line 2: resource='gpu:x': units, speedup and weights_gb"
    ):
        read_trace(lines, name="mine")
