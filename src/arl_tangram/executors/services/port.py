"""What a driver of services must do: bring instances up, ask them, and let them go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ...core.model import Outcome, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where an instance is to be.

    Attributes:
        instance: what it is called, once and never again.
        devices: what it is given, an aligned cell.
        device_mib: what it may hold on each.
    """

    instance: str
    devices: tuple[int, ...]
    device_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How one call to an instance ended.

    Attributes:
        outcome: LOST if the service is to blame, FAILED if the request is.
        value: the answer.
        reason: why it ended so; empty on success.
        retry_after_s: how long it asked everybody to wait; None if it did not.
    """

    outcome: Outcome
    value: Any = None
    reason: str = ""
    retry_after_s: Seconds | None = None


class ServiceDriver(Protocol):
    """Brings the instances of one service up and down. Nothing it does may block the event loop.

    All that goes wrong for a reason outside of us raises `Unavailable`; every method may be
    cancelled, and whoever calls it sets a time limit and calls `end` when that has passed.
    """

    movable: bool
    """Whether what sleeps can wake on other devices than those it left."""

    def warm(self, seat: Seat) -> bool:
        """Whether there is a copy on this machine to restore it from."""

    async def restore(self, seat: Seat) -> None:
        """Bring it up; on return it has answered something."""

    async def evict(self, instance: str) -> None:
        """Take it off its devices; keep a copy if there is a way to."""

    async def forget(self, instance: str) -> None:
        """Drop the copy that this instance was restored from or left."""

    async def end(self, instance: str) -> None:
        """Take it off its devices by force, without a copy if need be."""

    async def died(self, instance: str) -> str:
        """Wait until it ends by itself, and say how."""

    async def answers(self, instance: str) -> bool:
        """Whether it shows any sign of life, within a few seconds."""

    async def call(self, instance: str, request: Any, *, timeout_s: Seconds) -> Said:
        """Ask it; a bad answer is a value.

        When this has ended, cancelled or not, nothing that we run is at work for it any more.
        """

    async def close(self) -> None:
        """End everything."""
