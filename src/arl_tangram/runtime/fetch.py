"""HTTP requests under a quota: one owner of retries, and a pause for one is a pause for all."""

from __future__ import annotations

import asyncio

from ..core.events import QuotaThrottled
from ..core.model import Action, Lease, Outcome, Seconds
from ..executors.api import HttpClient, Request, Response
from .call import Answer, CallWork, Reply
from .driver import Driver
from .repeats import Repeats

#: Pause before the second attempt after a fault of the other side; it doubles each time.
BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 10.0


class Fetcher:
    """Sends requests as actions."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._http = HttpClient()
        self.repeats: Repeats[Response] = Repeats()

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
            self.repeats.keep(request, work)
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


def backoff(attempt: int) -> Seconds:
    """Seconds to wait after so many attempts."""
    return min(BACKOFF_S * 2.0 ** (attempt - 1), _LONGEST_BACKOFF_S)
