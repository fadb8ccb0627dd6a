import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from arl_tangram.errors import ConfigError, Unavailable
from arl_tangram.executors import boot, namespaces, owner, probe
from arl_tangram.executors.local import LocalHost
from arl_tangram.executors.port import EnvironmentSpec
from arl_tangram.executors.state import State
from arl_tangram.testing.processes import descendants


def test_the_best_is_chosen_and_described(state):
    found = probe.choose()
    found.groups.close()

    described = found.report.describe()

    assert found.report.enforcement in probe.ENFORCEMENTS
    assert found.report.isolation in probe.ISOLATIONS
    assert {"enforcement", "isolation", "guarantees", "weaker", "mend"} == set(described)
    all_hold = set(probe.GUARANTEES) == found.report.guarantees and found.bounds
    assert bool(found.report.weaker) == (not all_hold)


def test_what_is_weaker_is_said_with_how_to_mend_it(state):
    report = probe.choose(enforcement="none", isolation="process-group").report

    assert "none" == report.enforcement
    assert "process-group" == report.isolation
    assert any("memory" in sentence for sentence in report.weaker)
    assert any("bubblewrap" in sentence for sentence in report.mend)
    assert any("Delegate" in sentence for sentence in report.mend)


def test_what_is_required_and_not_in_force_is_an_error_that_names_it(state):
    with pytest.raises(Unavailable, match=r"memory \(memory is limited.*process-group was asked"):
        LocalHost(state, enforcement="none", isolation="process-group", require=("memory", "files"))


def test_a_requirement_that_does_not_exist_is_an_error_that_lists_those_that_do(state):
    with pytest.raises(ConfigError, match=r"require='everything'.*cpu, cores, memory"):
        LocalHost(state, require="everything")


@pytest.mark.parametrize(
    "options",
    [{"enforcement": "strong"}, {"isolation": "docker"}, {"cpu_scale": 0}, {"cpu_scale": 2}],
)
def test_a_wrong_setting_is_an_error_that_names_it(state, options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        LocalHost(state, **options)


def test_without_bubblewrap_on_the_path_the_walls_are_missing_and_it_is_said(state, monkeypatch):
    monkeypatch.setenv("PATH", str(state))

    report = probe.choose(enforcement="none").report

    assert "process-group" == report.isolation
    assert any("not installed" in sentence for sentence in report.weaker)
    with pytest.raises(Unavailable, match="not installed"):
        probe.choose(enforcement="none", isolation="namespaces")


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"id": "a/b"}, "id"),
        ({"memory_mib": 1}, "memory_mib"),
        ({"pids": 0}, "pids"),
        ({"readable": (Path("relative"),)}, "readable"),
        ({"readable": (Path("/"),)}, "readable"),
        ({"workspace": Path("/nowhere")}, "workspace"),
    ],
)
async def test_an_environment_that_cannot_be_is_refused_with_the_field(place, spec, named):
    with pytest.raises(ConfigError, match=f"{named}="):
        await place.host.open(EnvironmentSpec(**{"id": "e", **spec}))


async def test_two_open_environments_cannot_have_one_name(place):
    await place.open("same")

    with pytest.raises(ConfigError, match="same"):
        await place.open("same")


async def test_an_environment_that_cannot_start_is_unavailable_with_the_reason(place, monkeypatch):
    monkeypatch.setattr(boot, "interpreter", lambda: Path("/no/such/python"))

    with pytest.raises(Unavailable, match="python"):
        await place.open("broken")
    monkeypatch.undo()

    assert 0 == (await place.run("true", sandbox=await place.open("broken"))).exit_code


async def test_nothing_opens_on_a_closed_host(place):
    await place.host.close()
    await place.host.close()

    with pytest.raises(Unavailable, match="closed"):
        await place.open()


async def test_an_environment_that_dies_under_a_command_loses_it_and_can_be_closed(walled):
    from asyncio import create_task, sleep

    sandbox = await walled.open()
    running = create_task(walled.run("sleep 300"))
    await sleep(0.2)

    sandbox._runner.kill()
    ended = await running

    assert ("lost", None, False) == (ended.outcome.value, ended.exit_code, ended.state_survived)
    with pytest.raises(Unavailable, match="has ended"):
        await walled.run("true")
    await sandbox.close()


# -- what a dead supervisor leaves -----------------------------------------------------------------

SUPERVISOR = """
import asyncio, os, sys
from pathlib import Path
from arl_tangram.executors.local import LocalHost
from arl_tangram.executors.port import CpuGrant, EnvironmentSpec, Invocation
async def main():
    host = LocalHost(sys.argv[1], **eval(sys.argv[2]))
    sandbox = await host.open(EnvironmentSpec(id="e"))
    grant = CpuGrant(milli=1000, most_milli=1000)
    await sandbox.run("a", Invocation(command="setsid sleep 333 & echo"), grant)
    print("ready", flush=True)
    await sandbox.run("b", Invocation(command="setsid sleep 334 & sleep 335"), grant)
asyncio.run(main())
"""


