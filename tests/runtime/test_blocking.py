"""The interface without await: the same names, from any thread, and interruptible."""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import arl_tangram as at
from arl_tangram import blocking
from arl_tangram.core.model import CPU, MEMORY, Node, NodeId
from arl_tangram.testing.scripted_host import ScriptedHost

PAIRS = [
    (blocking.Tangram, at.Tangram),
    (blocking.Environment, at.Environment),
    (blocking.Handle, at.Handle),
    (blocking.Shell, at.Shell),
    (blocking.Lease, at.Lease),
]
FOR_THE_DRIVER = {"action", "start", "resize", "stop", "resolve", "fail"}  # of a lease


@pytest.fixture
def host() -> ScriptedHost:
    return ScriptedHost()


@pytest.fixture
def tangram(host: ScriptedHost) -> Iterator[blocking.Tangram]:
    node = Node(id=NodeId("n0"), capacity={CPU: 2000, MEMORY: 4096})
    before = threading.active_count()
    with blocking.Tangram(at.Tangram(node=node, host=lambda: host)) as tangram:
        yield tangram
    assert {} == host.sandboxes
    assert before == threading.active_count()


@pytest.mark.parametrize(("twin", "original"), PAIRS)
def test_both_interfaces_have_the_same_names(twin: type, original: type) -> None:
    names = {name for name in dir(original) if not name.startswith("_")} - FOR_THE_DRIVER
    made_in_init = {"metrics"} if original is at.Tangram else set()

    assert names | made_in_init == {name for name in dir(twin) if not name.startswith("_")}


@pytest.mark.parametrize(("twin", "original"), PAIRS)
def test_both_interfaces_take_the_same_parameters(twin: type, original: type) -> None:
    for name in dir(twin):
        if name.startswith("_") or not inspect.isroutine(ours := getattr(twin, name)):
            continue
        theirs = inspect.signature(getattr(original, name))
        assert list(theirs.parameters.values()) == list(
            inspect.signature(ours).parameters.values()
        ), name
        assert getattr(original, name).__doc__, name


def test_a_rollout_reads_as_plain_calls(tangram: blocking.Tangram) -> None:
    with tangram.environment(task="coding") as env:
        env.write("a.txt", "hello")
        result = env.run("echo hi")
        handle = env.submit("exit 2")
        with env.shell() as shell:
            assert shell.run("true").ok

        assert "hello" == env.read_text("a.txt")
        assert "hi\n" == result.stdout
        assert at.Outcome.FAILED is handle.result().outcome
        assert "done" == handle.phase == handle.explain().phase
        with pytest.raises(at.InvalidAction):
            env.submit("true", cpus=0)
        with pytest.raises(at.ActionFailed):
            env.run("false", check=True)
    with tangram.lease(cpus=2) as lease:
        assert (2.0, (0, 1)) == (lease.cpus, lease.cores)
    assert tangram.run("true").ok


def test_several_threads_share_one_tangram(tangram: blocking.Tangram) -> None:
    def rollout(number: int) -> str:
        with tangram.environment(trajectory=f"t{number}") as env:
            return env.run(f"echo {number}").stdout

    with ThreadPoolExecutor(8) as pool:
        printed = list(pool.map(rollout, range(32)))

    assert [f"{n}\n" for n in range(32)] == printed


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A job that a shell started in the background ignores interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_cancels_the_command_it_was_waiting_for(
    tangram: blocking.Tangram, host: ScriptedHost, interruptible: None
) -> None:
    with tangram.environment() as env:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            env.run("sleep 60")
        timer.join()

        assert () == host.sandboxes[env.id].running
        assert env.run("true").ok


def test_a_closed_tangram_says_so(host: ScriptedHost) -> None:
    node = Node(id=NodeId("n0"), capacity={CPU: 2000, MEMORY: 4096})
    tangram = blocking.Tangram(at.Tangram(node=node, host=lambda: host))
    for _ in range(2):
        with pytest.raises(at.Unavailable, match="not open"):
            tangram.run("true")
        tangram.close()
