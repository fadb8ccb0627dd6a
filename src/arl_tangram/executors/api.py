"""One HTTP request: bounded in time and size, judged by whose fault its failure is."""

from __future__ import annotations

import asyncio
import email.utils
import re
import time
from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

from ..core.model import Outcome, Seconds
from ..errors import Unavailable
from . import kept
from .faults import outcome_of, told, unsendable
from .inflating import ACCEPTED, Inflater

if TYPE_CHECKING:
    import httpx

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to send.

    Attributes:
        content: the body as bytes; `json` is the alternative.
        timeout_s: the limit on one attempt, from the connection to the last byte.
        body_limit_bytes: a longer reply is cut off and is a failure.
    """

    url: str
    method: str = "GET"
    params: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None
    json: Any = None
    content: bytes | None = None
    timeout_s: Seconds = 30.0
    body_limit_bytes: int = 16 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What came back."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        """The body as text; bytes that are none are replaced."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body as JSON; raises `ValueError` if it is none."""
        import json  # noqa: PLC0415  # `json` is a field of the class beside this one

        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """How one attempt ended.

    Attributes:
        outcome: FAILED if the other side says that it will never work, LOST if it may work later.
        retry_after_s: how long the other side asked everybody to wait; None if it did not.
    """

    outcome: Outcome
    response: Response | None = None
    reason: str = ""
    retry_after_s: Seconds | None = None


#: A refusal that names no time, or one that is over, is one of this long.
UNNAMED_PAUSE_S = 1.0
_NOT_MODIFIED = 304
_TOO_MANY = 429
_UNAVAILABLE = 503
_MAY_WORK_LATER = frozenset({408, 425, 500, 502, 503, 504})
_NEVER_S = 1e9
"""Decades; a longer pause is one of so long."""
_WAIT = re.compile(r"-?\d+(\.\d*)?", re.ASCII)
_EXPLANATION_S, _LONGEST_EXPLANATION = 1.0, 65_536
"""How long a refusal is listened to, and how much of it is kept."""


class HttpClient:
    """Sends requests over connections that are kept and used again.

    Each request is by itself: what a server sets as cookies is never sent to anyone, and nothing
    follows a reply that sends elsewhere.

    Args:
        socket: the path of the Unix socket that all of them go to, whatever their host is.
        secure: whether it is ever asked for ``https``, which takes a while to be ready for.
    """

    def __init__(self, *, socket: str | None = None, secure: bool = True) -> None:
        self._prepared: tuple[httpx.AsyncClient, httpx.AsyncHTTPTransport] | None = None
        self._socket = socket
        self._secure = secure

    async def send(
        self, request: Request, *, refused: Callable[[Seconds], None] | None = None
    ) -> Exchange:
        """One attempt; a bad answer is a value, and only cancellation is raised.

        Args:
            request: what to send.
            refused: called with the pause that is asked for as soon as that is known, which is
                before the exchange has ended.
        """
        client, transport = self.prepare()
        if client.is_closed:
            return Exchange(outcome=Outcome.LOST, reason="its connections are closed for good")
        try:
            sent = _built(client, request)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is about what was given
            return _unsent(request, error)
        if why := unsendable(sent):
            return Exchange(outcome=Outcome.FAILED, reason=f"it cannot be sent: {why}")
        begun = False
        try:
            async with (
                asyncio.timeout(request.timeout_s) as limit,
                aclosing(await transport.handle_async_request(sent)) as reply,
            ):
                begun = True
                head = Response(status=reply.status_code, headers=dict(reply.headers))
                judged = _judge(head)
                if judged.retry_after_s is not None:
                    if refused is not None:
                        refused(judged.retry_after_s)
                    # All have to wait, whatever becomes of the explanation.
                    limit.reschedule(None)
                    return replace(judged, response=replace(head, body=await _explanation(reply)))
                body = bytearray()
                if not await _read(reply, body, request.body_limit_bytes):
                    return _too_long(request.body_limit_bytes)
                return replace(judged, response=replace(head, body=bytes(body)))
        except TimeoutError:
            return Exchange(
                outcome=Outcome.TIMED_OUT, reason=f"no full reply within {request.timeout_s:g} s"
            )
        except Unavailable as error:
            return Exchange(outcome=Outcome.LOST, reason=str(error))
        except Exception as error:  # noqa: BLE001  # of httpx, or of what it is made of
            if not begun and outcome_of(error) is Outcome.FAILED:
                return _unsent(request, error)
            return Exchange(outcome=Outcome.LOST, reason=told(error))

    def prepare(self) -> tuple[httpx.AsyncClient, httpx.AsyncHTTPTransport]:
        """What builds requests and what sends them.

        It takes a moment the first time, so do it when that does not come between others' requests.
        """
        import httpx  # noqa: PLC0415  # half of the start-up time of a program that fetches nothing

        if self._prepared is None:
            transport = httpx.AsyncHTTPTransport(
                verify=self._secure,
                uds=self._socket,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=1024),
                trust_env=False,
            )
            # Its own way of sending would keep cookies, and look at where a reply sends.
            client = httpx.AsyncClient(
                transport=transport,
                headers={"accept-encoding": ACCEPTED},
                timeout=None,  # noqa: S113  # each request has one of its own
                trust_env=False,
            )
            self._prepared = client, transport
        return self._prepared

    async def close(self) -> None:
        """Close every connection."""
        if self._prepared is not None:
            client, _ = self._prepared
            await client.aclose()


