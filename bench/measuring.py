"""How a contestant is timed: one call after the other, or in batches.

Only the standard library is imported here: contestants run under interpreters that lack the rest.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable

Figures = dict[str, float]
"""What was measured, by name; the end of a name is the unit."""


class Absent(Exception):
    """What was to be measured is not to be had on this machine."""


def one_by_one(call: Callable[[], object], seconds: float) -> Figures:
    """Call it over and over for so long; the time that one call takes."""
    took: list[float] = []
    end = time.perf_counter() + seconds
    while not took or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        took.append(time.perf_counter() - begin)
    return spread(took)


async def one_by_one_awaited(call: Callable[[], Awaitable[object]], seconds: float) -> Figures:
    """As `one_by_one`, for a coroutine function."""
    took: list[float] = []
    end = time.perf_counter() + seconds
    while not took or time.perf_counter() < end:
        begin = time.perf_counter()
        await call()
        took.append(time.perf_counter() - begin)
    return spread(took)


def in_batches(batch: Callable[[], object], seconds: float, *, size: int) -> Figures:
    """Run batches of `size` calls for so long; how many calls are done in a second."""
    return throughput(one_by_one(batch, seconds), size=size)


async def in_batches_awaited(
    batch: Callable[[], Awaitable[object]], seconds: float, *, size: int
) -> Figures:
    """As `in_batches`, for a coroutine function."""
    return throughput(await one_by_one_awaited(batch, seconds), size=size)


def throughput(batches: Figures, *, size: int) -> Figures:
    """What the times of whole batches say about their calls."""
    return {"rate_per_s": size / batches["p50_s"], "batches": batches["count"]}


def spread(took: list[float]) -> Figures:
    """The figures of many times in seconds."""
    took = sorted(took)
    return {
        "p50_s": statistics.median(took),
        "p99_s": took[int(len(took) * 0.99)],
        "rate_per_s": len(took) / sum(took),
        "count": len(took),
    }
