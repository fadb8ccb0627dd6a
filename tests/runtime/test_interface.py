"""What `arl_tangram` offers, and the example everybody starts from, on real processes."""

from __future__ import annotations

import asyncio

import pytest

import arl_tangram as at
from arl_tangram import errors


def test_every_public_name_is_there() -> None:
    assert sorted(at.__all__) == list(at.__all__)
    for name in at.__all__:
        assert getattr(at, name) is not None
        assert name in dir(at)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        at.nothing  # noqa: B018


def test_every_exception_is_public() -> None:
    raised = {name for name, value in vars(errors).items() if isinstance(value, type)}

    assert raised <= set(at.__all__)


def test_the_example_of_the_documentation_runs() -> None:
    async def main() -> None:
        async with at.Tangram.local() as tangram:
            async with tangram.environment(task="coding", memory="512MiB") as env:
                await env.write("app.py", "print(1)\n")
                r = await env.run("python3 app.py", cpus=(1, 8), timeout=120, kind="reward")
                assert (at.Outcome.SUCCEEDED, 0, "1\n", "", False, "") == (
                    r.outcome,
                    r.exit_code,
                    r.stdout,
                    r.stderr,
                    r.truncated,
                    r.reason,
                )
                t = r.timing
                assert t.act_s == t.queued_s + t.overhead_s + t.run_s > 0
                assert r.usage.cpu_s > 0
                assert r.usage.peak_memory_bytes >= 0
                assert r.grants[0].at_s == 0
                assert r.grants[0].cores >= 1
                handle = env.submit("sleep 60", cpus=(1, 8))
                explanation = await handle.explain()
                handle.cancel()
                assert handle.id == explanation.action
                assert at.Outcome.CANCELLED is (await handle.result()).outcome
                shell = await env.shell()
                await shell.run("mkdir src && cd src && export X=1")
                assert "/src 1" in (await shell.run("echo $PWD $X")).stdout
            async with tangram.lease(cpus=1) as lease:
                assert (1.0, 1) == (lease.cpus, len(lease.cores))

    asyncio.run(main())
