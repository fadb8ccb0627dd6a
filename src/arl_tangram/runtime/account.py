"""The account of one action: when it waited, ran and ended, and what it held meanwhile."""

from __future__ import annotations

from ..core.model import MILLI, Lease, Seconds
from .results import Held, Timing


class Account:
    """Written as things happen, read once at the end. All times are on the driver's clock."""

    __slots__ = (
        "_earlier_unit_s",
        "_ended_at",
        "_held",
        "_queued_s",
        "_started_at",
        "_waits_since",
        "attempts",
        "lease",
        "submitted_at",
    )

    def __init__(self, submitted_at: Seconds) -> None:
        self.submitted_at = self._waits_since = submitted_at
        self._started_at = self._ended_at = submitted_at
        self._queued_s = 0.0
        self._earlier_unit_s = 0.0
        self._held: list[tuple[Seconds, int]] = []
        self.attempts = 0
        self.lease: Lease | None = None

    def started(self, lease: Lease, at: Seconds) -> None:
        """An attempt got its lease."""
        if self.attempts:
            self._earlier_unit_s = self.unit_s()
        self._queued_s += at - self._waits_since
        self._started_at = at
        self.attempts += 1
        self.lease = lease
        self._held = [(at, lease.grant.cpu_milli)]

    def resized(self, lease: Lease, at: Seconds) -> None:
        """The running attempt holds another amount."""
        self.lease = lease
        self._held.append((at, lease.grant.cpu_milli))

    def ended(self, at: Seconds) -> None:
        """The attempt gave back what it held; if it was lost, the action waits again."""
        self._ended_at = self._waits_since = at

    def timing(self, at: Seconds, run_s: Seconds | None = None) -> Timing:
        """Where the time went, if the action is over at this time.

        `run_s` is what the executor measured; without its word the whole last attempt was run.
        """
        act_s = at - self.submitted_at
        if not self.attempts:
            return Timing(act_s, 0.0, 0.0)
        lasted_s = self._ended_at - self._started_at
        run_s = lasted_s if run_s is None else min(run_s, lasted_s)
        return Timing(self._queued_s, max(0.0, act_s - self._queued_s - run_s), run_s)

    def unit_s(self) -> Seconds:
        """Units times the seconds they were held, over all attempts that ended."""
        total, until = self._earlier_unit_s, self._ended_at
        for since, milli in reversed(self._held):
            total += (until - since) * milli / MILLI
            until = since
        return total

    def grants(self) -> tuple[Held, ...]:
        """What the last attempt held, from its start."""
        return tuple(Held(at - self._started_at, milli / MILLI) for at, milli in self._held)
