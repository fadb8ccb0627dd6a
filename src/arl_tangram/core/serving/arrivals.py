"""How often each service is called, learned with a short memory."""

from __future__ import annotations

import math

from ..model import Seconds

#: What is longer ago than this counts little: which service is popular changes within a step.
MEMORY_S = 80.0
#: A service is believed to be called as often as the average one until it has shown more calls
#: than this.
PRIOR_CALLS = 2.0
#: What the average service is believed to be called before any was: so many calls in so long.
FIRST_CALLS = 0.5
FIRST_S = 30.0


class Count:
    """Calls of late, as an exponentially weighted count."""

    __slots__ = ("_at", "_calls", "_since")

    def __init__(self, now: Seconds) -> None:
        self._since = self._at = now
        self._calls = 0.0

    def add(self, now: Seconds) -> None:
        """A call came."""
        self._calls = self.calls(now) + 1.0
        self._at = now

    def calls(self, now: Seconds) -> float:
        """How many came, older ones counting less."""
        return self._calls * math.exp((self._at - now) / MEMORY_S)

    def seen_s(self, now: Seconds) -> Seconds:
        """How long it has looked, what is long ago counting less."""
        return MEMORY_S * (1.0 - math.exp((self._since - now) / MEMORY_S))


class Together:
    """All services' calls, from which a new service borrows."""

    def __init__(self) -> None:
        self._services = 0
        self._all: Count | None = None

    def arrivals(self, now: Seconds) -> Arrivals:
        """Those of one more service."""
        if self._all is None:
            self._all = Count(now)
        self._services += 1
        return Arrivals(Count(now), self._all, self)

    def rate(self, of_all: Count, now: Seconds) -> float:
        """Calls a second to the average service, above zero."""
        calls = of_all.calls(now) / self._services + FIRST_CALLS
        return calls / (of_all.seen_s(now) + FIRST_S)


class Arrivals:
    """The rate of calls to one service."""

    __slots__ = ("_all", "_count", "_rate", "_rate_at", "_together")

    def __init__(self, count: Count, of_all: Count, together: Together) -> None:
        self._count = count
        self._all = of_all
        self._together = together
        self._rate_at: Seconds | None = None
        self._rate = 0.0

    def add(self, now: Seconds) -> None:
        """A call came."""
        self._count.add(now)
        self._all.add(now)
        self._rate_at = None

    def rate(self, now: Seconds) -> float:
        """Calls a second, above zero."""
        if self._rate_at != now:
            count = self._count
            borrowed_s = PRIOR_CALLS / self._together.rate(self._all, now)
            self._rate = (count.calls(now) + PRIOR_CALLS) / (count.seen_s(now) + borrowed_s)
            self._rate_at = now
        return self._rate
