"""Environments, commands and handles over a host without processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from arl_tangram.core.model import NodeId, Outcome
from arl_tangram.core.policy import Plan, View
from arl_tangram.errors import (
    ActionFailed,
    ActionTimedOut,
    ConfigError,
    InternalError,
    InvalidAction,
    PolicyError,
    Unavailable,
    UnknownEnvironment,
)
from arl_tangram.executors.port import Completion, EnvironmentSpec
from arl_tangram.policies.registry import policy_named
from arl_tangram.runtime.tangram import Tangram
from arl_tangram.testing.scripted_host import Script, ScriptedHost, ScriptedSandbox

Scripted = Callable[..., None]


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - anything may make it true
            await asyncio.sleep(0)


def test_a_command_runs_in_its_environment_and_its_result_is_told(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment(task="coding", trajectory="t1", step=3) as env:
            result = await env.run("echo hello", kind="bash")

        assert (Outcome.SUCCEEDED, 0, "hello\n", "") == (
            result.outcome,
            result.exit_code,
            result.stdout,
            result.stderr,
        )
        assert ("coding", "t1", "3") == (env.task, env.trajectory, env.step)
        assert ("n0", 1, "none") == (result.node, result.attempts, result.enforcement)
        assert [(0.0, 1.0)] == list(result.grants)

    scripted(body)


def test_a_failing_command_is_a_result_and_an_exception_only_on_request(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            result = await env.run("echo why; exit 3")

            assert (Outcome.FAILED, 3) == (result.outcome, result.exit_code)
            with pytest.raises(ActionFailed, match="exit status 3\nwhy") as caught:
                await env.run("echo why; exit 3", check=True)
            assert ("failed", "why") == (caught.value.outcome, caught.value.output_tail)
            with pytest.raises(ActionTimedOut):
                (await env.run("sleep 9", timeout=0.01)).check()
            assert result is not (ok := await env.run("true"))
            assert ok is ok.check()

    scripted(body)


def test_the_parts_of_the_time_add_up_exactly(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            results = await asyncio.gather(*(env.run("sleep 0.02", cpus=2) for _ in range(3)))

        for result in results:
            t = result.timing
            assert t.act_s == t.queued_s + t.overhead_s + t.run_s
            assert min(t) >= 0
            assert 0.019 <= t.run_s
        queued = [r.timing.queued_s for r in results]
        assert queued == sorted(queued)
        assert 0.019 <= queued[1]
        assert 0.038 <= queued[2]

    scripted(body)


def test_an_elastic_command_takes_what_is_free_and_shrinks_for_a_newcomer(
    scripted: Scripted,
) -> None:
    host = ScriptedHost({"wide": Script(work_s=None), "narrow": Script(work_s=None)})

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            wide = env.submit("wide", cpus=(1, 8), kind="reward")
            await until(lambda: host.sandboxes[env.id].running)
            sandbox = host.sandboxes[env.id]
            narrow = env.submit("narrow", cpus=1)
            await until(lambda: len(sandbox.running) == 2)
            await asyncio.sleep(0.01)
            sandbox.finish(f"{narrow.id}.1")
            await narrow
            sandbox.finish(f"{wide.id}.1")
            result = await wide

        assert [2.0, 1.0, 2.0] == [held.cores for held in result.grants]
        ends = [held.at_s for held in result.grants[1:]] + [result.timing.run_s]
        spans = zip(result.grants, ends, strict=True)
        assert result.usage.unit_s == pytest.approx(
            sum(held.cores * (end - held.at_s) for held, end in spans), rel=0.3
        )
        runs = [grant for verb, *_, grant in host.calls if verb == "run"]
        assert [(2000, 2000), (1000, 1000)] == [(run.milli, run.most_milli) for run in runs]

    scripted(body, host=host)


def test_a_command_that_shrinks_before_its_first_step_starts_on_what_it_holds(
    scripted: Scripted,
) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            wide, narrow = env.submit("true", cpus=(1, 8)), env.submit("true", cpus=1)
            await asyncio.gather(wide.result(), narrow.result())

        runs = [grant for verb, *_, grant in host.calls if verb == "run"]
        assert [(1000, 2000), (1000, 1000)] == [(run.milli, run.most_milli) for run in runs]

    scripted(body)


class SlowHost(ScriptedHost):
    """Opens nothing until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def open(self, spec: EnvironmentSpec) -> ScriptedSandbox:
        self.asked.set()
        await self.let.wait()
        return await super().open(spec)


