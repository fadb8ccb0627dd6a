"""Services of an embedded Tangram: real server processes on stand-ins for devices."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import psutil
import pytest

import arl_tangram as at
from arl_tangram import blocking
from arl_tangram.core.commands import EvictService, RestoreService
from arl_tangram.core.events import ActionSubmitted, InstanceFailed, ServiceRestored
from arl_tangram.core.serving import calls
from arl_tangram.runtime.journal import Journal
from arl_tangram.runtime.observers import Observer

pytestmark = pytest.mark.slow

Body = Callable[[at.Tangram], Coroutine[Any, Any, None]]
SERVER = f"{sys.executable} -m arl_tangram.testing.model_server --port {{port}} --mib 6"
MODEL = {"driver": "openai", "sleep": "vllm", "memory": "6MiB", "command": SERVER}


def fault(name: str, **options: Any) -> dict[str, Any]:
    return {**MODEL, "command": f"{SERVER} --fault {name}", **options}


class Watch(Observer):
    """Remembers what happened to instances."""

    def __init__(self) -> None:
        self.failed = asyncio.Event()
        self.events: list[Any] = []
        self.commands: list[Any] = []
        self.calls: list[asyncio.Future[Any]] = []

    def happened(self, event: Any, commands: Any) -> None:
        self.events.append(event)
        self.commands += commands
        if isinstance(event, InstanceFailed):
            self.failed.set()

    def of(self, kind: type) -> list[Any]:
        return [thing for thing in [*self.events, *self.commands] if isinstance(thing, kind)]

    @property
    def reasons(self) -> list[str]:
        return [event.reason for event in self.of(InstanceFailed)]


def run(body: Body, *, gpus: int = 1, gpu_memory: str = "8MiB", **options: Any) -> None:
    """Runs a test's body with an open Tangram, and sees that nothing is left of it."""

    async def main() -> None:
        async with (
            asyncio.timeout(90),
            at.Tangram.local(gpus=gpus, gpu_memory=gpu_memory, **options) as tangram,
        ):
            await body(tangram)
        assert {asyncio.current_task()} == asyncio.all_tasks()

    before = set(psutil.Process().children(recursive=True))
    asyncio.run(main())
    assert before >= set(psutil.Process().children(recursive=True))


def test_services_take_turns_on_one_device() -> None:
    watch = Watch()

    async def body(tangram: at.Tangram) -> None:
        for name in ("a", "b"):
            tangram.service(name, **MODEL)
        for name in ("a", "b", "a"):
            answer = (await tangram.call(name, {"prompt": "abc"})).check()
            assert "cba" == answer.value["choices"][0]["text"]
            assert 1 == answer.attempts
            assert answer.timing.queued_s > 0

    run(body, observers=[watch])
    restores = watch.of(RestoreService)
    assert ["a", "b", "a"] == [command.service.name for command in restores[:3]]
    assert [True, True, False] == [command.cold for command in restores[:3]]
    assert len(watch.of(EvictService)) >= 2
    assert [] == watch.reasons


def test_a_call_may_hold_a_token_of_a_quota_besides() -> None:
    async def body(tangram: at.Tangram) -> None:
        tangram.service("a", **MODEL)
        tangram.quota("key", concurrency=1)
        one = tangram.call("a", {"prompt": "x", "sleep_s": 0.1}, quota="key")
        two = tangram.call("a", {"prompt": "y", "sleep_s": 0.1}, quota={"key": 1})
        answers = await asyncio.gather(one, two)
        assert [at.Outcome.SUCCEEDED] * 2 == [answer.outcome for answer in answers]
        assert max(answer.timing.queued_s for answer in answers) >= 0.1

    run(body)


