"""One HTTP request: bounded in time and size, judged by whose fault its failure is."""

from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..core.model import Outcome, Seconds

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

        return json.loads(self.body)


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


#: A refusal that names no time is one of this long.
UNNAMED_PAUSE_S = 1.0
_NOT_MODIFIED = 304
_TOO_MANY = 429
_UNAVAILABLE = 503
_MAY_WORK_LATER = frozenset({408, 425, 500, 502, 503, 504})
_LONGEST_PAUSE_S = 3600.0
_EXPLANATION_S, _LONGEST_EXPLANATION = 1.0, 65_536
"""How long a refusal is listened to, and how much of it is kept."""


class HttpClient:
    """Sends requests over connections that are kept and used again.

    Args:
        socket: the path of the Unix socket that all of them go to, whatever their host is.
        secure: whether it is ever asked for ``https``, which takes a while to be ready for.
    """

    def __init__(self, *, socket: str | None = None, secure: bool = True) -> None:
        self._client: httpx.AsyncClient | None = None
        self._socket = socket
        self._secure = secure

    async def send(self, request: Request) -> Exchange:
        """One attempt; a bad answer is a value, and only cancellation is raised."""
        refusals: list[Exchange] = []
        exchange = await self._attempt(self.prepare(), request, refusals)
        return refusals[0] if refusals else exchange

    def prepare(self) -> httpx.AsyncClient:
        """Do what takes a moment the first time, so that it does not come between others' requests."""
        import httpx  # noqa: PLC0415  # half of the start-up time of a program that fetches nothing

        if self._client is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=1024)
            self._client = httpx.AsyncClient(
                transport=httpx.AsyncHTTPTransport(
                    verify=self._secure, uds=self._socket, limits=limits, trust_env=False
                ),
                timeout=None,  # noqa: S113  # each request has one of its own
                trust_env=False,
            )
        return self._client

    async def _attempt(
        self, client: httpx.AsyncClient, request: Request, refusals: list[Exchange]
    ) -> Exchange:
        import httpx  # noqa: PLC0415  # as above

        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._exchange(client, request, refusals)
        except TimeoutError:
            return Exchange(
                outcome=Outcome.TIMED_OUT, reason=f"no full reply within {request.timeout_s:g} s"
            )
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            return Exchange(outcome=Outcome.FAILED, reason=f"url={request.url!r}: {error}")
        except (TypeError, ValueError, httpx.LocalProtocolError) as error:
            return Exchange(outcome=Outcome.FAILED, reason=f"it cannot be sent: {error}")
        except httpx.HTTPError as error:
            return Exchange(outcome=Outcome.LOST, reason=f"{type(error).__name__}: {error!s}")

    async def close(self) -> None:
        """Close every connection."""
        if self._client is not None:
            await self._client.aclose()

    async def _exchange(
        self, client: httpx.AsyncClient, request: Request, refusals: list[Exchange]
    ) -> Exchange:
        stream = client.stream(
            request.method,
            request.url,
            params=request.params,
            headers=request.headers,
            json=request.json,
            content=request.content,
        )
        async with stream as reply:
            head = Response(status=reply.status_code, headers=dict(reply.headers))
            limit = request.body_limit_bytes
            if (refusal := _judge(head)).retry_after_s is not None:
                # By now it is known that all have to wait, whatever becomes of the explanation.
                refusals.append(refusal)
                limit = min(limit, _LONGEST_EXPLANATION)
            body = bytearray()
            async with asyncio.timeout(_EXPLANATION_S if refusals else None):
                async for chunk in reply.aiter_bytes():
                    body += chunk
                    if len(body) > limit:
                        return Exchange(
                            outcome=Outcome.FAILED,
                            reason=f"the reply is longer than {limit:,} bytes;"
                            " raise body_limit_bytes to accept it",
                        )
        answer = _judge(replace(head, body=bytes(body)))
        if refusals:
            refusals[0] = answer
        return answer


def _judge(response: Response) -> Exchange:
    status = response.status
    if status < 300 or status == _NOT_MODIFIED:
        return Exchange(outcome=Outcome.SUCCEEDED, response=response)
    if status < 400:
        where = response.headers.get("location", "somewhere else")
        reason = f"status {status}: it has moved to {where}"
        return Exchange(outcome=Outcome.FAILED, response=response, reason=reason)
    pause = retry_after(response.headers.get("retry-after"), now=time.time())
    if status == _TOO_MANY or (status == _UNAVAILABLE and pause is not None):
        wait = UNNAMED_PAUSE_S if pause is None else pause
        return Exchange(
            outcome=Outcome.LOST,
            response=response,
            reason=f"status {status}: it asks for a pause of {wait:g} s",
            retry_after_s=wait,
        )
    outcome = Outcome.LOST if status in _MAY_WORK_LATER else Outcome.FAILED
    return Exchange(outcome=outcome, response=response, reason=f"status {status}")


def retry_after(value: str | None, *, now: Seconds) -> Seconds | None:
    """The seconds that a ``Retry-After`` header asks for (RFC 9110, 10.2.3), an hour at most."""
    if value is None:
        return None
    try:
        wait = float(value)
    except ValueError:
        try:
            wait = email.utils.parsedate_to_datetime(value).timestamp() - now
        except ValueError:
            return None
    return min(max(wait, 0.0), _LONGEST_PAUSE_S) if wait == wait else None  # noqa: PLR0124  # NaN
