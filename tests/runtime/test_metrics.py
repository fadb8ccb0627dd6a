"""What can be scraped adds up with what happened."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arl_tangram.errors import InvalidAction
from arl_tangram.runtime.steps import KEPT
from arl_tangram.runtime.tangram import Tangram
from arl_tangram.testing.scripted_host import ScriptedHost


def test_actions_their_time_and_what_is_granted_are_counted(scripted: Callable[..., None]) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        def sample(name: str, **labels: str) -> float | None:
            return tangram.metrics.get_sample_value(f"arl_tangram_{name}", labels)

        async with tangram.environment(task="coding") as env:
            for _ in range(3):
                await env.run("true", kind="bash")
            await env.run("false", kind="bash")
            async with tangram.lease(cpus=(1, 8), resizable=True):
                assert 2.0 == sample("units_granted")
                await env.run("sleep 0.01", kind="reward")
                assert 2.0 == sample("units_granted")
            assert 0.0 == sample("units_granted")

        labels = {"task": "coding", "kind": "bash"}
        assert 3.0 == sample("actions_total", outcome="succeeded", **labels)
        assert 1.0 == sample("actions_total", outcome="failed", **labels)
        assert 6.0 == sample("action_run_seconds_count")
        assert 6.0 == sample("action_queued_seconds_count")
        assert 2.0 == sample("resizes_total")

    scripted(body)


def test_two_tangrams_count_apart(scripted: Callable[..., None]) -> None:
    async def run_one(tangram: Tangram, host: ScriptedHost) -> None:
        await tangram.run("true")
        assert 1.0 == tangram.metrics.get_sample_value("arl_tangram_action_run_seconds_count")

    scripted(run_one)
    scripted(run_one)


def test_a_step_tells_how_many_of_its_environments_are_gone_and_how_long_it_has_lasted(
    scripted: Callable[..., None],
) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        def sample(name: str, **labels: str) -> float | None:
            labels = {"task": "coding", "step": "7", **labels}
            return tangram.metrics.get_sample_value(f"arl_tangram_step_{name}", labels)

        async with tangram.environment(task="coding", step=7), tangram.environment():
            async with tangram.environment(task="coding", step=7) as env:
                await env.run("sleep 0.05")
            assert (1.0, 1.0) == (
                sample("environments", state="live"),
                sample("environments", state="gone"),
            )
            so_far = sample("seconds")
            assert so_far is not None
            assert so_far >= 0.05
        whole = sample("seconds")
        assert whole is not None
        assert whole >= so_far
        await tangram.run("sleep 0.05")  # of no step
        assert whole == sample("seconds")
        assert (0.0, 2.0) == (
            sample("environments", state="live"),
            sample("environments", state="gone"),
        )

    scripted(body)


def test_an_environment_that_is_refused_counts_as_gone(scripted: Callable[..., None]) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        with pytest.raises(InvalidAction):
            await tangram.environment(step=1, memory="900GiB")

        labels = {"task": "default", "step": "1", "state": "gone"}
        assert 1.0 == tangram.metrics.get_sample_value("arl_tangram_step_environments", labels)

    scripted(body)


def test_only_the_latest_steps_are_told(scripted: Callable[..., None]) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        for number in range(KEPT + 1):
            async with tangram.environment(step=number):
                pass

        def told(step: int) -> float | None:
            labels = {"task": "default", "step": str(step)}
            return tangram.metrics.get_sample_value("arl_tangram_step_seconds", labels)

        assert told(0) is None
        assert None not in [told(number) for number in range(1, KEPT + 1)]

    scripted(body)