def test_a_file_declares_many(tmp_path) -> None:
    file = tmp_path / "services.toml"
    file.write_text(
        f"""
        [services.judge]
        driver = "openai"
        command = "{SERVER}"
        sleep = "vllm"
        slots = 4
        degrees = {{ 1 = 1.0, 2 = 1.9 }}
        memory = {{ 1 = "6MiB", 2 = "3MiB" }}
        host_memory = "16MiB"
        restore = 0.5
        load = "2s"

        [services.upper]
        driver = "command"
        call = ["python3", "-c", "import json; print(json.dumps(input().upper()))"]

        [quotas.search]
        rate = "10/s"
        """
    )

    async def body(tangram: at.Tangram) -> None:
        answer = await tangram.call("upper", "abc")
        assert '"ABC"' == answer.check().value
        async with tangram.lease(quota="search"):
            pass
        with pytest.raises(at.ConfigError, match="services need two names"):
            tangram.service("judge", **MODEL)

    run(body, services=file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[services.a]\ndriver='opnai'", "services.a.driver='opnai'"),
        ("[services.a]\ndriver='openai'\ncomand='x'", "services.a.comand: there is no such key"),
        ("[services.a]\ndriver='openai'", "services.a: command, address: give one"),
        ("[services.a]\ndriver='command'", "services.a: call: give the program"),
        ("[services.a]\ndriver='torch'\nmodule='x'", "services.a.module='x'"),
        ("[services.a]\ndriver='command'\ncall='x'\nslots=0", "services.a.slots=0"),
        ("[services.a]\ndriver='command'\ncall='x'\nslots='2'", "services.a.slots='2'"),
        (
            "[services.a]\ndriver='command'\ncall='x'\ndegrees={3=1}",
            r"services.a.degrees\['3'\]=1: a cell has",
        ),
        (
            "[services.a]\ndriver='command'\ncall='x'\ndegrees={4=1}",
            "services.a.degrees: the least",
        ),
        ("[services.a]\ndriver='command'\ncall='x'\nmemory='1GiB'", "services.a.memory: 1024 MiB"),
        ("[services.a]\ndriver='command'\ncall='x'\nmemory='lots'", "services.a.memory='lots'"),
        ("[services.a]\ndriver='command'\ncall='x'\nmemory={2='2MiB'}", r"services.a.memory\[2\]"),
        ("[services.a]\ndriver='command'\ncall='x'\npinned=[2]", "services.a.pinned="),
        ("[services.a]\ndriver='command'\ncall='x'\nsleep='y'", "services.a: sleep, wake"),
        ("[services.a]\ndriver='openai'\ncommand='x'\nsleep='deep'", "services.a.sleep='deep'"),
        ("[services.a]\ndriver='openai'\naddress='http://x'", "services.a: address: .*pinned"),
        ("[services.'a/b']\ndriver='command'\ncall='x'", "service 'a/b'"),
        ("[servics.a]", "servics"),
        ("services = 1", "services: each has a table"),
        ("[services", "services.toml"),
        ("[quotas.q]\nrat='1/s'", "quotas.q.rat: there is no such key"),
        ("[quotas.q]\nconcurrency=0", "quotas.q.concurrency=0"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, text, says) -> None:
    file = tmp_path / "services.toml"
    file.write_text(text)

    async def main() -> None:
        tangram = at.Tangram.local(gpus=1, gpu_memory="8MiB", services=file)
        with pytest.raises(at.ConfigError, match=says):
            await tangram.open()
        await tangram.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ({"pinned": [1]}, {}, r"services.b: pinned instances leave 0 .* and services.b needs 1"),
        ({}, {"pinned": [1]}, r"services.b: pinned instances leave 0 .* and services.a needs 1"),
        ({"pinned": [1]}, {"pinned": [1]}, r"services.b.pinned: 1 devices .* other services own 1"),
        ({"pinned": [1, 1]}, {}, r"services.a.pinned: 2 devices for ever"),
    ],
)
def test_services_that_leave_each_other_no_devices_are_refused(first, second, says) -> None:
    async def body(tangram: at.Tangram) -> None:
        def both() -> None:
            tangram.service("a", **{**MODEL, **first})
            tangram.service("b", **{**MODEL, **second})

        with pytest.raises(at.ConfigError, match=says):
            both()

    run(body)


def test_a_degree_that_is_pinned_has_to_fit_a_device() -> None:
    async def body(tangram: at.Tangram) -> None:
        sizes = {1: "16MiB", 2: "4MiB"}
        with pytest.raises(at.ConfigError, match=r"services\.a\.memory: 16 MiB on each"):
            tangram.service(
                "a", **MODEL | {"degrees": {1: 1.0, 2: 1.9}, "memory": sizes, "pinned": [1]}
            )

    run(body, gpus=2)


def test_an_address_says_how_it_is_spoken_to() -> None:
    async def body(tangram: at.Tangram) -> None:
        with pytest.raises(at.ConfigError, match="address='localhost:1': begin with http://"):
            tangram.service("a", driver="openai", address="localhost:1", pinned=[1])

    run(body)


