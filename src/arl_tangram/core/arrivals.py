"""How often a service is called, learned with a short memory."""

from __future__ import annotations

import math

from .model import Seconds

#: What is longer ago than this counts little: which service is popular changes within a step.
MEMORY_S = 80.0
#: Calls that a service is credited with before it has shown any, over so many seconds.
PRIOR_CALLS = 0.5
PRIOR_S = 30.0


class Arrivals:
    """The rate of calls to one service: an exponentially weighted count over its time constant."""

    __slots__ = ("_at", "_calls", "_since")

    def __init__(self, now: Seconds) -> None:
        self._since = self._at = now
        self._calls = 0.0

    def add(self, now: Seconds) -> None:
        """A call came."""
        self._calls = self._calls * math.exp((self._at - now) / MEMORY_S) + 1.0
        self._at = now

    def rate(self, now: Seconds) -> float:
        """Calls a second, above zero."""
        calls = self._calls * math.exp((self._at - now) / MEMORY_S)
        seen_s = MEMORY_S * (1.0 - math.exp((self._since - now) / MEMORY_S))
        return (calls + PRIOR_CALLS) / (seen_s + PRIOR_S)
