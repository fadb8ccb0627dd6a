"""HTTP requests under a quota: one owner of retries, and a pause for one is a pause for all."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

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


class Fetcher:
    """Sends requests as actions. The same action id is never sent twice, also after it ended."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._http = HttpClient()
        self._calls: OrderedDict[str, tuple[Request, CallWork[Response]]] = OrderedDict()

    async def fetch(self, action: Action, quota: str, request: Request) -> Answer[Response]:
        """The answer; a repeated id gets that of its first call, or waits for it with it."""
        if (known := self._calls.get(action.id)) is not None:
            first, work = known
            if first != request:
                raise InvalidAction(f"id={action.id!r}: another request has this id")
            return await asyncio.shield(work.answer)
        work = CallWork(
            action,
            lambda lease: self._attempt(lease, quota, request, action.max_attempts),
            driver=self._driver,
        )
        self._calls[action.id] = request, work
        if len(self._calls) > _REMEMBERED:
            self._forget_oldest()
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

    def _forget_oldest(self) -> None:
        oldest = next(iter(self._calls))
        if self._calls[oldest][1].answer.done():
            del self._calls[oldest]


def backoff(attempt: int) -> Seconds:
    """Seconds to wait after so many attempts."""
    return min(BACKOFF_S * 2.0 ** (attempt - 1), _LONGEST_BACKOFF_S)
