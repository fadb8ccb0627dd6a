"""The embedded Tangram on this machine: real processes, and nothing of it left behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest

import arl_tangram as at
from arl_tangram.executors import probe
from arl_tangram.runtime.local import node_of
from arl_tangram.runtime.machine import Machine, this_machine


def with_tangram(body: Callable[[at.Tangram], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def main() -> None:
        async with at.Tangram.local(**options) as tangram:
            await body(tangram)

    asyncio.run(main())


def require(*names: str) -> None:
    found = probe.choose()
    found.groups.close()
    if missing := set(names) - found.report.guarantees:
        pytest.skip(f"not guaranteed on this machine: {', '.join(sorted(missing))}")


@pytest.mark.slow
def test_everything_is_gone_after_closing_in_the_middle_of_it_all(tmp_path: Path) -> None:
    async def body(tangram: at.Tangram) -> None:
        opened = [await tangram.environment() for _ in range(3)]
        for env in opened:
            await env.write("file", b"x")
            await env.shell()
            env.submit("sleep 300 & setsid sleep 300 & wait", cpus=1)
            env.submit("sleep 300", cpus=2)
        tangram.submit("sleep 300", cpus=0.25)
        await asyncio.sleep(0.05)
        assert psutil.Process().children(recursive=True)

    with_tangram(body, state_dir=tmp_path)  # the first time loads and opens things for good
    gc.collect()
    descriptors, threads = psutil.Process().num_fds(), threading.active_count()
    children = psutil.Process().children(recursive=True)  # of other tests
    with_tangram(body, state_dir=tmp_path)
    gc.collect()

    assert children == psutil.Process().children(recursive=True)
    assert [] == list(tmp_path.iterdir())
    assert (descriptors, threads) == (psutil.Process().num_fds(), threading.active_count())


@pytest.mark.alone
def test_more_units_than_cores_are_quotas_of_a_part_of_a_core(
    caplog: pytest.LogCaptureFixture,
) -> None:
    require("cpu")
    units = len(os.sched_getaffinity(0)) * 4

    async def body(tangram: at.Tangram) -> None:
        assert f"{units} units of 0.25 core" == tangram.describe()["cpus"]
        async with tangram.environment() as env:
            spin = "import time; end = time.time() + 0.6\nwhile time.time() < end: pass"
            result = await env.run(["python3", "-c", spin], cpus=1)

            assert result.ok, result.stderr
            assert [1.0] == [held.cores for held in result.grants]
            assert result.usage.cpu_s / result.timing.run_s < 0.35
        async with tangram.lease(cpus=units) as lease:
            assert (units, ()) == (lease.cpus, lease.cores)

    with caplog.at_level(logging.WARNING, logger="arl_tangram"):  # the demo command quiets it
        with_tangram(body, cpus=units)
    assert "a unit is a quota of 0.25 of a core" in caplog.text


def test_a_trusted_command_works_in_a_folder_of_ours(tmp_path: Path) -> None:
    async def body(tangram: at.Tangram) -> None:
        async with tangram.environment(workspace=tmp_path, memory=None) as env:
            result = await env.run("pwd > where; id -u; echo $HOME")

        assert f"{os.getuid()}\n{os.environ['HOME']}\n" == result.stdout
        assert f"{tmp_path}\n" == (tmp_path / "where").read_text()

    with_tangram(body)
    assert ["where"] == [path.name for path in tmp_path.iterdir()]


def test_what_is_required_and_not_there_is_an_error_and_not_less(tmp_path: Path) -> None:
    async def body(tangram: at.Tangram) -> None:
        pytest.fail("it opened")

    with pytest.raises(at.ConfigError, match="require='magic'"):
        with_tangram(body, require="magic", state_dir=tmp_path)
    assert [] == list(tmp_path.iterdir())


MACHINE = Machine(
    name="m",
    cpus=(0, 1, 2, 3),
    quota_milli=None,
    memory_mib=1000,
    topology=this_machine().topology,
)


@pytest.mark.parametrize(
    ("cpus", "unit", "amount", "size"),
    [
        (None, None, 4.0, 1.0),
        (2, None, 2.0, 1.0),
        (8, None, 8.0, 0.5),
        (None, 0.25, 16.0, 0.25),
        (8, 0.25, 8.0, 0.25),
        (2.5, None, 2.5, 1.0),
    ],
)
def test_units_follow_from_what_is_said_of_them(
    cpus: float | None, unit: float | None, amount: float, size: float
) -> None:
    node, unit_size = node_of(MACHINE, cpus=cpus, memory="1GiB", unit=unit)

    assert (round(amount * 1000), 1024) == (node.capacity["cpu"], node.capacity["memory"])
    assert size == unit_size
    assert (size == 1) == (node.topology is not None)


@pytest.mark.parametrize(
    ("cpus", "unit", "message"),
    [
        (8, 1, "cpus=8 of unit=1 are 8 cores, and there are 4"),
        (0, None, "cpus=0: give a number above 0"),
        (None, -1, "unit=-1: give a number above 0"),
        (float("inf"), None, "cpus=inf"),
        (65_537, None, "cpus=65537: give a number above 0, at most 65536"),
        (None, 1e-9, "unit=1e-09: that makes 4e[+]09 units, and 65536 is the most"),
        (None, 2, "unit=2: give a number above 0, at most 1"),
        (0.001, None, "cpus=0.001: at least 0.01 of a unit"),
    ],
)
def test_units_that_cannot_be_are_refused(
    cpus: float | None, unit: float | None, message: str
) -> None:
    with pytest.raises(at.ConfigError, match=message):
        node_of(MACHINE, cpus=cpus, memory=None, unit=unit)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{}", "version=None"), ("null", "version=None"), ("[" * 100_000, "recursion")],
)
def test_a_damaged_profile_is_named(tmp_path: Path, text: str, message: str) -> None:
    (profile := tmp_path / "kinds.json").write_text(text)

    with pytest.raises(at.ConfigError, match=rf"kinds\.json.*{message}"):
        at.Tangram.local(profile=profile, state_dir=tmp_path / "state")


def test_a_profile_that_could_not_be_written_at_the_end_is_refused_at_the_start(
    tmp_path: Path,
) -> None:
    with pytest.raises(at.ConfigError, match=r"^profile=.*nowhere/kinds\.json"):
        at.Tangram.local(profile=tmp_path / "nowhere" / "kinds.json")


def test_a_state_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (state := tmp_path / "state").write_text("")

    async def body(tangram: at.Tangram) -> None:
        pytest.fail("it opened")

    for folder in (state, state / "below"):
        with pytest.raises(at.ConfigError, match=f"^state_dir='{folder}'"):
            with_tangram(body, state_dir=folder)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"memory": "1MiB"}, "memory_mib=1"),
        ({"readable": ["/no/such"]}, "readable=/no/such"),
        ({"cwd": "a\0b"}, "cwd="),
    ],
)
def test_what_no_environment_here_could_be_is_no_fault_of_the_machine(
    wrong: dict[str, Any], message: str, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"

    async def body(tangram: at.Tangram) -> None:
        with pytest.raises(at.RequestError, match=message):
            tangram.submit("true", **wrong)

    with_tangram(body, journal=journal)
    events = {type(line.event).__name__ for line in at.Journal.read(journal).lines}
    assert {"NodeJoined"} == events


def test_a_folder_that_goes_while_a_command_waits_for_its_turn_is_no_loss(tmp_path: Path) -> None:
    (shared := tmp_path / "shared").mkdir()

    async def body(tangram: at.Tangram) -> None:
        async with tangram.lease(cpus=int(tangram.describe()["cpus"].split()[0])):
            waiting = tangram.submit("true", readable=[shared])
            shared.rmdir()
        result = await waiting
        assert at.Outcome.REJECTED == result.outcome
        assert "readable=" in result.reason

    with_tangram(body)


def test_a_long_silence_may_be_allowed() -> None:
    async def body(tangram: at.Tangram) -> None:
        async with tangram.environment() as env, await env.shell() as shell:
            assert (await env.run("true", idle_timeout="60d")).ok
            assert (await shell.run("true", idle_timeout="60d")).ok

    with_tangram(body)
