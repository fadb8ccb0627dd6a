"""This project, embedded: leases, commands and shells in an open environment, environments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

import arl_tangram as at
from bench.measuring import in_batches_awaited, one_by_one_awaited
from bench.serving import Measure, Ready, serve

LEASES = 1_000
COMMANDS = 200


@contextmanager
def embedded() -> Iterator[Ready]:
    """One `Tangram` of this machine, with one environment and one shell open."""

    async def lease() -> None:
        async with tangram.lease(cpus=1):
            pass

    async def lease_many() -> None:
        await asyncio.gather(*(lease() for _ in range(LEASES)))

    async def true() -> None:
        result = await environment.run(["true"])
        assert result.exit_code == 0, result

    async def true_many() -> None:
        handles = [environment.submit(["true"]) for _ in range(COMMANDS)]
        for handle in handles:
            result = await handle.result()
            assert result.exit_code == 0, result

    async def command() -> None:
        result = await shell.run("true")
        assert result.exit_code == 0, result

    async def open_and_close() -> None:
        async with tangram.environment(task="bench"):
            pass

    with asyncio.Runner() as runner:

        def single(call: Callable[[], Awaitable[object]]) -> Measure:
            return lambda seconds, _: runner.run(one_by_one_awaited(call, seconds))

        def batch(call: Callable[[], Awaitable[object]], size: int) -> Measure:
            return lambda seconds, _: runner.run(in_batches_awaited(call, seconds, size=size))

        tangram, environment, shell = runner.run(_opened())
        try:
            for warm_up in (lease, true, command, open_and_close):
                runner.run(one_by_one_awaited(warm_up, 0.1))
            yield Ready(
                {
                    "lease": single(lease),
                    "lease_many": batch(lease_many, LEASES),
                    "true": single(true),
                    "true_many": batch(true_many, COMMANDS),
                    "command": single(command),
                    "open_and_close": single(open_and_close),
                },
                {"arl-tangram": version("arl-tangram"), **tangram.describe()},
            )
        finally:
            runner.run(tangram.close())


async def _opened() -> tuple[at.Tangram, at.Environment, at.Shell]:
    tangram = await at.Tangram.local().open()
    environment = await tangram.environment(task="bench").open()
    return tangram, environment, await environment.shell()


if __name__ == "__main__":
    serve(embedded)
