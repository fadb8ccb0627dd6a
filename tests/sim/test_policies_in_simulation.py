from __future__ import annotations

import hashlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arl_tangram.core.commands import Command
from arl_tangram.core.estimates import Oracle
from arl_tangram.core.events import Event
from arl_tangram.core.kernel import Kernel
from arl_tangram.core.speedup import Amdahl, PowerLaw, Roofline
from arl_tangram.policies.registry import policy_named
from arl_tangram.sim.bounds import bounds_of
from arl_tangram.sim.case import Case, Scenario
from arl_tangram.sim.cluster import cluster
from arl_tangram.sim.engine import simulate
from arl_tangram.sim.measure import measure
from arl_tangram.sim.trace import read_trace
from arl_tangram.sim.workload import Workload, as_static
from arl_tangram.sim.written import write_trace

POLICIES = ("inflight", "tangram", "fixed:4", "equi", "hesrpt", "static")
SMALL = Scenario(workload="coding", batch=30, nodes="2x12", seed=5)


def fingerprint(policy: str, scenario: Scenario = SMALL) -> str:
    """A digest of every event and command of a run."""
    digest = hashlib.sha256()

    def observe(event: Event, commands: Sequence[Command]) -> None:
        digest.update(repr((event, commands)).encode())

    Case(scenario=scenario, policy=policy).run(observers=[observe])
    return digest.hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_journal(policy: str) -> None:
    assert fingerprint(policy) == fingerprint(policy)


def test_another_seed_gives_another_journal() -> None:
    other = Scenario(workload="coding", batch=30, nodes="2x12", seed=6)

    assert fingerprint("inflight") != fingerprint("inflight", other)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["inflight", "tangram", "static"])
def test_the_journal_does_not_depend_on_the_hash_seed_of_the_interpreter(policy: str) -> None:
    imports = """
import hashlib
from arl_tangram.sim.case import Case, Scenario
SMALL = Scenario(workload="coding", batch=30, nodes="2x12", seed=5)
"""
    source = "from __future__ import annotations\n" + imports + inspect.getsource(fingerprint)
    program = f"{source}\nprint(fingerprint({policy!r}))"

    digests = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert digests[0] == digests[1] == fingerprint(policy) + "\n"


def test_a_workload_gives_the_same_run_when_it_went_through_a_trace() -> None:
    step, nodes = SMALL.build()
    again = read_trace(write_trace(step), name="again")

    runs = [
        measure(simulate(Kernel(policy_named("inflight")), each, nodes=nodes))
        for each in (step, again)
    ]

    assert runs[0] == runs[1]


speedups = st.one_of(
    st.builds(Roofline, cap=st.floats(1, 8), startup_s=st.sampled_from([0.0, 0.3])),
    st.builds(Amdahl, serial=st.floats(0, 1), startup_s=st.sampled_from([0.0, 0.3])),
    st.builds(PowerLaw, p=st.floats(0, 1)),
)


@st.composite
def traces(draw: st.DrawFn) -> Workload:
    rows = []
    for t in range(draw(st.integers(1, 6))):
        start_s = draw(st.floats(0, 3))
        for _ in range(draw(st.integers(1, 4))):
            row: dict[str, object] = {
                "trajectory": f"t{t}",
                "kind": draw(st.sampled_from(["a", "b"])),
                "start_s": start_s,
                "think_s": draw(st.sampled_from([0.0, 0.5, 2.0])),
                "work_s": draw(st.floats(0.01, 20)),
            }
            if draw(st.booleans()):
                row["units"] = draw(st.sampled_from([[1, 4], [2, 6], [1, 2, 4], 2]))
                row["speedup"] = draw(speedups)
                row["resizable"] = draw(st.booleans())
            if draw(st.integers(0, 4)) == 0:
                row["timeout_s"] = draw(st.floats(0.5, 10))
            if draw(st.booleans()):
                row["environment_mib"] = 256
            rows.append(row)
    return read_trace(map(_as_line, rows), name="drawn")


def _as_line(row: dict[str, object]) -> str:
    speedup = row.get("speedup")
    if isinstance(speedup, Roofline):
        row["speedup"] = {"roofline": speedup.cap, "startup_s": speedup.startup_s}
    elif isinstance(speedup, Amdahl):
        row["speedup"] = {"amdahl": speedup.serial, "startup_s": speedup.startup_s}
    elif isinstance(speedup, PowerLaw):
        row["speedup"] = {"power": speedup.p}
    return json.dumps(row)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("oracle", [False, True], ids=["learned", "oracle"])
@settings(max_examples=25, deadline=None)
@given(step=traces(), nodes=st.sampled_from(["6", "8", "2x6"]))
def test_no_policy_beats_a_bound(step: Workload, nodes: str, policy: str, oracle: bool) -> None:
    machines = cluster(nodes, memory_mib=4096)
    bounds = bounds_of(step, machines)
    estimates = Oracle(step.true_work()) if oracle else None
    kernel = Kernel(policy_named(policy), estimates)
    run = simulate(kernel, as_static(step) if policy == "static" else step, nodes=machines)

    measures = measure(run)

    assert 0 == measures.aborted
    assert bounds.step_s <= measures.step_s * (1 + 1e-9)
    assert bounds.act_mean_s <= measures.act_mean_s * (1 + 1e-9)
    assert measures.units_used_s <= run.cores * measures.step_s * (1 + 1e-9)
    assert sum(len(t.turns) for t in step.trajectories) == measures.actions