def test_a_machine_without_devices_says_how_to_have_some() -> None:
    async def main() -> None:
        async with at.Tangram.local(gpus=0) as tangram:
            with pytest.raises(at.ConfigError, match="gpu_memory="):
                tangram.service("a", **MODEL)
            with pytest.raises(at.InvalidAction, match="'a' is not declared; there are: none"):
                await tangram.call("a", {})
        with pytest.raises(at.ConfigError, match="say how many"):
            await at.Tangram.local(gpu_memory="1GiB").open()
        with pytest.raises(at.ConfigError, match="gpus=-1"):
            await at.Tangram.local(gpus=-1).open()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("dies-at-start", "no such model: teacher-9"),
        ("never-ready", "was not ready within"),
    ],
)
def test_a_service_that_never_starts_says_why_and_its_calls_are_not_blamed(name, says) -> None:
    watch = Watch()

    async def body(tangram: at.Tangram) -> None:
        tangram.service("a", **fault(name, start_timeout=0.5 if name == "never-ready" else 30))
        call = asyncio.ensure_future(tangram.call("a", {"prompt": "abc"}))
        await watch.failed.wait()
        call.cancel()
        await asyncio.wait([call])

    run(body, observers=[watch])
    assert re.search(says, watch.reasons[0])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("dies-on-wake", "exited with 70"),
        ("hangs-on-wake", "was not ready within 1 s"),
        ("dies-on-sleep", "exited with 70"),
        ("hangs-on-sleep", "did not leave its devices within 1 s"),
        ("refuses-sleep", "/sleep.*status 500.*not now"),
        ("holds-memory", "said that it left its devices, and 6 MiB of device 0 are still held"),
    ],
)
def test_a_service_that_breaks_on_its_way_is_ended_and_the_next_one_is_served(name, says) -> None:
    watch = Watch()

    async def body(tangram: at.Tangram) -> None:
        tangram.service("bad", **fault(name, wake_timeout=1))
        tangram.service("good", **MODEL)
        for service in ("bad", "good", "bad"):
            answer = (await tangram.call(service, {"prompt": "abc"})).check()
            assert "cba" == answer.value["choices"][0]["text"]

    run(body, observers=[watch])
    assert re.search(says, watch.reasons[0])


def test_a_repeated_id_never_asks_twice() -> None:
    async def body(tangram: at.Tangram) -> None:
        tangram.service("a", slots=2, **MODEL)
        request = {"prompt": "abc", "sleep_s": 0.1}
        both = await asyncio.gather(*(tangram.call("a", request, id="one") for _ in range(2)))
        assert both[0] == both[1]
        both[0].check().value.clear()
        later = await tangram.call("a", dict(request), id="one")
        assert both[1] == later
        assert later.value
        assert 1 == sum(isinstance(event, ActionSubmitted) for event in watch.events)
        request["prompt"] = "changed"
        with pytest.raises(at.InvalidAction, match="another request has this id"):
            await tangram.call("a", request, id="one")
        assert at.Outcome.SUCCEEDED is (await tangram.call("a", request, id="two")).outcome

    watch = Watch()
    run(body, observers=[watch])


def test_a_service_that_keeps_crashing_is_quarantined_and_says_why(monkeypatch) -> None:
    monkeypatch.setattr(calls, "RETRY_S", 0.02)
    watch = Watch()

    async def body(tangram: at.Tangram) -> None:
        tangram.service("bad", **fault("dies-at-start"))
        tangram.service("good", **MODEL)
        waiting = await tangram.call("bad", {"prompt": "abc"})
        refused = await tangram.call("bad", {"prompt": "abc"})
        for answer in (waiting, refused):
            assert at.Outcome.LOST is answer.outcome
            assert "service bad is in quarantine: its instances failed 5 times" in answer.reason
            assert "no such model: teacher-9" in answer.reason
        assert refused.timing.act_s < 1
        (await tangram.call("good", {"prompt": "abc"})).check()

    run(body, observers=[watch])
    assert 5 == len(watch.reasons)


@pytest.mark.parametrize(
    "state", ["starting", "waking", "making way", "resting", "short of tokens"]
)
def test_a_call_can_be_cancelled_whatever_it_waits_for(state) -> None:
    watch = Watch()

    async def body(tangram: at.Tangram) -> None:
        tangram.service("a", **fault("hangs-on-wake", wake_timeout=2))
        tangram.service("b", **MODEL)
        tangram.quota("key", concurrency=1)
        await BEFORE[state](tangram, watch)
        quota = "key" if state == "short of tokens" else None
        call = asyncio.ensure_future(tangram.call("a", {"prompt": "abc"}, quota=quota))
        await asyncio.sleep(0.05)
        assert not call.done()
        call.cancel()
        await asyncio.wait([call], timeout=1)
        assert call.cancelled()
        answer = await tangram.call("b", {"prompt": "abc"})
        assert at.Outcome.SUCCEEDED is answer.outcome

    run(body, observers=[watch])