FREEZING_SUPERVISOR = """
import asyncio, sys
from arl_tangram.executors.local import LocalHost
from arl_tangram.executors.port import CpuGrant, EnvironmentSpec, Invocation
async def main():
    host = LocalHost(sys.argv[1])
    sandbox = await host.open(EnvironmentSpec(id="e"))
    grant = CpuGrant(milli=1000, most_milli=1000)
    await sandbox.run("a", Invocation(command="setsid sleep 336 & echo"), grant)
    while not sandbox._force.frozen:
        await asyncio.sleep(0.01)
    print("frozen", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.fixture
def supervise(state):
    """Starts programs that supervise environments; what is left of them is ended."""
    started = []

    def start(program, word, options="{}"):
        supervisor = subprocess.Popen(
            [sys.executable, "-c", program, str(state), options], stdout=subprocess.PIPE
        )
        started.append(supervisor)
        assert word == supervisor.stdout.readline().strip()
        return supervisor

    yield start
    for supervisor in started:
        supervisor.kill()
        supervisor.wait()
        supervisor.stdout.close()
    LocalHostOnce(state)


def ready(supervise, options="{}"):
    supervisor = supervise(SUPERVISOR, b"ready", options)
    while not any("335" in seen.words for seen in descendants(supervisor.pid)):
        time.sleep(0.01)
    return supervisor


def below(pid):
    return [seen.process for seen in descendants(pid)]


@pytest.mark.parametrize("options", ["{}", "{'enforcement': 'none', 'isolation': 'process-group'}"])
def test_a_dead_supervisor_leaves_no_process_and_the_next_one_sweeps(state, supervise, options):
    supervisor = ready(supervise, options)
    orphans = below(supervisor.pid)

    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait()
    _, alive = psutil.wait_procs(orphans, timeout=5)
    left = list(state.iterdir())
    LocalHostOnce(state)

    assert [] == alive
    assert [] != left
    assert [] == list(state.iterdir())
    assert [] == [path for path in stray_groups() if f"{supervisor.pid}-" in path.name]


def test_what_was_frozen_dies_with_its_supervisor_too(state, supervise):
    supervisor = supervise(FREEZING_SUPERVISOR, b"frozen")
    frozen = below(supervisor.pid)

    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait()
    _, alive = psutil.wait_procs(frozen, timeout=5)
    LocalHostOnce(state)

    assert [] == alive


def test_what_belongs_to_a_living_host_is_not_swept(state, supervise):
    supervisor = ready(supervise)
    before = {path for path in stray_groups() if f"{supervisor.pid}-" in path.name}

    LocalHostOnce(state)

    assert before == {path for path in stray_groups() if f"{supervisor.pid}-" in path.name}
    assert 1 == len(list(state.iterdir()))
    assert supervisor.poll() is None


def LocalHostOnce(state):
    import asyncio

    asyncio.run(LocalHost(state).close())


def stray_groups():
    root = Path("/sys/fs/cgroup")
    return {
        path
        for pattern in ("arl-tangram/*", "*/arl-tangram/*", "*/*/*/arl-tangram/*")
        for path in root.glob(pattern)
        if path.is_dir()
    }


def test_a_name_tells_whether_its_maker_lives():
    pid, start, namespace, _ = owner.new_name().split("-")

    assert not owner.is_stray(f"{pid}-{start}-{namespace}-0")
    assert owner.is_stray(f"{pid}-{int(start) + 1}-{namespace}-0")
    assert owner.is_stray(f"999999999-{start}-{namespace}-0")
    assert not owner.is_stray(f"999999999-{start}-{int(namespace) + 1}-0")
    assert not owner.is_stray("something-else")


def test_a_state_folder_of_somebody_else_is_refused(tmp_path):
    if os.getuid():
        pytest.skip("root: only it can give a folder away")
    folder = tmp_path / "state"
    folder.mkdir()
    os.chown(folder, 65534, 65534)

    with pytest.raises(ConfigError, match="belongs to you"):
        State(folder)


def test_the_etc_inside_holds_no_secrets(tmp_path):
    namespaces.make_etc(tmp_path / "etc", uid=1234)

    names = {path.name for path in (tmp_path / "etc").iterdir()}
    assert not names & {"shadow", "gshadow", "ssh", "sudoers", "machine-id"}
    assert "user:x:1234" in (tmp_path / "etc/passwd").read_text()
