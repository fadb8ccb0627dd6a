"""A token bucket on a clock of whole microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field

SECOND = 1_000_000


@dataclass
class TokenBucket:
    """Lets `rate` requests a second pass in the long run, and `burst` at once.

    Attributes:
        rate: tokens that flow in per second.
        burst: the most tokens it keeps; it starts full.
    """

    rate: int
    burst: int
    _tokens: int = field(init=False)
    _filled_at: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.rate < 1 or self.burst < 1:
            raise ValueError(f"rate={self.rate}, burst={self.burst}: both are at least 1")
        self._tokens = self.burst

    def allow(self, now: int, cost: int = 1) -> bool:
        """Take `cost` tokens if they are there at `now` (microseconds)."""
        self._refill(now)
        if cost > self._tokens:
            return False
        self._tokens -= cost
        return True

    def wait(self, now: int, cost: int = 1) -> int:
        """Microseconds from `now` until `cost` tokens are there if nobody else takes any."""
        if cost > self.burst:
            raise ValueError(f"cost={cost}: a bucket of {self.burst} never holds as many")
        self._refill(now)
        if cost <= self._tokens:
            return 0
        missing = cost - self._tokens
        full_at = self._filled_at + -(-missing * SECOND // self.rate)
        return full_at - now

    def _refill(self, now: int) -> None:
        if now < self._filled_at:
            raise ValueError(f"now={now}: time runs forwards, it was {self._filled_at} already")
        fresh = (now - self._filled_at) * self.rate // SECOND
        self._tokens = min(self.burst, self._tokens + fresh)
        self._filled_at = now
