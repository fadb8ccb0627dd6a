"""HTTP requests under a quota: one owner of retries, and a pause for one is a pause for all."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable

from ..core.events import QuotaThrottled
from ..core.model import Action, Lease, Outcome, Seconds
from ..errors import InvalidAction
from ..executors.api import HttpClient, Request, Response
from .call import Answer, CallWork, Reply
from .driver import Driver

#: Pause before the second attempt after a fault of the other side; it doubles each time.
BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 10.0
_REMEMBERED = 4_096
_REMEMBERED_BYTES = 64 << 20


class Fetcher:
    """Sends requests as actions.

    Answers to requests with an id of the caller's are remembered for whoever repeats it, the last
    4,096 and 64 MiB of them.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._http = HttpClient()
        self._calls: OrderedDict[str, tuple[Request, CallWork[Response]]] = OrderedDict()
        self._bytes = 0

    def known(self, identity: str, request: Request) -> Awaitable[Answer[Response]] | None:
        """The answer that a repeated id gets, or waits for; None if it is new here.

        Raises `InvalidAction` if it was the id of another request.
        """
        if (found := self._calls.get(identity)) is None:
            return None
        first, work = found
        if first != request:
            raise InvalidAction(f"id={identity!r}: another request has this id")
        return asyncio.shield(work.answer)

    async def fetch(
        self, action: Action, quota: str, request: Request, *, remember: bool
    ) -> Answer[Response]:
        """The answer; cancelling this cancels the request."""
        work = CallWork(
            action,
            lambda lease: self._attempt(lease, quota, request, action.max_attempts),
            driver=self._driver,
        )
        if remember:
            self._calls[action.id] = request, work
            work.answer.add_done_callback(self._remember)
        return await work.result()

    async def close(self) -> None:
        """Close every connection."""
        await self._http.close()

    async def _attempt(
        self, lease: Lease, quota: str, request: Request, most: int
    ) -> Reply[Response]:
        exchange = await self._http.send(request)
        if exchange.retry_after_s is not None:
            self._driver.feed(
                QuotaThrottled(
                    at=self._driver.now(), quota=quota, retry_after_s=exchange.retry_after_s
                )
            )
        elif exchange.outcome is Outcome.LOST and lease.attempt < most:
            # It keeps its place among the calls at once meanwhile: the other side is in trouble.
            await asyncio.sleep(backoff(lease.attempt))
        return Reply(exchange.outcome, exchange.response, exchange.reason)

    def _remember(self, answer: asyncio.Future[Answer[Response]]) -> None:
        self._bytes += _size(answer)
        while len(self._calls) > _REMEMBERED or self._bytes > _REMEMBERED_BYTES:
            oldest, (_, work) = next(iter(self._calls.items()))
            if not work.answer.done():
                return
            self._bytes -= _size(work.answer)
            del self._calls[oldest]


def _size(answer: asyncio.Future[Answer[Response]]) -> int:
    if answer.exception() is not None:
        return 0
    value = answer.result().value
    return 0 if value is None else len(value.body)


def backoff(attempt: int) -> Seconds:
    """Seconds to wait after so many attempts."""
    return min(BACKOFF_S * 2.0 ** (attempt - 1), _LONGEST_BACKOFF_S)
