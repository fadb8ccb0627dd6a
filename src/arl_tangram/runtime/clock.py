"""Time as an object, so that a test can move it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from ..core.model import Seconds


class Timer(Protocol):
    """A call that has been put off."""

    def cancel(self) -> None:
        """Never make the call; ignored if it was made."""


class Clock(Protocol):
    """Where the driver gets its time from; it never goes back."""

    def now(self) -> Seconds: ...

    def call_at(self, when: Seconds, callback: Callable[[], None]) -> Timer:
        """Call back at this time, or as soon as possible if it has passed."""


class MonotonicClock:
    """The machine's monotonic time, with the event loop for its timers."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.now: Callable[[], Seconds] = time.monotonic

    def call_at(self, when: Seconds, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(0.0, when - self.now()), callback)