def test_an_environment_can_be_closed_while_it_opens(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: SlowHost) -> None:
        env = tangram.environment()
        opening = asyncio.create_task(env.open())
        await host.asked.wait()
        closing = asyncio.create_task(env.close())
        await asyncio.sleep(0)
        host.let.set()
        await closing

        with pytest.raises(UnknownEnvironment, match="was closed"):
            await opening

    scripted(body, host=SlowHost())


def test_a_fresh_environment_that_opens_slowly_runs_on_what_is_held_by_then(
    scripted: Scripted,
) -> None:
    async def body(tangram: Tangram, host: SlowHost) -> None:
        wide = tangram.submit("true", cpus=(1, 8))
        await host.asked.wait()
        async with tangram.lease(cpus=1):
            host.let.set()
            result = await wide

        assert [2.0, 1.0] == [held.cores for held in result.grants]
        assert [1000] == [grant.milli for verb, *_, grant in host.calls if verb == "run"]

    scripted(body, host=SlowHost())


def test_a_fresh_environment_can_be_given_up_while_it_opens(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: SlowHost) -> None:
        handle = tangram.submit("true")
        await host.asked.wait()
        handle.cancel()

        assert Outcome.CANCELLED is (await handle).outcome

    scripted(body, host=SlowHost())


def test_cancelling_the_awaiting_task_cancels_the_command(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            task = asyncio.create_task(env.run("sleep 60", id="mine"))
            await until(lambda: host.sandboxes[env.id].running)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert () == host.sandboxes[env.id].running

    scripted(body)


def test_a_command_cancelled_before_its_first_step_gives_everything_back(
    scripted: Scripted,
) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            handle = env.submit("sleep 60", cpus=2)
            handle.cancel()
            result = await handle

            assert (Outcome.CANCELLED, None) == (result.outcome, result.exit_code)
            assert [] == [call for call in host.calls if call[0] == "run"]
            assert (await env.run("true", cpus=2)).ok

    scripted(body)


def test_a_command_can_be_cancelled_while_it_waits_and_while_it_runs(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            running = env.submit("echo so far; sleep 60", cpus=2)
            waiting = env.submit("true", cpus=2)
            await until(lambda: host.sandboxes[env.id].running)
            explanation = await waiting.explain()
            waiting.cancel()
            running.cancel()

            assert ("queued", "running") != (waiting.phase, running.phase)
            assert "2 cores on n0, 0 free" == explanation.waits_for
            assert Outcome.CANCELLED is (await waiting).outcome
            result = await running
            assert (Outcome.CANCELLED, "so far\n") == (result.outcome, result.stdout)
            running.cancel()
            assert "done" == running.phase == (await running.explain()).phase

    scripted(body)


def test_what_can_never_fit_is_rejected_with_the_reason(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            result = await env.run("true", cpus=3)

            assert Outcome.REJECTED is result.outcome
            assert "cpus=3," in result.reason
        with pytest.raises(InvalidAction, match="memory=8192MiB"):
            await tangram.environment(memory="8GiB")

    scripted(body)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpus": 0}, r"cpus=0: at least"),
        ({"timeout": "soon"}, r"timeout='soon': give seconds"),
        ({"idle_timeout": -1}, r"idle_timeout=-1: give a time"),
        ({"output_limit": "big"}, r"output_limit='big'"),
        ({"variables": {"A B": "1"}}, r"variables: 'A B' is no name"),
        ({"variables": {"A": 1}}, r"variables: A=1"),
        ({"variables": {"A": "\ud800"}}, r"variables: A="),
        ({"stdin": "\ud800"}, r"stdin: it holds a lone surrogate"),
        ({"kind": ""}, r"kind='': give a name"),
        ({"priority": "high"}, r"priority='high'"),
        ({"id": "a/b"}, r"id='a/b'"),
        ({"cpu": 1}, r"cpu=: there is no such option"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_queued(
    scripted: Scripted, options: dict[str, object], message: str
) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            with pytest.raises(InvalidAction, match=message):
                env.submit("true", **options)  # type: ignore[arg-type]

    scripted(body)


@pytest.mark.parametrize("command", ["", " ", [], [""], "a\0b", ["a", "b\0"], "echo \ud800"])
def test_an_empty_or_impossible_command_is_refused(
    scripted: Scripted, command: str | list[str]
) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            with pytest.raises(InvalidAction, match=r"^command="):
                env.submit(command)

    scripted(body)


def test_the_same_id_is_the_same_action_while_it_lives_and_refused_afterwards(
    scripted: Scripted,
) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            first, again = env.submit("true", id="once"), env.submit("true", id="once")
            with pytest.raises(InvalidAction, match="another action"):
                env.submit("false", id="once")

            assert await first is await again
            with pytest.raises(InvalidAction, match="has ended"):
                env.submit("true", id="once")
            assert 1 == len([call for call in host.calls if call[0] == "run"])

    scripted(body)


def test_an_executor_that_breaks_is_the_infrastructures_fault_and_logged_once(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    host = ScriptedHost({"bug": Script(raises=RuntimeError("a bug"))})

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            result = await env.run("bug")

            assert Outcome.LOST is result.outcome
            assert "the executor broke: RuntimeError('a bug')" == result.reason
            assert (await env.run("true")).ok

    with caplog.at_level(logging.ERROR):
        scripted(body, host=host)
    assert 1 == len(caplog.records)


def test_a_sandbox_that_cannot_run_anything_ends_its_environment(scripted: Scripted) -> None:
    host = ScriptedHost({"bug": Script(raises=Unavailable("the runner is gone"))})

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        env = await tangram.environment()
        other = env.submit("sleep 60")
        result = await env.run("bug")

        for each in (result, await other):
            assert (Outcome.LOST, "the runner is gone") == (each.outcome, each.reason)
        with pytest.raises(Unavailable, match="the runner is gone"):
            await env.run("true")
        await env.close()

    scripted(body, host=host)


def test_an_environment_that_cannot_be_opened_says_why(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        host.refuse = Unavailable("no room on the disk")

        with pytest.raises(Unavailable, match="no room on the disk"):
            await tangram.environment()

    scripted(body)


def test_a_wrong_setting_of_an_environment_is_told_to_whoever_opens_it(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        host.refuse = ConfigError("readable='/x': there is no such path")

        with pytest.raises(ConfigError, match="no such path"):
            await tangram.environment(readable=["/x"])
        host.refuse = None
        async with tangram.environment(memory="4GiB") as env:
            assert (await env.run("true")).ok

    scripted(body)


def test_a_closed_environment_takes_no_more_commands(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        env = tangram.environment()
        with pytest.raises(UnknownEnvironment, match="is not open"):
            env.submit("true")
        async with env:
            handle = env.submit("sleep 60")
        await env.close()

        assert Outcome.CANCELLED is (await handle).outcome
        with pytest.raises(UnknownEnvironment):
            env.submit("true")

    scripted(body)


def test_an_environment_is_opened_once(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        env = tangram.environment()
        await env.close()
        async with env:
            assert env is await env
        with pytest.raises(UnknownEnvironment, match="was closed; make another"):
            await env

        assert ["open", "close"] == [verb for verb, *_ in host.calls]

    scripted(body)


def test_giving_up_on_an_environment_that_waits_for_room_leaves_nothing(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment(memory="3GiB"):
            waiting = asyncio.create_task(tangram.environment(memory="3GiB").open())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        async with tangram.environment(memory="4GiB") as env:
            assert (await env.run("true")).ok

    scripted(body)


def test_an_environment_that_owns_cores_shares_them_between_its_commands(
    scripted: Scripted,
) -> None:
    host = ScriptedHost({"one": Script(work_s=None), "two": Script(work_s=None)})

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment(cpus=2) as env:
            one = env.submit("one")
            await until(lambda: host.sandboxes[env.id].running)
            sandbox = host.sandboxes[env.id]
            two = env.submit("two", cpus=(1, 8))
            await until(lambda: len(sandbox.running) == 2)

            assert [2000, 1000] == [grant.milli for grant in sandbox.grants(f"{one.id}.1")]
            sandbox.finish(f"{one.id}.1")
            await one
            assert [1000, 2000] == [grant.milli for grant in sandbox.grants(f"{two.id}.1")]
            two.cancel()
            await two
            waiting = tangram.submit("true")
            assert "queued" == waiting.phase
        assert (await waiting).ok

    scripted(body, policy="static", host=host)


def test_a_command_without_an_environment_gets_a_fresh_one(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        result = await tangram.run("echo x", task="t", memory="64MiB", network=True)

        assert (Outcome.SUCCEEDED, "x\n") == (result.outcome, result.stdout)
        verbs = [verb for verb, *_ in host.calls]
        assert ["open", "run", "close"] == verbs

    scripted(body)


def test_a_lost_fresh_environment_is_tried_again_and_then_reported(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        host.refuse = Unavailable("no room")
        result = await tangram.run("true")

        assert (Outcome.LOST, 3, "no room") == (result.outcome, result.attempts, result.reason)
        assert result.timing.act_s == sum(result.timing)

    scripted(body)


def test_files_go_in_and_come_out(scripted: Scripted, tmp_path) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            await env.write("a/b.txt", "grün\n")
            await env.write("raw", b"\xff")
            (tmp_path / "in").mkdir()
            (tmp_path / "in" / "f").write_text("f")
            await env.upload(tmp_path / "in", "up")
            await env.download("a", tmp_path / "out")

            assert "grün\n" == await env.read_text("a/b.txt")
            assert b"\xff" == await env.read("raw")
            assert ["a", "raw", "up"] == [entry.name for entry in await env.list()]
            assert "grün\n" == (tmp_path / "out" / "b.txt").read_text()
            with pytest.raises(FileNotFoundError):
                await env.read("absent")

    scripted(body)


def test_commands_of_a_shell_take_turns_and_hold_nothing_while_they_wait(
    scripted: Scripted,
) -> None:
    host = ScriptedHost({"first": Script(work_s=None)})

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env, await env.shell() as shell:
            first = asyncio.create_task(shell.run("first", id="first"))
            second = asyncio.create_task(shell.run("true", check=True))
            sandbox = host.sandboxes[env.id]
            await until(lambda: sandbox.running)

            assert (await env.run("true", cpus=1)).ok  # on the core that the second waits without
            assert not second.done()
            sandbox.finish("first.1")
            assert (await first).ok
            assert (await second).ok
            await shell.close()
            with pytest.raises(UnknownEnvironment, match="the shell is closed"):
                await shell.run("true")

    scripted(body, host=host)


def test_a_tangram_that_is_not_open_says_so(scripted: Scripted) -> None:
    kept: list[Tangram] = []

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        kept.append(tangram)
        with pytest.raises(ConfigError, match="opened before"):
            await tangram.open()

    scripted(body)
    with pytest.raises(Unavailable, match="closed"):
        kept[0].submit("true")
    with pytest.raises(ConfigError, match="policy='best': use one of"):
        scripted(body, policy="best")


class BreaksLater:
    """A policy that proposes the impossible once it is told to."""

    def __init__(self) -> None:
        self.broken = False
        self._sound = policy_named("inflight")

    def decide(self, view: View) -> Plan:
        plan = self._sound.decide(view)
        if self.broken:
            plan.starts = plan.starts * 2
        return plan


def test_when_the_policy_breaks_everybody_is_told_and_closing_still_works(
    scripted: Scripted,
) -> None:
    policy = BreaksLater()

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        env = await tangram.environment()
        running = env.submit("sleep 60", cpus=1)
        opening = asyncio.create_task(tangram.environment(memory="4GiB").open())
        await until(lambda: host.sandboxes[env.id].running)
        policy.broken = True
        with pytest.raises(PolicyError):
            env.submit("true")

        for waiting in (running.result(), opening):
            with pytest.raises(InternalError, match="scheduling stopped: PolicyError"):
                await waiting
        with pytest.raises(InternalError):
            await env.run("true")
        await env.close()

    scripted(body, policy=policy)


def test_a_lost_node_takes_its_commands_and_environments_with_it(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        env = await tangram.environment()
        handle = env.submit("sleep 60")
        await until(lambda: host.sandboxes[env.id].running)
        tangram._ready.driver.lose(NodeId("n0"))

        result = await handle
        assert (Outcome.LOST, "node n0 was lost") == (result.outcome, result.reason)
        with pytest.raises(Unavailable, match="node n0 was lost"):
            env.submit("true")
        await env.close()

    scripted(body)


def test_closing_cancels_everything_that_is_left(scripted: Scripted) -> None:
    handles = []

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        env = await tangram.environment()
        handles.append(env.submit("sleep 60"))
        handles.append(env.submit("sleep 60", cpus=2))
        handles.append(tangram.submit("sleep 60"))
        await until(lambda: host.sandboxes[env.id].running)

    scripted(body)
    assert {Outcome.CANCELLED} == {handle._work.result.outcome for handle in handles}


def test_what_a_command_prints_is_text_whatever_the_bytes(scripted: Scripted) -> None:
    odd = Completion(outcome=Outcome.SUCCEEDED, exit_code=0, stdout=b"\xed\xa0", stdout_bytes=2)
    host = ScriptedHost({"odd": Script(completion=odd)})

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.environment() as env:
            result = await env.run("odd")

        assert b"\xed\xa0" == result.raw_stdout
        assert "�" in result.stdout

    scripted(body, host=host)
