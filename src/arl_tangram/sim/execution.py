"""One attempt of an action on a virtual executor: how far it is, and when it will be done."""

from __future__ import annotations

from ..core.model import Lease, Outcome, Seconds
from .workload import Turn


class Execution:
    """An attempt that runs: start-up on each unit it is given, then work at the curve's speed.

    Attributes:
        version: grows with every change of units, so that an exit foreseen before is void.
        units: what it runs on now.
        speed: one-unit seconds of work done in a second now, once every unit has started.
        on_cores: whether it is the cluster's cores that do its work.
    """

    __slots__ = (
        "_limit_at",
        "_since",
        "_startup_left_s",
        "_work_left_s",
        "lease",
        "on_cores",
        "speed",
        "started_at",
        "turn",
        "units",
        "version",
    )

    def __init__(self, lease: Lease, turn: Turn, *, now: Seconds) -> None:
        self.lease = lease
        self.turn = turn
        self.started_at = now
        self.version = 0
        self.units = lease.grant.units or turn.units
        self.speed = turn.speedup.at(self.units)
        self.on_cores = turn.action.environment is not None or lease.grant.cpu_milli > 0
        timeout_s = turn.action.timeout_s
        self._limit_at = None if timeout_s is None else now + timeout_s
        self._since = now
        self._startup_left_s = turn.speedup.startup_s * self.units
        self._work_left_s = turn.work_s

    def resize(self, lease: Lease, *, now: Seconds) -> Seconds:
        """Hold this lease's units from now on; returns what `settle` does."""
        used_s = self.settle(now)
        added = lease.grant.units - self.units
        self.lease = lease
        self.units = lease.grant.units
        self.speed = self.turn.speedup.at(self.units)
        # A unit that leaves while units start has paid for its own start in vain.
        self._startup_left_s += max(added, 0) * self.turn.speedup.startup_s
        self.version += 1
        return used_s

    def settle(self, now: Seconds) -> Seconds:
        """Count what happened since the last change; returns the one-unit seconds it used."""
        elapsed = now - self._since
        starting = min(elapsed, self._startup_left_s)
        done = min((elapsed - starting) * self.speed, self._work_left_s)
        self._startup_left_s -= starting
        self._work_left_s -= done
        self._since = now
        return starting + done

    def ends(self) -> tuple[Seconds, Outcome]:
        """When and how it ends if its units stay as they are."""
        done_at = self._since + self._startup_left_s + self._work_left_s / self.speed
        if self._limit_at is not None and done_at >= self._limit_at:
            return max(self._limit_at, self._since), Outcome.TIMED_OUT
        return done_at, Outcome.SUCCEEDED
