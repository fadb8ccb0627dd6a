"""SWE-ReX: its local runtime, without a server between."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

from bench.measuring import one_by_one_awaited
from bench.serving import Measure, Ready, serve


@contextmanager
def swe_rex() -> Iterator[Ready]:
    """One runtime with one open session."""
    os.environ["SWE_REX_LOG_STREAM_LEVEL"] = "ERROR"
    from swerex.runtime.abstract import (  # noqa: PLC0415  it may be absent, which is then told
        BashAction,
        Command,
        CreateBashSessionRequest,
    )
    from swerex.runtime.local import LocalRuntime  # noqa: PLC0415

    logging.disable(logging.WARNING)

    async def execute() -> None:
        response = await runtime.execute(Command(command=["true"]))
        assert response.exit_code == 0

    async def command() -> None:
        observation = await runtime.run_in_session(BashAction(command="true"))
        assert observation.exit_code == 0

    with asyncio.Runner() as runner:

        def single(call: Callable[[], Awaitable[object]]) -> Measure:
            return lambda seconds, _: runner.run(one_by_one_awaited(call, seconds))

        runtime = LocalRuntime()
        # Its second is too short for a machine that is busy.
        runner.run(runtime.create_session(CreateBashSessionRequest(startup_timeout=30.0)))
        try:
            yield Ready(
                {"execute": single(execute), "command": single(command)},
                {"swe-rex": version("swe-rex")},
            )
        finally:
            runner.run(runtime.close())


if __name__ == "__main__":
    serve(swe_rex)