async def asleep(tangram: at.Tangram, watch: Watch) -> None:
    """`a` has a copy, and `b` has the device."""
    for name in ("a", "b"):
        (await tangram.call(name, {"prompt": "abc"})).check()


async def resting(tangram: at.Tangram, watch: Watch) -> None:
    """`a` has just failed."""
    await asleep(tangram, watch)
    call = asyncio.ensure_future(tangram.call("a", {"prompt": "abc"}))
    await watch.failed.wait()
    call.cancel()
    await asyncio.wait([call])


async def making_way(tangram: at.Tangram, watch: Watch) -> None:
    """`b` has the device, and is busy."""
    (await tangram.call("b", {"prompt": "abc"})).check()
    busy = tangram.call("b", {"prompt": "abc", "sleep_s": 0.5})
    watch.calls.append(asyncio.ensure_future(busy))
    await asyncio.sleep(0.05)


async def short_of_tokens(tangram: at.Tangram, watch: Watch) -> None:
    """Somebody else has the only token."""
    holder = tangram.call("b", {"prompt": "abc", "sleep_s": 0.5}, quota="key")
    watch.calls.append(asyncio.ensure_future(holder))
    await asyncio.sleep(0.05)


async def nothing(tangram: at.Tangram, watch: Watch) -> None:
    """Nothing has happened yet."""


BEFORE = {
    "starting": nothing,
    "waking": asleep,
    "making way": making_way,
    "resting": resting,
    "short of tokens": short_of_tokens,
}


def test_a_service_that_frees_its_memory_late_is_waited_for() -> None:
    watch = Watch()

    async def body(tangram: at.Tangram) -> None:
        tangram.service("late", **fault("slow-release"))
        tangram.service("good", **MODEL)
        for service in ("late", "good", "late"):
            (await tangram.call(service, {"prompt": "abc"})).check()

    run(body, observers=[watch])
    assert [] == watch.reasons


def test_a_crash_loses_its_calls_which_are_tried_again_and_then_reported() -> None:
    watch = Watch()

    async def body(tangram: at.Tangram) -> None:
        tangram.service("a", **fault("dies-on-call"))
        answer = await tangram.call("a", {"prompt": "abc"}, attempts=2)
        assert (at.Outcome.LOST, 2) == (answer.outcome, answer.attempts)
        with pytest.raises(at.ActionLost):
            answer.check()

    run(body, observers=[watch])
    assert 2 == len(watch.of(ServiceRestored))
    assert re.search("exited with 70", watch.reasons[0])


def test_a_killed_instance_is_replaced_and_its_call_is_answered() -> None:
    async def body(tangram: at.Tangram) -> None:
        tangram.service("a", slots=2, **MODEL)
        pid = (await tangram.call("a", {"prompt": "abc"})).check().value["pid"]
        call = asyncio.ensure_future(tangram.call("a", {"prompt": "abc", "sleep_s": 0.5}))
        await asyncio.sleep(0.1)
        os.kill(pid, 9)
        answer = (await call).check()
        assert 2 == answer.attempts
        assert pid != answer.value["pid"]

    run(body)


def test_an_instance_that_hangs_is_ended_and_its_call_is_lost() -> None:
    watch = Watch()

    async def body(tangram: at.Tangram) -> None:
        tangram.service("a", **fault("hangs-on-call"))
        answer = await tangram.call("a", {"prompt": "abc"}, timeout=0.2, attempts=1)
        assert at.Outcome.LOST is answer.outcome
        assert "no sign of life" in answer.reason

    run(body, observers=[watch])


def test_a_slow_answer_from_a_healthy_instance_is_a_time_out() -> None:
    watch = Watch()

    async def body(tangram: at.Tangram) -> None:
        tangram.service("a", **MODEL)
        answer = await tangram.call("a", {"prompt": "abc", "sleep_s": 30}, timeout=0.3)
        assert at.Outcome.TIMED_OUT is answer.outcome
        assert 0.3 <= answer.timing.run_s < 5
        (await tangram.call("a", {"prompt": "abc"})).check()

    run(body, observers=[watch])
    assert [] == watch.reasons


def test_a_reply_of_a_gigabyte_is_cut_off_and_is_a_failure() -> None:
    before = psutil.Process().memory_info().rss

    async def body(tangram: at.Tangram) -> None:
        tangram.service("a", reply_limit="1MiB", **fault("huge-reply"))
        answer = await tangram.call("a", {"prompt": "abc"})
        assert at.Outcome.FAILED is answer.outcome
        assert "1,048,576 bytes" in answer.reason

    run(body)
    assert psutil.Process().memory_info().rss - before < 100 << 20


