"""Servers that refuse, break off, mislead or flood: what one request to them comes to."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import time
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable
from email.utils import formatdate

import anyio
import h11
import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.executors.api import UNNAMED_PAUSE_S, Exchange, HttpClient, Request, Response
from arl_tangram.executors.faults import outcome_of, told
from arl_tangram.executors.inflating import PIECE, Inflater

HEAD = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\n"
Rest = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def nothing_more(_: asyncio.StreamWriter) -> None:
    pass


async def a_reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def too_much(writer: asyncio.StreamWriter) -> None:
    writer.write(bytes(100_000))


def answered(head: bytes, rest: Rest, request: Callable[[int], Request]) -> Exchange:
    """What one request gets from a server that says this."""

    async def main() -> Exchange:
        over = asyncio.Event()
        connections: list[asyncio.Event] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append(gone := asyncio.Event())
            if await reader.read(65_536):
                writer.write(head)
                await writer.drain()
                await rest(writer)
                await over.wait()
            writer.transport.abort()
            gone.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = HttpClient()
        try:
            return await client.send(request(server.sockets[0].getsockname()[1]))
        finally:
            await client.close()
            over.set()
            for gone in connections:
                await gone.wait()
            server.close()
            await asyncio.sleep(0)  # an aborted transport closes its socket a turn later

    return asyncio.run(main())


def to(port: int) -> Request:
    return Request(url=f"http://127.0.0.1:{port}/", timeout_s=60.0, body_limit_bytes=1000)


@pytest.mark.parametrize(
    ("more", "rest"),
    [
        (b"Content-Length: 100\r\n\r\nx", nothing_more),
        (b"Content-Length: 100\r\n\r\nx", a_reset),
        (b"Content-Length: 100000\r\n\r\n", too_much),
        (b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", nothing_more),
    ],
    ids=["hangs", "is reset", "is too long", "is no gzip"],
)
def test_a_refusal_asks_for_its_pause_even_if_its_body(more: bytes, rest: Rest) -> None:
    exchange = answered(HEAD + more, rest, to)

    assert (Outcome.LOST, 30.0) == (exchange.outcome, exchange.retry_after_s)
    assert "status 429" in exchange.reason


def test_a_refusal_asks_for_its_pause_even_if_its_body_outlasts_the_request() -> None:
    exchange = answered(
        HEAD + b"Content-Length: 100\r\n\r\nx",
        nothing_more,
        lambda port: Request(url=f"http://127.0.0.1:{port}/", timeout_s=0.3),
    )

    assert (Outcome.LOST, 30.0) == (exchange.outcome, exchange.retry_after_s)


def test_the_explanation_of_a_refusal_is_kept() -> None:
    exchange = answered(HEAD + b"Content-Length: 3\r\n\r\nwhy", nothing_more, to)

    assert exchange.response is not None
    assert b"why" == exchange.response.body


@pytest.mark.parametrize(
    "request_of",
    [
        lambda port: Request(url=f"http://127.0.0.1:{port}/", headers={"a": "b\n"}),
        lambda port: Request(url=f"http://127.0.0.1:{port}/", method="GET /"),
    ],
    ids=["header", "method"],
)
def test_what_no_server_could_be_sent_is_the_callers_fault(
    request_of: Callable[[int], Request],
) -> None:
    exchange = answered(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", nothing_more, request_of)

    assert Outcome.FAILED is exchange.outcome
    assert "cannot be sent" in exchange.reason


def conversation(
    replies: list[bytes], *requests: Callable[[int], Request]
) -> tuple[list[Exchange], list[bytes]]:
    """What requests of one client get from a server with these replies, and what it was sent."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(replies[len(heads) - 1])
        try:
            await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    async def main() -> list[Exchange]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = HttpClient()
        try:
            port = server.sockets[0].getsockname()[1]
            return [await client.send(request(port)) for request in requests]
        finally:
            await client.close()
            server.close()
            await asyncio.sleep(0)

    return asyncio.run(main()), heads


def reply(
    body: bytes = b"", *, status: str = "200 OK", length: int | None = None, **more: str
) -> bytes:
    headers = {"content-length": len(body) if length is None else length, "connection": "close"}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in {**headers, **more}.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def test_a_cookie_is_sent_to_nobody_but_by_who_has_it() -> None:
    first = reply(set_cookie="session=of-another; Path=/")

    exchanges, (_, other, own) = conversation(
        [first, reply(), reply()],
        to,
        to,
        lambda port: Request(url=f"http://127.0.0.1:{port}/", headers={"Cookie": "mine=1"}),
    )

    assert [Outcome.SUCCEEDED] * 3 == [exchange.outcome for exchange in exchanges]
    assert b"cookie" not in other.lower()
    assert b"cookie: mine=1\r\n" in own.lower()
    assert b"of-another" not in own


STARTED = int(time.time())
NOW = formatdate(STARTED, usegmt=True)
SOON = formatdate(STARTED + 7200, usegmt=True)


