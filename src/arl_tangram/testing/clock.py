"""A clock that stands still until a test moves it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from ..core.model import Seconds


class ManualTimer:
    """A call that a `ManualClock` will make."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """Time for tests: `advance` moves it and makes the calls that fall due on the way, in order."""

    def __init__(self, start: Seconds = 0.0) -> None:
        self._now = start
        self._sequence = count()
        self._timers: list[tuple[Seconds, int, ManualTimer]] = []

    def now(self) -> Seconds:
        return self._now

    def call_at(self, when: Seconds, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(callback)
        heapq.heappush(self._timers, (when, next(self._sequence), timer))
        return timer

    def advance(self, seconds: Seconds) -> None:
        """Let this much time pass."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            if timer.callback is not None:
                timer.callback()
        self._now = end

    @property
    def next_call(self) -> Seconds | None:
        """When the next call falls due."""
        return min((when for when, _, timer in self._timers if timer.callback), default=None)
