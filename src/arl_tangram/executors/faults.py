"""Says whose fault it is that a request had no reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.model import Outcome

if TYPE_CHECKING:
    import httpx


def unsendable(request: httpx.Request) -> str:
    """What a server would misunderstand in a request, empty if nothing.

    The length of a body is counted, so a header may only repeat it: with another one, part of the
    body would be taken for the next request.
    """
    headers = request.headers
    if (framing := headers.get("transfer-encoding")) is not None:
        return f"header Transfer-Encoding={framing!r}: leave it out; a body is sent as it is"
    length = len(request.content)
    for said in headers.get_list("content-length", split_commas=True):
        if said != str(length):
            return f"header Content-Length={said!r}: the body has {length:,} bytes; leave it out"
    return ""


def outcome_of(error: BaseException) -> Outcome:
    """FAILED for what can never be sent, LOST for what the other side or the network did."""
    import httpx  # noqa: PLC0415  # half of the start-up time of a program that fetches nothing

    if isinstance(error, BaseExceptionGroup):  # of several addresses that were tried
        outcomes = {outcome_of(each) for each in error.exceptions}
        return Outcome.FAILED if outcomes == {Outcome.FAILED} else Outcome.LOST
    # The last three: a host, a port or a method that is none, wherever that is noticed.
    never = (httpx.InvalidURL, httpx.UnsupportedProtocol, TypeError, ValueError, OverflowError)
    # What httpx does not make one of its own comes from h11, under the same name.
    ours = isinstance(error, never) or type(error).__name__ == "LocalProtocolError"
    return Outcome.FAILED if ours else Outcome.LOST


def told(error: BaseException) -> str:
    """The reason in words."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(told(each) for each in error.exceptions))
    return f"{type(error).__name__}: {error!s}"
