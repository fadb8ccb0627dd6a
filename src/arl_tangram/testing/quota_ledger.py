"""Whether quotas are kept to, told from events and commands alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.model import API, Action, Quota, Seconds
from ..sim.meters import Meter


@dataclass(slots=True, eq=False)
class QuotaLedger:
    """Raises `AssertionError` at the first broken promise about quotas.

    What it knows: in no span of time are more tokens taken than rate, windows and calls at once
    allow, and nobody calls during a pause.
    """

    meters: dict[str, Meter] = field(default_factory=dict)
    paused_until: dict[str, Seconds] = field(default_factory=dict)

    def declared(self, quota: Quota) -> None:
        """There is a new quota."""
        self.meters[quota.resource] = Meter(quota)

    def throttled(self, quota: str, until: Seconds) -> None:
        """The other side asked for a pause."""
        name = API + quota
        self.paused_until[name] = max(until, self.paused_until.get(name, until))

    def started(self, action: Action, now: Seconds) -> None:
        """A call begins."""
        for name in self._of(action):
            assert now >= self.paused_until.get(name, now) - 1e-6, f"{action.id}: {name} is paused"
            self.meters[name].begins(action, now)
            over = self.meters[name].figures().most_over
            assert not over, f"{action.id}: {over} tokens more than {name} allows"

    def ended(self, action: Action, now: Seconds) -> None:
        """An attempt gave back what it held."""
        for name in self._of(action):
            self.meters[name].ends(action.needs[name], now)

    def _of(self, action: Action) -> list[str]:
        return [name for name in action.needs if name.startswith(API)]
