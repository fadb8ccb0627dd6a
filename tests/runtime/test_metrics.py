"""What can be scraped adds up with what happened."""

from __future__ import annotations

from collections.abc import Callable

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
