"""An awaitable of one's own as the work behind an action: HTTP requests and calls to services."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, Self, TypeVar

from ..core.model import Action, ActionId, Lease, Outcome, Seconds
from ..errors import InternalError, Unavailable
from .account import Account
from .driver import Driver
from .finishing import to_the_end
from .results import Timing, error_of

log = logging.getLogger(__name__)
V = TypeVar("V")


class Reply(NamedTuple, Generic[V]):
    """How one attempt ended; LOST asks for another one, if any are left."""

    outcome: Outcome
    value: V | None = None
    reason: str = ""
    retry_after_s: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[V]):
    """How a call ended.

    Attributes:
        value: what came back; None unless something did.
        reason: why it ended so, in one sentence; empty on success.
        attempts: how often it was tried.
        node: where it was answered, for a call to a service.
    """

    id: ActionId
    outcome: Outcome
    timing: Timing
    value: V | None = None
    reason: str = ""
    attempts: int = 0
    node: str = ""

    def check(self) -> Self:
        """This, if it succeeded; raises the `ActionError` of its outcome otherwise."""
        if self.outcome is Outcome.SUCCEEDED:
            return self
        raise error_of(self.id, self.outcome, reason=self.reason)


class CallWork(Generic[V]):
    """One call, from its submission to its answer; `attempt` is awaited once for each lease."""

    def __init__(
        self,
        action: Action,
        attempt: Callable[[Lease], Awaitable[Reply[V]]],
        *,
        driver: Driver,
    ) -> None:
        self.action = action
        self.answer: asyncio.Future[Answer[V]] = asyncio.get_running_loop().create_future()
        self._attempt = attempt
        self._driver = driver
        self._task: asyncio.Task[Reply[V]] | None = None
        self._account = Account(driver.now())
        self._reply: Reply[V] | None = None

    async def result(self) -> Answer[V]:
        """Submit it and wait; cancelling this cancels the call."""
        self._driver.submit(self, self._account.submitted_at)
        try:
            return await asyncio.shield(self.answer)
        except asyncio.CancelledError:
            self._driver.cancel(self.action.id)
            await to_the_end(self.answer)
            raise

    def start(self, lease: Lease, at: Seconds) -> None:
        self._account.started(lease, at)
        self._reply = None
        self._task = asyncio.get_running_loop().create_task(self._run(lease))
        self._task.add_done_callback(partial(self._ended, lease))

    def resize(self, lease: Lease, at: Seconds) -> None:
        self._account.resized(lease, at)

    def stop(self, lease: Lease) -> None:
        if self._task is not None:
            self._task.cancel()

    def resolve(self, outcome: Outcome, reason: str, at: Seconds) -> None:
        timing = self._account.timing(at)
        self._driver.observers.finished(self.action, outcome, timing)
        if not self.answer.done():
            account, reply = self._account, self._reply
            self.answer.set_result(
                Answer(
                    id=self.action.id,
                    outcome=outcome,
                    timing=timing,
                    value=reply.value if reply else None,
                    reason=reason,
                    attempts=account.attempts,
                    node=account.lease.node if account.lease else "",
                )
            )

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(InternalError(f"scheduling stopped: {error!r}"))
        if self._task is not None:
            self._task.cancel()

    async def _run(self, lease: Lease) -> Reply[V]:
        return await self._attempt(lease)

    def _ended(self, lease: Lease, task: asyncio.Task[Reply[V]]) -> None:
        self._task = None
        at = self._driver.now()
        self._account.ended(at)
        if task.cancelled():
            self._driver.exited(lease, Outcome.CANCELLED, at, "was cancelled")
            return
        error = task.exception()
        if error is None:
            self._reply = task.result()
            self._driver.exited(lease, self._reply.outcome, at, self._reply.reason)
            return
        if not isinstance(error, Unavailable):
            log.error(
                "the executor broke on %s",
                lease.action,
                exc_info=error,
                extra={"action": "executor_broke"},
            )
        self._driver.exited(lease, Outcome.LOST, at, str(error) or repr(error))
