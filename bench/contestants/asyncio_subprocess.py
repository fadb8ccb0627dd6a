"""Subprocesses of asyncio, their output collected."""

from __future__ import annotations

import asyncio
import os
import platform
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import contextmanager

from bench.measuring import Figures, in_batches_awaited, one_by_one_awaited
from bench.serving import Ready, serve

BATCH = 200


@contextmanager
def asyncio_subprocess() -> Iterator[Ready]:
    """One event loop. Twice as many processes as cores at once: more at once are slower."""
    at_once = 2 * len(os.sched_getaffinity(0))

    async def true() -> None:
        process = await asyncio.create_subprocess_exec("true", stdout=PIPE, stderr=PIPE)
        await process.communicate()
        assert process.returncode == 0

    async def many() -> None:
        turns = asyncio.Semaphore(at_once)

        async def one() -> None:
            async with turns:
                await true()

        await asyncio.gather(*(one() for _ in range(BATCH)))

    with asyncio.Runner() as runner:

        def one_by_one(seconds: float, _: int) -> Figures:
            return runner.run(one_by_one_awaited(true, seconds))

        def in_batches(seconds: float, _: int) -> Figures:
            return runner.run(in_batches_awaited(many, seconds, size=BATCH))

        yield Ready(
            {"true": one_by_one, "true_many": in_batches},
            {"python": platform.python_version(), "at once": str(at_once)},
        )


if __name__ == "__main__":
    serve(asyncio_subprocess)
