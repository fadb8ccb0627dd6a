"""How much of each API quota is left, and when more comes."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from ..model import Quota, Seconds, Window
from ..shares import Shares

#: A refill that is due within this is there: times arrive as rounded floats.
TOLERANCE_S = 1e-9
#: A sliding window remembers its grants in this many slices, each freed when all of it has passed.
SLICES = 256
NEVER = float("inf")


class QuotaPool:
    """The books of one quota: calls under way, a token bucket, sliding windows, and pauses.

    The token bucket is kept as a theoretical arrival time (GCRA, ITU-T I.371): in any span of t
    seconds at most ``burst + rate * t`` tokens are granted. With `adaptive`, the rate and the
    calls at once are found by additive increase and multiplicative decrease.
    """

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.held = 0
        """Tokens held by calls under way."""
        spent = quota.rate_per_s is not None or bool(quota.windows)
        self.shares = Shares(by_turns=spent or quota.concurrency is None)
        """What each task has of it."""
        self.paused_until: Seconds = -NEVER
        self._windows = [_Sliding(window) for window in quota.windows]
        self._rate = quota.rate_per_s
        self._at_once: float = NEVER if quota.concurrency is None else quota.concurrency
        self._arrival: Seconds = -NEVER  # when the bucket will be full again
        self._largest = 1  # tokens that one call has asked for

    def available(self, now: Seconds) -> int:
        """How many tokens can be taken now."""
        if now < self.paused_until - TOLERANCE_S:
            return 0
        most = max(math.floor(self._at_once) - self.held, 0) if self._at_once < NEVER else NEVER
        if self._rate is not None:
            behind = max(self._arrival - now, 0.0) * self._rate
            most = min(most, math.floor(self._depth - behind + TOLERANCE_S * self._rate))
        for window in self._windows:
            most = min(most, window.available(now))
        return int(min(max(most, 0), _PLENTY))

    def expect(self, tokens: int) -> None:
        """A call asks for so many at once: after a pause that must still be possible."""
        self._largest = max(self._largest, tokens)
        self._at_once = max(self._at_once, float(self._largest))

    def take(self, now: Seconds, tokens: int) -> None:
        """Take tokens; the caller has checked that they are there."""
        self.held += tokens
        if self._rate is not None:
            self._arrival = max(self._arrival, now) + tokens / self._rate
        for window in self._windows:
            window.take(now, tokens)

    def give_back(self, tokens: int) -> None:
        """The call ended: its place among the calls at once is free; its rate tokens are spent."""
        self.held -= tokens

    def next_change(self, now: Seconds, tokens: int) -> Seconds:
        """When so many tokens can be taken, if nobody else takes any and no call ends.

        Infinity if only the end of a call can bring them.
        """
        if math.floor(min(self._at_once, _PLENTY)) - self.held < tokens:
            return NEVER
        at = max(now, self.paused_until)
        if self._rate is not None:
            at = max(at, self._arrival + (tokens - self._depth) / self._rate)
        for window in self._windows:
            at = max(at, window.next_change(tokens))
        return at

    def could_ever(self, tokens: int) -> bool:
        """Whether so many tokens can ever be had at once."""
        quota = self.quota
        return (
            (quota.rate_per_s is None or tokens <= quota.burst)
            and (quota.concurrency is None or tokens <= quota.concurrency)
            and all(tokens <= window.tokens for window in quota.windows)
        )

    def succeeded(self) -> None:
        """A call was answered: an adaptive quota dares a little more."""
        quota = self.quota
        if quota.concurrency is not None:
            self._at_once = min(self._at_once + 1.0, quota.concurrency)
        elif self._at_once < NEVER:
            self._at_once += 1.0 / max(self._at_once, 1.0)
        if self._rate is not None and quota.adaptive:
            # One more a second for every second of answers at the present rate.
            self._rate = min(self._rate + 1.0 / self._rate, quota.rate_per_s or NEVER)

    def throttled(self, now: Seconds, retry_after_s: Seconds) -> None:
        """The other side asked for a pause: nobody calls before it ends, and then not all at once.

        After the pause the bucket starts empty and the calls at once start from half of those there
        were, but for the largest call.
        """
        self.paused_until = max(self.paused_until, now + retry_after_s)
        if self._rate is not None:
            if self.quota.adaptive:
                self._rate = max(self._rate / 2.0, _SLOWEST)
            refill = (self._depth - 1.0) / self._rate
            self._arrival = max(self._arrival, self.paused_until + refill)
        if self._at_once < NEVER or self._rate is None:
            self._at_once = max(float(self._largest), min(self._at_once, self.held) / 2.0)

    @property
    def _depth(self) -> float:
        return float(self.quota.burst)


#: More tokens than anybody asks for at once; keeps unlimited quotas in whole numbers.
_PLENTY = 1_000_000_000
#: An adaptive quota never falls below this many calls a second.
_SLOWEST = 1.0 / 60.0


@dataclass(slots=True)
class _Slice:
    ends_at: Seconds
    tokens: int


class _Sliding:
    """At most `tokens` in any span of `per_s` seconds."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._width = window.per_s / SLICES
        self._slices: deque[_Slice] = deque()
        self._used = 0

    def available(self, now: Seconds) -> int:
        self._forget(now)
        return self._window.tokens - self._used

    def take(self, now: Seconds, tokens: int) -> None:
        self._forget(now)
        self._used += tokens
        if self._slices and now < self._slices[-1].ends_at:
            self._slices[-1].tokens += tokens
        else:
            self._slices.append(_Slice(now + self._width, tokens))

    def next_change(self, tokens: int) -> Seconds:
        free = self._window.tokens - self._used
        for piece in self._slices:
            if free >= tokens:
                break
            free += piece.tokens
            at = piece.ends_at + self._window.per_s
            if free >= tokens:
                return at
        return -NEVER if free >= tokens else NEVER

    def _forget(self, now: Seconds) -> None:
        slices, per_s = self._slices, self._window.per_s
        while slices and slices[0].ends_at + per_s <= now + TOLERANCE_S:
            self._used -= slices.popleft().tokens
