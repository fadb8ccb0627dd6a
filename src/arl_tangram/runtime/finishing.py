"""Waiting for what must not be left half done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def to_the_end(ending: Awaitable[T]) -> T:
    """Wait for it even if this task is cancelled meanwhile; the cancellation is raised afterwards.

    A second cancellation is not waited for.
    """
    task = asyncio.ensure_future(ending)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
