"""HTTP requests under a quota: one owner of retries, and a pause for one is a pause for all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

from ..core.model import Action, Lease, Outcome, Seconds
from ..errors import InvalidAction
from ..executors.api import HttpClient, Request, Response
from . import checks, units
from .call import Answer, CallWork, Reply
from .checks import shown, wrong
from .driver import Driver
from .pauses import Pauses
from .repeats import Repeats, apart

#: Pause before the second attempt after a fault of the other side; it doubles each time.
BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 10.0


class Fetcher:
    """Sends requests as actions."""

    def __init__(self, driver: Driver, pauses: Pauses) -> None:
        self._driver = driver
        self._pauses = pauses
        self._http = HttpClient()
        self.repeats: Repeats[Response] = Repeats()

    async def fetch(
        self, action: Action, quota: str, request: Request, *, remember: bool
    ) -> Answer[Response]:
        """The answer; cancelling this cancels the request, unless others wait for it too."""
        self._http.prepare()  # what is granted by the rate is to be sent at that rate
        work = CallWork(
            action,
            lambda lease: self._attempt(lease, quota, request, action.max_attempts),
            driver=self._driver,
        )
        return await (self.repeats.first((quota, request), work) if remember else work.result())

    async def close(self) -> None:
        """Close every connection."""
        await self._http.close()

    async def _attempt(
        self, lease: Lease, quota: str, request: Request, most: int
    ) -> Reply[Response]:
        exchange = await self._http.send(request, refused=partial(self._pauses.pause, quota))
        refused = exchange.retry_after_s is not None
        if exchange.outcome is Outcome.LOST and not refused and lease.attempt < most:
            # It keeps its place among the calls at once meanwhile: the other side is in trouble.
            await asyncio.sleep(backoff(lease.attempt))
        return Reply(exchange.outcome, exchange.response, exchange.reason)


def sendable(request: object) -> Request:
    """A request as its fields are now; raises `InvalidAction` naming the one that is wrong."""
    if isinstance(request, str):
        request = Request(url=checks.word(request, "request"))
    if not isinstance(request, Request):
        raise wrong("request", request, "give a URL, or a Request")
    checks.word(request.url, "url")
    checks.word(request.method, "method")
    for field in ("params", "headers"):
        if not isinstance(given := getattr(request, field), Mapping | None):
            raise wrong(field, given, "give a mapping, or leave it out")
    headers: Iterable[tuple[object, object]] = (request.headers or {}).items()
    for name, value in headers:
        if not isinstance(name, str) or not isinstance(value, str):
            raise wrong(f"headers[{shown(name)}]", value, "a header is text")
    if not isinstance(content := request.content, bytes | None):
        raise wrong("content", content, "give bytes, or leave it out")
    if content is not None and request.json is not None:
        raise InvalidAction("content, json: a request has one body; give one of them")
    try:
        urlsplit(request.url).port  # noqa: B018  # it says what is wrong with it
    except ValueError as error:
        raise InvalidAction(f"url={request.url!r}: {error}") from error
    timeout_s = units.seconds(request.timeout_s, "timeout_s")
    checks.whole(request.body_limit_bytes, "body_limit_bytes", least=0)
    try:
        json.dumps(request.json, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidAction(f"json: it cannot be written as JSON: {error}") from error
    return replace(
        request,
        params=apart(request.params),
        headers=apart(request.headers),
        json=apart(request.json),
        timeout_s=timeout_s,
    )


def backoff(attempt: int, asked_s: Seconds = 0.0) -> Seconds:
    """Seconds to wait after so many attempts, or what was asked for if that is longer."""
    return min(max(BACKOFF_S * 2.0 ** (attempt - 1), asked_s), _LONGEST_BACKOFF_S)
