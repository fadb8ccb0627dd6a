"""A refusal is known by its headers, whatever becomes of its body; what can never be sent is not tried again."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.executors.api import Exchange, HttpClient, Request

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
