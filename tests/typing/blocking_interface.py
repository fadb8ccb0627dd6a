"""How users write it without asyncio; checked by mypy, never run."""

from typing import assert_type

import arl_tangram as at
from arl_tangram import blocking


def use() -> None:
    with blocking.Tangram.local(cpus=8, policy="inflight", profile="kinds.json") as tangram:
        assert_type(tangram, blocking.Tangram)
        with tangram.environment(task="coding", memory="512MiB") as env:
            assert_type(env, blocking.Environment)
            env.write("app.py", "print(1)\n")
            assert_type(env.read("app.py"), bytes)
            result = env.run("pytest -q", cpus=(1, 8), timeout=120, kind="reward", check=True)
            assert_type(result, at.Result)
            handle = env.submit(["make", "test"], cpus=[1, 2, 4], speedup=at.Roofline(cap=4))
            assert_type(handle, blocking.Handle)
            assert_type(handle.result(), at.Result)
            assert_type(handle.explain(), at.Explanation)
            with env.shell() as shell:
                assert_type(shell.run("cd src && export X=1"), at.Result)
        with tangram.lease(cpus=2) as lease:
            assert_type(lease.cpus, float)
            assert_type(lease.cores, tuple[int, ...])
        assert_type(tangram.run("true", network=True), at.Result)
        tangram.service("judge", driver="command", call="cat")
        assert_type(tangram.call("judge", "x").outcome, at.Outcome)
        assert_type(tangram.fetch("search", "http://127.0.0.1/"), at.Answer[at.Response])
        env.run("true", cpu=1)  # type: ignore[call-arg]
        tangram.environment(memory=1.5)  # type: ignore[arg-type]
