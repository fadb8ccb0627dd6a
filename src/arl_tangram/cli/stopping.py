"""What a command does when it is asked to stop: it ends all that it runs first."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable
from typing import TypeVar

import typer

T = TypeVar("T")
_INTERRUPTED = 130
_TERMINATED = 143


def run(main: Awaitable[T]) -> T:
    """What this gives, which SIGINT and SIGTERM cancel; the program then exits by 130 or 143."""
    try:
        return asyncio.run(_until_terminated(main))
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    except asyncio.CancelledError:
        raise typer.Exit(_TERMINATED) from None


async def _until_terminated(main: Awaitable[T]) -> T:
    me = asyncio.current_task()
    assert me is not None  # only what a task runs gets here
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    return await main