def _built(client: httpx.AsyncClient, request: Request) -> httpx.Request:
    import httpx  # noqa: PLC0415  # as above

    sent = client.build_request(
        request.method,
        request.url,
        params=request.params,
        headers=request.headers,
        json=request.json,
        content=request.content,
    )
    name, password = sent.url.username, sent.url.password
    if name or password:
        next(httpx.BasicAuth(name, password).sync_auth_flow(sent))
    return sent


def _unsent(request: Request, error: Exception) -> Exchange:
    import httpx  # noqa: PLC0415  # as above

    wrong_url = isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol)
    said = f"url={request.url!r}: {error}" if wrong_url else f"it cannot be sent: {told(error)}"
    return Exchange(outcome=Outcome.FAILED, reason=said)


def _too_long(limit_bytes: int) -> Exchange:
    return Exchange(
        outcome=Outcome.FAILED,
        reason=f"the reply is longer than {limit_bytes:,} bytes;"
        " raise body_limit_bytes to accept it",
    )


async def _explanation(reply: httpx.Response) -> bytes:
    """As much of the body of a refusal as comes soon."""
    body = bytearray()
    try:
        async with asyncio.timeout(_EXPLANATION_S):
            _ = await _read(reply, body, _LONGEST_EXPLANATION)
    except Exception:  # noqa: BLE001, S110  # the refusal itself is known, and all that counts
        pass
    return bytes(body[:_LONGEST_EXPLANATION])


async def _read(reply: httpx.Response, body: bytearray, most: int) -> bool:
    """Add what comes to a body; False once that is longer than it may be.

    A connection is used again only if the reply was read to its end.
    """
    assert isinstance(reply.stream, AsyncIterable)
    inflater = Inflater(reply.headers.get("content-encoding", ""))
    async for chunk in reply.stream:  # unlike `aiter_raw` it does not close the reply
        for piece in inflater.pieces(chunk):
            body += piece
            if len(body) > most:
                return False
    await kept.part(reply)
    inflater.finish()
    return True


def _judge(response: Response) -> Exchange:
    status = response.status
    if status < 200:
        reason = f"status {status}: it goes on in another protocol"
        return Exchange(outcome=Outcome.FAILED, response=response, reason=reason)
    if status < 300 or status == _NOT_MODIFIED:
        return Exchange(outcome=Outcome.SUCCEEDED, response=response)
    if status < 400:
        where = response.headers.get("location", "somewhere else")
        reason = f"status {status}: it has moved to {where}"
        return Exchange(outcome=Outcome.FAILED, response=response, reason=reason)
    # A date is one of the server's clock, which it tells: ours may be another.
    told = _moment(response.headers.get("date", ""))
    pause = retry_after(
        response.headers.get("retry-after"), now=time.time() if told is None else told
    )
    if status == _TOO_MANY or (status == _UNAVAILABLE and pause is not None):
        wait = pause or UNNAMED_PAUSE_S
        return Exchange(
            outcome=Outcome.LOST,
            response=response,
            reason=f"status {status}: it asks for a pause of {wait:,.10g} s",
            retry_after_s=wait,
        )
    outcome = Outcome.LOST if status in _MAY_WORK_LATER else Outcome.FAILED
    return Exchange(outcome=outcome, response=response, reason=f"status {status}")


def retry_after(value: str | None, *, now: Seconds) -> Seconds | None:
    """The seconds that a ``Retry-After`` header asks for (RFC 9110, 10.2.3).

    Of several that a reply has, the longest; zero if all are over; None if none is one.
    """
    # The comma after the weekday of a date parts them too; a date is one without its weekday.
    waits = [_wait(part.strip(), now) for part in (value or "").split(",")]
    return max((min(max(w, 0.0), _NEVER_S) for w in waits if w is not None), default=None)


def _wait(text: str, now: Seconds) -> Seconds | None:
    if _WAIT.fullmatch(text):
        return float(text)
    moment = _moment(text)
    return None if moment is None else moment - now


def _moment(date: str) -> Seconds | None:
    """A date of HTTP, which is one of Greenwich, in seconds since 1970."""
    try:
        moment = email.utils.parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