@pytest.mark.parametrize(
    ("status", "headers", "pause_s"),
    [
        ("429 No", {}, UNNAMED_PAUSE_S),
        ("429 No", {"retry-after": "0"}, UNNAMED_PAUSE_S),
        ("429 No", {"retry-after": "-5"}, UNNAMED_PAUSE_S),
        ("429 No", {"retry-after": "tomorrow"}, UNNAMED_PAUSE_S),
        ("429 No", {"retry-after": "Mon, 01 Jan 2001 00:00:00 GMT"}, UNNAMED_PAUSE_S),
        ("429 No", {"date": "Mon, 01 Jan 99999999999 00:00:00 GMT", "retry-after": "7"}, 7.0),
        ("429 No", {"retry-after": "20000"}, 20_000.0),
        ("429 No", {"date": NOW, "retry-after": SOON}, 7200.0),
        # A server whose clock is years behind ours.
        (
            "429 No",
            {
                "date": "Mon, 01 Jan 2001 00:00:00 GMT",
                "retry-after": "Mon, 01 Jan 2001 00:01:00 GMT",
            },
            60.0,
        ),
        ("429 No", {"retry-after": "5", "Retry-After": "30"}, 30.0),
        ("503 No", {"retry-after": "3"}, 3.0),
        ("503 No", {"retry-after": "0"}, UNNAMED_PAUSE_S),
        ("503 No", {}, None),
        ("500 No", {"retry-after": "3"}, None),
    ],
)
def test_a_refusal_asks_for_the_pause_it_names(status, headers, pause_s) -> None:
    (exchange,), _ = conversation([reply(status=status, **headers)], to)

    assert Outcome.LOST is exchange.outcome
    assert pause_s == exchange.retry_after_s


@pytest.mark.parametrize(
    "cut",
    [
        reply(b"{", length=100),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        reply(gzip.compress(bytes(range(256)))[:-20], content_encoding="gzip"),
        reply(b"no gzip", content_encoding="gzip"),
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"",
    ],
    ids=["length", "chunked", "gzip", "no gzip", "head", "nothing"],
)
def test_a_reply_that_is_cut_off_is_lost_and_no_success(cut) -> None:
    (exchange,), _ = conversation([cut], to)

    assert (Outcome.LOST, None) == (exchange.outcome, exchange.retry_after_s)
    assert exchange.reason


def test_nothing_is_sent_to_where_a_reply_sends() -> None:
    secret = {"Authorization": "Bearer s3cret"}

    (exchange,), heads = conversation(
        [reply(status="307 Go", location="http://127.0.0.2:1/there"), reply()],
        lambda port: Request(url=f"http://127.0.0.1:{port}/", headers=secret),
    )

    assert Outcome.FAILED is exchange.outcome
    assert "moved to http://127.0.0.2:1/there" in exchange.reason
    assert 1 == len(heads)


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data)[2:-4]),
        ("identity", bytes),
        ("gzip", lambda data: gzip.compress(data[:70_000]) + gzip.compress(data[70_000:])),
    ],
    ids=["gzip", "x-gzip", "deflate", "bare deflate", "identity", "two members"],
)
def test_a_compressed_reply_is_read(encoding, packed) -> None:
    body = b"".join(b"%d," % n for n in range(30_000))

    (exchange,), (head,) = conversation(
        [reply(packed(body), content_encoding=encoding)],
        lambda port: Request(url=f"http://127.0.0.1:{port}/"),
    )

    assert Outcome.SUCCEEDED is exchange.outcome
    assert exchange.response is not None
    assert body == exchange.response.body
    assert b"accept-encoding: gzip, deflate\r\n" in head.lower()


def test_a_reply_without_a_body_may_say_that_it_is_compressed() -> None:
    (exchange,), _ = conversation([reply(status="204 No", content_encoding="gzip")], to)

    assert Outcome.SUCCEEDED is exchange.outcome


def test_a_small_reply_that_would_fill_the_memory_is_cut_off() -> None:
    bomb = reply(gzip.compress(bytes(64 << 20)), content_encoding="gzip")

    tracemalloc.start()
    try:
        (exchange,), _ = conversation([bomb], to)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert Outcome.FAILED is exchange.outcome
    assert "longer than 1,000 bytes" in exchange.reason
    assert peak < 4 << 20


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd"])
def test_what_nobody_asked_for_and_could_be_huge_is_not_unpacked(encoding) -> None:
    twice = gzip.compress(gzip.compress(bytes(1 << 20)))

    (exchange,), _ = conversation([reply(twice, content_encoding=encoding)], to)

    assert Outcome.LOST is exchange.outcome
    assert f"encoded as {encoding!r}" in exchange.reason


def test_no_piece_of_what_is_unpacked_is_long() -> None:
    sizes = [len(piece) for piece in Inflater("gzip").pieces(gzip.compress(bytes(1 << 20)))]

    assert 1 << 20 == sum(sizes)
    assert max(sizes) <= PIECE


def test_a_reply_that_is_nested_too_deeply_is_no_json() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        Response(status=200, body=b"[" * 200_000).json()


