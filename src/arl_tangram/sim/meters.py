"""What was made of each quota in a simulated step, told from the calls alone."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core.model import Action, ActionId, Quota, Seconds

#: Differences below this are of rounded floats.
TOLERANCE = 1e-6
#: Tokens that came less than this ago count as not yet there.
PROMPT_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFigures:
    """What was made of one quota.

    Attributes:
        tokens: how many were taken.
        most_over: by how many tokens the worst span of time was above what is allowed; 0 if the
            quota was kept to in every window.
        most_at_once: the most that calls under way held together.
        waited_s: how long anybody waited for tokens.
        used_while_waiting: for what share of that time nothing was left that could have been had.
    """

    tokens: int
    most_over: float
    most_at_once: int
    waited_s: Seconds
    used_while_waiting: float


class Meter:
    """Follows the calls to one API, and knows nothing of the books that the kernel keeps."""

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self._tokens = self._held = self._most_at_once = 0
        self._level = float(quota.burst)
        self._since: Seconds | None = None
        self._waiting: dict[ActionId, int] = {}
        self._wanted: Counter[int] = Counter()  # how many of those want so many tokens
        self._recent: Sequence[deque[tuple[Seconds, int]]] = [deque() for _ in quota.windows]
        self._over = 0.0
        self._waited_s = self._idle_s = 0.0

    def wants(self, action: Action, now: Seconds) -> None:
        """A call was submitted."""
        self._pass(now)
        tokens = self._waiting[action.id] = action.needs[self.quota.resource]
        self._wanted[tokens] += 1

    def gives_up(self, action: ActionId, now: Seconds) -> None:
        """It ended without ever having been made."""
        if action in self._waiting:
            self._pass(now)
            self._leave(action)

    def begins(self, action: Action, now: Seconds) -> None:
        """It is made, perhaps again after its first attempt was lost."""
        self._pass(now)
        tokens = action.needs[self.quota.resource]
        if action.id in self._waiting:
            self._leave(action.id)
        self._tokens += tokens
        self._held += tokens
        self._most_at_once = max(self._most_at_once, self._held)
        if self.quota.concurrency is not None:
            self._over = max(self._over, float(self._held - self.quota.concurrency))
        if self.quota.rate_per_s is not None:
            self._level -= tokens
            self._over = max(self._over, -self._level)
        for window, recent in zip(self.quota.windows, self._recent, strict=True):
            recent.append((now, tokens))
            while recent[0][0] + window.per_s <= now + TOLERANCE:
                recent.popleft()
            self._over = max(self._over, float(sum(n for _, n in recent) - window.tokens))

    def ends(self, tokens: int, now: Seconds) -> None:
        """It was answered."""
        self._pass(now)
        self._held -= tokens

    def figures(self) -> QuotaFigures:
        """All of it."""
        return QuotaFigures(
            tokens=self._tokens,
            most_over=self._over if self._over > TOLERANCE * self._tokens else 0.0,
            most_at_once=self._most_at_once,
            waited_s=self._waited_s,
            used_while_waiting=1.0 - self._idle_s / self._waited_s if self._waited_s else 1.0,
        )

    def _leave(self, action: ActionId) -> None:
        tokens = self._waiting.pop(action)
        self._wanted[tokens] -= 1
        if not self._wanted[tokens]:
            del self._wanted[tokens]

    def _pass(self, now: Seconds) -> None:
        """Let the time until now pass: tokens come, and somebody may have waited beside them."""
        before = now if self._since is None else self._since
        span = now - before
        self._since = now
        rate, level = self.quota.rate_per_s, self._level
        if rate is not None:
            self._level = min(level + span * rate, float(self.quota.burst))
        if not self._waiting or span <= 0.0:
            return
        self._waited_s += span
        needed = min(self._wanted)
        most = self.quota.concurrency
        if most is not None and self._held + needed > most:
            return
        # A sliding window is let pass: when its tokens come back it alone knows.
        if self.quota.windows:
            return
        there_in_s = max(needed - level, 0.0) / rate if rate is not None else 0.0
        idle_s = span - there_in_s
        if idle_s > PROMPT_S:
            self._idle_s += idle_s


class Meters:
    """Those of all quotas of a workload."""

    def __init__(self, quotas: Sequence[Quota]) -> None:
        self._meters = {quota.resource: Meter(quota) for quota in quotas}

    def wants(self, action: Action, now: Seconds) -> None:
        """An action was submitted."""
        for meter in self._of(action):
            meter.wants(action, now)

    def gives_up(self, action: Action, now: Seconds) -> None:
        """It ended, perhaps without ever having started."""
        for meter in self._of(action):
            meter.gives_up(action.id, now)

    def begins(self, action: Action, now: Seconds) -> None:
        """It starts."""
        for meter in self._of(action):
            meter.begins(action, now)

    def ends(self, action: Action, now: Seconds) -> None:
        """Its attempt has ended."""
        for meter in self._of(action):
            meter.ends(action.needs[meter.quota.resource], now)

    def figures(self) -> Mapping[str, QuotaFigures]:
        """All of it, by the name of the quota."""
        return {meter.quota.name: meter.figures() for meter in self._meters.values()}

    def _of(self, action: Action) -> Sequence[Meter]:
        meters = self._meters
        return [meters[name] for name in action.needs if name in meters] if meters else ()
