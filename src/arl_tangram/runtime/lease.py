"""Resources for code of one's own: they are only handed over, and given back at the end."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from ..core.model import MILLI, Action, Outcome, Seconds
from ..core.model import Lease as Attempt
from ..errors import (
    ActionCancelled,
    ActionError,
    ActionRejected,
    InternalError,
    InvalidAction,
)
from .account import Account
from .driver import Driver


class Lease:
    """An asynchronous context manager that waits for resources and holds them until its end.

    Nothing is started and nothing is enforced: the code inside is trusted to keep to it. Raises
    `ActionRejected` if no node could ever give it, and `InvalidAction` if it was entered before.
    """

    __slots__ = ("_account", "_core_ids", "_driver", "_error", "_granted", "_over", "action")

    def __init__(self, action: Action, *, driver: Driver, core_ids: bool) -> None:
        self.action = action
        self._driver = driver
        self._core_ids = core_ids
        self._account: Account | None = None
        self._granted: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._over = False

    @property
    def cpus(self) -> float:
        """How many cores (units) it holds now; 0 when it holds nothing."""
        lease = self._lease
        return lease.grant.cpu_milli / MILLI if lease else 0.0

    @property
    def cores(self) -> tuple[int, ...]:
        """The ids of its cores, a shared one last; empty where a unit is a part of a core."""
        lease = self._lease
        return lease.grant.cores if lease and self._core_ids else ()

    @property
    def revoked(self) -> bool:
        """Whether it was taken away, because the runtime closed or the node was lost."""
        return self._over

    async def __aenter__(self) -> Self:
        if self._account is not None:
            raise InvalidAction("a lease is entered once; ask the Tangram for another one")
        driver = self._driver
        at = driver.now()
        self._account = Account(at)
        driver.submit(self, at)
        if self._lease is None and not self._over:
            self._granted = asyncio.get_running_loop().create_future()
            try:
                await self._granted
            except asyncio.CancelledError:
                driver.cancel(self.action.id)
                raise
        if self._error is not None:  # it is over before it began
            raise self._error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self._exit(Outcome.SUCCEEDED, "")
        elif issubclass(kind, asyncio.CancelledError):
            self._exit(Outcome.CANCELLED, "was cancelled")
        else:
            self._exit(Outcome.FAILED, f"raised {kind.__name__}")

    def start(self, lease: Attempt, at: Seconds) -> None:
        assert self._account is not None
        self._account.started(lease, at)
        self._wake()

    def resize(self, lease: Attempt, at: Seconds) -> None:
        assert self._account is not None
        self._account.resized(lease, at)

    def stop(self, lease: Attempt) -> None:
        # Its code cannot be stopped from here; it can look at `revoked`.
        self._exit(Outcome.CANCELLED, "was taken away")

    def resolve(self, outcome: Outcome, reason: str, at: Seconds) -> None:
        assert self._account is not None
        self._over = True
        self._driver.observers.finished(self.action, outcome, self._account.timing(at))
        self._error = _refusal(outcome, reason)
        self._wake()

    def fail(self, error: BaseException) -> None:
        self._over = True
        self._error = InternalError(f"scheduling stopped: {error!r}")
        self._wake()

    @property
    def _lease(self) -> Attempt | None:
        return None if self._account is None or self._over else self._account.lease

    def _exit(self, outcome: Outcome, reason: str) -> None:
        lease = self._lease
        if lease is None or self._account is None:
            return
        at = self._driver.now()
        self._account.ended(at)
        self._driver.exited(lease, outcome, at, reason)

    def _wake(self) -> None:
        if self._granted is not None and not self._granted.done():
            self._granted.set_result(None)


def _refusal(outcome: Outcome, reason: str) -> ActionError:
    kind = ActionRejected if outcome is Outcome.REJECTED else ActionCancelled
    return kind(reason, outcome=outcome.value)
