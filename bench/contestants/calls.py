"""A call to a service beside the same request sent to the same server by hand, in turns."""

from __future__ import annotations

import asyncio
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

import arl_tangram as at
from bench.measuring import Absent, Figures
from bench.serving import Ready, serve

READY_S = 30.0
BODY = {"model": "m", "prompt": "a prompt of a few words", "max_tokens": 8}


@contextmanager
def calls() -> Iterator[Ready]:
    """A small server of the OpenAI protocol, which stands for a model that answers at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "arl_tangram.testing.model_server", "--port", str(port)]
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address)
        with asyncio.Runner() as runner:
            yield Ready(
                {"overhead": lambda seconds, _: runner.run(_overhead(address, seconds))},
                {"httpx": httpx.__version__},
            )
    finally:
        server.kill()
        server.wait()


async def _overhead(address: str, seconds: float) -> Figures:
    took: dict[str, list[float]] = {"direct": [], "call": []}
    async with (
        httpx.AsyncClient(trust_env=False) as client,
        at.Tangram.local(gpus=1, gpu_memory="64MiB") as tangram,
    ):
        tangram.service("model", driver="openai", address=address, pinned=[1])

        async def direct() -> None:
            reply = await client.post(f"{address}/v1/completions", json=BODY)
            reply.raise_for_status().json()

        async def call() -> None:
            (await tangram.call("model", BODY)).check()

        pair = [("direct", direct), ("call", call)]
        await direct()
        await call()
        end = time.perf_counter() + 2 * seconds
        while not took["call"] or time.perf_counter() < end:
            pair.reverse()  # whoever comes second finds the caches warm
            for name, send in pair:
                begin = time.perf_counter()
                await send()
                took[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(some) for name, some in took.items()}
    return {
        "p50_s": medians["call"],
        "direct_p50_s": medians["direct"],
        "added_p50_s": medians["call"] - medians["direct"],
    }


def _wait_for(address: str) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        try:
            if httpx.get(f"{address}/health", trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise Absent(f"the server at {address} was not up within {READY_S:g} s")


if __name__ == "__main__":
    serve(calls)
