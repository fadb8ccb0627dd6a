"""How users write it with asyncio; checked by mypy, never run."""

from collections.abc import Mapping, Sequence
from typing import assert_type

import arl_tangram as at


async def use() -> None:
    async with at.Tangram.local(require=["cpu"], unit=0.25, journal="run.jsonl") as tangram:
        assert_type(tangram, at.Tangram)
        assert_type(tangram.describe(), Mapping[str, str])
        async with tangram.environment(task="coding", trajectory="t1", step=7) as env:
            same: at.Environment = env
            result = await same.run("pytest -q", cpus=(1, 8), timeout="2m", kind="reward")
            assert_type(result, at.Result)
            assert_type(result.outcome, at.Outcome)
            assert_type(result.exit_code, int | None)
            assert_type(result.stdout, str)
            assert_type(result.timing, at.Timing)
            assert_type(result.timing.act_s, float)
            assert_type(result.usage.cpu_s, float)
            assert_type(result.grants, tuple[at.Held, ...])
            handle = env.submit(["make", "test"], cpus=[1, 2, 4], speedup=at.Amdahl(serial=0.1))
            assert_type(await handle, at.Result)
            assert_type(await handle.explain(), at.Explanation)
            assert_type(handle.phase, str)
            assert_type(await env.list(), Sequence[at.FileEntry])
            async with await env.shell() as shell:
                assert_type(await shell.run("cd src && export X=1"), at.Result)
            await env.run("true", cpu=1)  # type: ignore[call-arg]
        opened = await tangram.environment()
        await opened.close()
        async with tangram.lease(cpus=(1, 4), resizable=True) as lease:
            assert_type(lease.cpus, float)
        assert_type(await tangram.run("true", network=True, memory=None), at.Result)
        assert_type(tangram.quota("search", rate="10/s", burst=20), at.Quota)
        found = await tangram.fetch("search", at.Request(url="http://127.0.0.1/"))
        assert_type(found, at.Answer[at.Response])
        served = tangram.service("judge", driver="openai", command="serve", degrees={1: 1.0})
        assert_type(served, at.Service)
        answer = await tangram.call("judge", {"prompt": "x"}, quota="search", timeout="1m")
        assert_type(answer.outcome, at.Outcome)
        tangram.service("judge", drivr="openai")  # type: ignore[call-arg]