OKAY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"headers": {"Content-Length": "5"}}, "Content-Length='5': the body has 0 bytes"),
        (
            {"method": "POST", "content": b"hello", "headers": {"content-length": "3"}},
            "Content-Length='3': the body has 5 bytes",
        ),
        ({"content": b"hello", "headers": {"Content-Length": "5, 6"}}, "Content-Length='6'"),
        ({"content": b"a", "headers": {"Content-Length": "+1"}}, r"Content-Length='+1'"),
        ({"headers": {"Content-Length": ""}}, "Content-Length=''"),
        ({"content": b"a", "headers": {"Transfer-Encoding": "chunked"}}, "Transfer-Encoding"),
        ({"headers": {"Transfer-Encoding": "gzip"}}, "Transfer-Encoding='gzip'"),
        ({"headers": {"Host": "a", "host": "b"}}, "multiple Host: headers"),
        ({"headers": {"a": "b\n"}}, "Illegal header value"),
        ({"headers": {"a b": "c"}}, "Illegal header name"),
        ({"headers": {"a": "\u00fc"}}, "can't encode"),
        ({"method": "GET /"}, "Illegal method"),
        ({"method": "G\u00cbT"}, "method strings may not include unicode"),
        ({"params": {"a": "\ud800"}}, "surrogates"),
        ({"url": "http://[::1"}, "url='http://[::1'"),
        ({"url": "http://127.0.0.1:99999/"}, "port"),
        ({"url": "http://xn--/"}, "A-label"),
        ({"url": "mailto:a@b"}, "url='mailto:a@b'"),
    ],
)
def test_what_can_never_be_sent_is_the_callers_fault_and_is_not_begun(given, says) -> None:
    (exchange,), heads = conversation(
        [OKAY],
        lambda port: Request(**{"url": f"http://127.0.0.1:{port}/", "timeout_s": 20.0, **given}),
    )

    assert (Outcome.FAILED, None) == (exchange.outcome, exchange.response)
    assert says in exchange.reason
    assert [] == heads


def test_a_header_may_say_what_is_so() -> None:
    headers = {"Content-Length": "5", "Host": "other.example", "Connection": "close"}

    (exchange,), (head,) = conversation(
        [OKAY],
        lambda port: Request(
            url=f"http://127.0.0.1:{port}/", method="POST", content=b"hello", headers=headers
        ),
    )

    assert Outcome.SUCCEEDED is exchange.outcome
    for name, value in headers.items():
        assert f"\r\n{name}: {value}\r\n".lower() in head.decode().lower()


def test_the_name_and_password_of_a_url_are_sent() -> None:
    _, (head,) = conversation([OKAY], lambda port: Request(url=f"http://me:pw@127.0.0.1:{port}/"))

    assert b"\r\nauthorization: basic bwu6chc=\r\n" in head.lower()


@pytest.mark.parametrize(
    "place", ["http://[", "http://a:b/", "//", "x" * 70_000, "http://\u00fc:0"]
)
def test_a_reply_that_sends_nowhere_is_a_failure_at_once(place) -> None:
    head = f"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: {place}\r\n\r\n"

    (exchange,), _ = conversation([head.encode()], to)

    assert Outcome.FAILED is exchange.outcome
    assert "status 302: it has moved to" in exchange.reason


def test_a_reply_in_another_protocol_is_a_failure() -> None:
    (exchange,), _ = conversation(
        [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\n\r\n"],
        lambda port: Request(
            url=f"http://127.0.0.1:{port}/", headers={"Connection": "upgrade", "Upgrade": "other"}
        ),
    )

    assert Outcome.FAILED is exchange.outcome
    assert "status 101" in exchange.reason


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-server\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\na: b\x00\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    ],
    ids=["other", "status", "two lengths", "length", "chunks", "header", "unasked", "only hints"],
)
def test_a_reply_that_is_none_is_lost(said) -> None:
    (exchange,), _ = conversation([said], to)

    assert (Outcome.LOST, None) == (exchange.outcome, exchange.response)
    assert exchange.reason


def test_nothing_is_sent_once_a_client_is_closed() -> None:
    async def main() -> Exchange:
        client = HttpClient(secure=False)
        client.prepare()
        await client.close()
        return await client.send(to(9))

    assert "closed for good" in asyncio.run(main()).reason


def local(text: str) -> Exception:
    return h11.LocalProtocolError(text)


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (local("too little"), Outcome.FAILED, "LocalProtocolError: too little"),
        (ExceptionGroup("g", [OverflowError("port")]), Outcome.FAILED, "OverflowError: port"),
        (
            ExceptionGroup("g", [OSError("gone"), ExceptionGroup("h", [ValueError("x")])]),
            Outcome.LOST,
            "OSError: gone; ValueError: x",
        ),
        (h11.RemoteProtocolError("what?"), Outcome.LOST, "RemoteProtocolError: what?"),
        (anyio.BrokenResourceError("b"), Outcome.LOST, "BrokenResourceError: b"),
        (RuntimeError("odd"), Outcome.LOST, "RuntimeError: odd"),
    ],
)
def test_whose_fault_it_is(error, outcome, reason) -> None:
    assert (outcome, reason) == (outcome_of(error), told(error))
