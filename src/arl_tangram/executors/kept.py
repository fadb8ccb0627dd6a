"""Tells whether a connection holds more than the reply that was read from it."""

from __future__ import annotations

import ssl
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

# Nothing public shows what was received and is not read yet, so these look inside: of httpx and
# httpcore, of what h11 was given, and of what anyio has received.
_CONNECTION = attrgetter("_httpcore_stream._stream._connection")
_RECEIVED = attrgetter("_h11_state.trailing_data")
_STREAM = attrgetter("_network_stream._stream")
_WAITING = attrgetter("_protocol.read_queue")
_NO_CONTENT = 204


async def part(reply: httpx.Response) -> None:
    """Leave a reply that was read to its end, before it is closed.

    A server that sends more than its reply must not answer the next request with the rest, which
    may be that of somebody else: unless it is certain that there is none, the connection is closed.
    What arrives while nobody uses a connection, its pool notices by itself.
    """
    if _is_doubtful(reply) or not _is_empty(reply):
        await reply.extensions["network_stream"].aclose()


def _is_doubtful(reply: httpx.Response) -> bool:
    """Whether the reply itself says that more may come: a body where there is none, or two ends."""
    length, coding = (reply.headers.get(n) for n in ("content-length", "transfer-encoding"))
    if reply.status_code == _NO_CONTENT:
        return coding is not None or bool((length or "").strip("0"))
    return coding is not None and length is not None


def _is_empty(reply: httpx.Response) -> bool:
    try:
        connection = _CONNECTION(reply.stream)
        received, has_ended = _RECEIVED(connection)
        return not received and not has_ended and _has_none_waiting(_STREAM(connection))
    except (AttributeError, ImportError, TypeError, ValueError):
        return False  # those of another version look otherwise


def _has_none_waiting(stream: Any) -> bool:
    from anyio.abc import UNIXSocketStream  # noqa: PLC0415  # imported with httpx, when first used
    from anyio.streams.tls import TLSAttribute, TLSStream  # noqa: PLC0415  # as above

    if isinstance(stream, TLSStream):
        try:
            stream.extra_attributes[TLSAttribute.ssl_object]().read(1)
        except ssl.SSLWantReadError:
            stream = stream.transport_stream
        except ssl.SSLError:
            return False
        else:
            return False
    # One of these keeps nothing back: what is not read stays in its socket, where it is noticed.
    return isinstance(stream, UNIXSocketStream) or not _WAITING(stream)