def test_a_program_that_prints_without_end_is_cut_off_and_is_a_failure() -> None:
    async def body(tangram: at.Tangram) -> None:
        tangram.service("a", driver="command", call=["yes"], reply_limit="1MiB")
        answer = await tangram.call("a", "abc", timeout=60)
        assert at.Outcome.FAILED is answer.outcome
        assert "longer than 1,048,576 bytes; raise reply_limit" in answer.reason
        assert answer.timing.run_s < 30

    run(body)


def test_a_reply_that_is_no_json_is_a_failure() -> None:
    async def body(tangram: at.Tangram) -> None:
        tangram.service("a", **fault("bad-reply"))
        answer = await tangram.call("a", {"prompt": "abc"})
        assert (at.Outcome.FAILED, "the reply is no JSON") == (answer.outcome, answer.reason)

    run(body)


def test_a_call_can_be_cancelled_while_it_waits_and_while_it_runs() -> None:
    async def body(tangram: at.Tangram) -> None:
        tangram.service("a", **MODEL)
        waiting = asyncio.ensure_future(tangram.call("a", {"prompt": "abc"}))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        (await tangram.call("a", {"prompt": "abc"})).check()
        running = asyncio.ensure_future(tangram.call("a", {"prompt": "abc", "sleep_s": 60}))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert time.monotonic() - started < 2
        (await tangram.call("a", {"prompt": "abc"})).check()

    run(body)


@pytest.mark.parametrize("sleep", ["none", "vllm"])
def test_a_server_at_an_address_is_asked_where_it_stands_and_is_not_ours_to_end(sleep) -> None:
    port = free_port()
    server = subprocess.Popen(SERVER.format(port=port).split())

    async def body(tangram: at.Tangram) -> None:
        address = f"http://127.0.0.1:{port}/"
        tangram.service("a", driver="openai", address=address, sleep=sleep, pinned=[1])
        answer = (
            await tangram.call("a", {"messages": [{"role": "user", "content": "ab"}]})
        ).check()
        assert "ba" == answer.value["choices"][0]["message"]["content"]
        vectors = await tangram.call("a", {"input": ["x"]})
        assert 8 == len(vectors.check().value["data"][0]["embedding"])
        wrong = await tangram.call("a", {"path": "/v1/chat/completions"})
        assert at.Outcome.FAILED is wrong.outcome
        assert "messages" in wrong.reason
        shapeless = await tangram.call("a", {"text": "x"})
        assert "a request has one of messages, prompt, input" in shapeless.reason

    try:
        run(body)
        assert server.poll() is None
    finally:
        server.kill()
        server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_blocking_interface_has_services_and_quotas() -> None:
    with blocking.Tangram.local(gpus=1, gpu_memory="8MiB") as tangram:
        tangram.service("a", driver="command", call=["cat"])
        tangram.quota("key", concurrency=1)
        assert {"x": 1} == tangram.call("a", {"x": 1}, quota="key").check().value
        refused = tangram.fetch("key", f"http://127.0.0.1:{free_port()}/", attempts=1)
        assert at.Outcome.LOST is refused.outcome


def test_closing_in_the_middle_of_everything_leaves_nothing() -> None:
    async def body(tangram: at.Tangram) -> None:
        tangram.service("starting", **fault("never-ready"))
        tangram.service("busy", **MODEL)
        calls = [asyncio.ensure_future(tangram.call("starting", {"prompt": "x"}))]
        calls += [
            asyncio.ensure_future(tangram.call("busy", {"prompt": "x", "sleep_s": 60}))
            for _ in range(3)
        ]
        await asyncio.sleep(0.5)
        closing = asyncio.ensure_future(tangram.close())
        answers = await asyncio.gather(*calls)
        await closing
        assert {at.Outcome.CANCELLED} == {answer.outcome for answer in answers}

    run(body, gpus=2)


@pytest.mark.parametrize(("policy", "eviction"), [("inflight", "cost"), ("tangram", "on-demand")])
def test_a_journal_with_services_replays_to_the_same_commands(tmp_path, policy, eviction) -> None:
    async def body(tangram: at.Tangram) -> None:
        for name in ("a", "b", "a"):
            if name not in declared:
                tangram.service(name, **MODEL)
                declared.add(name)
            (await tangram.call(name, {"prompt": "abc"})).check()

    declared: set[str] = set()
    run(body, journal=tmp_path / "run.jsonl", policy=policy)
    journal = Journal.read(tmp_path / "run.jsonl")
    assert eviction == journal.header.settings["eviction"]
    assert journal.first_difference() is None
    assert len([line for line in journal.lines if isinstance(line.event, ServiceRestored)]) >= 3
