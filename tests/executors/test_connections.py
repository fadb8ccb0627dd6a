"""Which connections are used again: what is left on one must never answer the next request."""

from __future__ import annotations

import asyncio
import fcntl
import gzip
import shutil
import socket
import ssl
import subprocess
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from operator import attrgetter

import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.executors import api, kept
from arl_tangram.executors.api import Exchange, HttpClient, Request

OF_ANOTHER = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nSECRET"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(OF_ANOTHER)
NOT_MODIFIED = HEAD.replace(b"200 OK", b"304 Not Modified")
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
NO_LENGTH = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"
REFUSAL = b"HTTP/1.1 429 No\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\nno"
PACKED = gzip.compress(b"ok")
COMPRESSED = (
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED)
    + PACKED
)
BIG = b"HTTP/1.1 %s\r\nRetry-After: 1\r\nContent-Length: 200000\r\n\r\n"

Ask = Callable[..., Awaitable[Exchange]]
Serving = Callable[["Server"], AbstractAsyncContextManager[Ask]]


async def received(writer: asyncio.StreamWriter) -> None:
    """Until the kernel of the other side has all of it; on a Unix socket it has at once."""
    sock = writer.get_extra_info("socket")
    for _ in range(100):
        if sock.family != socket.AF_INET or writer.is_closing():
            return
        if not any(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4))):
            return
        await asyncio.sleep(0.001)


class Server:
    """Answers ``/first`` with `parts`, one write each, and any other path with the path.

    Attributes:
        connections: how many there were.
        begun: set when its parts were sent.
        more: set when what comes `later` is to be sent.
        over: set when all of it was.
    """

    def __init__(self, *parts: bytes, later: bytes = b"") -> None:
        self.connections = 0
        self.begun, self.more, self.over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._parts, self._later = parts, later
        self._serving: set[asyncio.Task[None] | None] = set()
        if not later:
            self.more.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._serving.add(asyncio.current_task())
        try:
            while True:
                _, path, _ = (await reader.readuntil(b"\r\n\r\n")).split(maxsplit=2)
                if path == b"/first":
                    for part in self._parts:
                        writer.write(part)
                    self.begun.set()
                    await self.more.wait()
                    writer.write(self._later)
                    await writer.drain()
                    await received(writer)
                    self.over.set()
                else:
                    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(path)
                    writer.write(head + path)
        except (OSError, asyncio.IncompleteReadError):
            self.over.set()
        finally:
            writer.transport.abort()

    async def close(self) -> None:
        self.more.set()
        await asyncio.gather(*(task for task in self._serving if task is not None))
        await asyncio.sleep(0)  # an aborted transport closes its socket a turn later


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    subprocess.run(
        [*made.split(), "-keyout", "key", "-out", "certificate"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder


def context_of(certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "certificate", certificate / "key")
    return context


@pytest.fixture(params=["tcp", "unix", "tls"])
def serving(request, tmp_path) -> Serving:
    """How to ask a server, in one of three ways."""
    path = str(tmp_path / "socket") if request.param == "unix" else None
    tls = context_of(request.getfixturevalue("certificate")) if request.param == "tls" else None

    @asynccontextmanager
    async def serve(server: Server) -> AsyncIterator[Ask]:
        if path is not None:
            listening = await asyncio.start_unix_server(server.serve, path)
            base = "http://server"
        else:
            listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
            port = listening.sockets[0].getsockname()[1]
            base = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
        client = HttpClient(socket=path, secure=False)
        try:
            yield lambda where, **given: client.send(
                Request(
                    **{"url": base + where, "timeout_s": 60.0, "body_limit_bytes": 1000, **given}
                )
            )
        finally:
            await client.close()
            await server.close()
            listening.close()

    return serve


def first_and_own(
    serving: Serving, *parts: bytes, later: bytes = b"", **given
) -> tuple[Exchange, int]:
    """How the first request of two ended, and how many connections they took.

    The second has to get its own answer. What comes `later` is there when it is sent.
    """

    async def main() -> tuple[Exchange, int]:
        server = Server(*parts, later=later)
        async with serving(server) as ask:
            first = await ask("/first", **given)
            server.more.set()
            await server.over.wait()
            own = await ask("/own")
            assert own.response is not None, own.reason
            assert b"/own" == own.response.body
            return first, server.connections

    return asyncio.run(main())


REPLIES = {
    "plain": ("GET", OK),
    "chunked": ("GET", CHUNKED),
    "compressed": ("GET", COMPRESSED),
    "HEAD": ("HEAD", HEAD),
    "204": ("GET", NO_CONTENT),
    "204 of no length": ("GET", NO_LENGTH),
    "304": ("GET", NOT_MODIFIED),
    "404": ("GET", OK.replace(b"200", b"404")),
    "302": ("GET", OK.replace(b"200 OK", b"302 Found\r\nLocation: /there")),
    "refusal": ("GET", REFUSAL),
}
replies = pytest.mark.parametrize(("method", "reply"), REPLIES.values(), ids=REPLIES)


@replies
def test_a_connection_is_used_again_after(serving, method, reply) -> None:
    first, connections = first_and_own(serving, reply, method=method)

    assert first.response is not None
    assert 1 == connections


@replies
@pytest.mark.parametrize("writes", [1, 2])
def test_what_a_server_sends_too_much_answers_nobody_else_after(
    serving, writes, method, reply
) -> None:
    parts = [reply + OF_ANOTHER] if writes == 1 else [reply, OF_ANOTHER]

    first, connections = first_and_own(serving, *parts, method=method)

    assert first.response is not None
    assert b"SECRET" not in first.response.body
    assert 2 == connections


@replies
def test_what_comes_while_nobody_asks_answers_nobody_after(serving, method, reply) -> None:
    first, connections = first_and_own(serving, reply, method=method, later=OF_ANOTHER)

    assert first.response is not None
    assert 2 == connections


@pytest.mark.parametrize("more", [0, 1], ids=["fits", "is too much"])
def test_of_a_reply_as_long_as_a_piece_that_is_received_what(serving, more) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    size = 65_536 - len(head % 65_000)  # of what httpcore asks for at once
    reply = head % size + bytes(size)

    first, connections = first_and_own(serving, reply + OF_ANOTHER * more, body_limit_bytes=1 << 20)

    assert first.response is not None
    assert size == len(first.response.body)
    assert 1 + more == connections


@pytest.mark.parametrize(
    "reply",
    [
        NO_CONTENT[:-2] + b"Content-Length: 51\r\n\r\n",
        NO_CONTENT[:-2] + b"Transfer-Encoding: chunked\r\n\r\n",
        CHUNKED.replace(b"\r\n", b"\r\nContent-Length: 2\r\n", 1),
    ],
    ids=["204 with a length", "204 in chunks", "two ends"],
)
def test_a_reply_that_contradicts_itself_is_the_last_of_its_connection(serving, reply) -> None:
    first, connections = first_and_own(serving, reply)

    assert Outcome.SUCCEEDED is first.outcome
    assert 2 == connections


@pytest.mark.parametrize(
    ("parts", "given", "outcome"),
    [
        ([BIG % b"200 OK", bytes(200_000)], {}, Outcome.FAILED),
        ([BIG % b"200 OK", bytes(1001)], {"timeout_s": 60.0}, Outcome.FAILED),
        ([BIG % b"200 OK", bytes(10)], {"timeout_s": 0.2}, Outcome.TIMED_OUT),
        ([BIG % b"429 No", bytes(200_000)], {}, Outcome.LOST),
        ([BIG % b"429 No", bytes(10)], {}, Outcome.LOST),
        ([COMPRESSED.replace(PACKED, PACKED[:-4] + b"oops")], {}, Outcome.LOST),
    ],
    ids=["too long", "one too many", "slow", "long refusal", "slow refusal", "corrupt"],
)
def test_a_reply_that_is_not_read_to_its_end_is_the_last_of_its_connection(
    serving, parts, given, outcome, monkeypatch
) -> None:
    monkeypatch.setattr(api, "_EXPLANATION_S", 0.2)

    first, connections = first_and_own(serving, *parts, later=OF_ANOTHER, **given)

    assert outcome is first.outcome
    assert 2 == connections


def test_a_request_that_is_cancelled_is_the_last_of_its_connection(serving) -> None:
    async def main() -> int:
        server = Server(BIG % b"200 OK", bytes(10), later=bytes(199_990) + OF_ANOTHER)
        async with serving(server) as ask:
            asking = asyncio.ensure_future(ask("/first"))
            await server.begun.wait()
            await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.wait([asking])
            assert asking.cancelled()
            server.more.set()
            await server.over.wait()
            own = await ask("/own")
            assert own.response is not None
            assert b"/own" == own.response.body
            return server.connections

    assert 2 == asyncio.run(main())


@pytest.mark.parametrize("name", ["_CONNECTION", "_RECEIVED", "_STREAM", "_WAITING"])
def test_of_what_cannot_be_looked_into_no_connection_is_used_again(
    serving, name, monkeypatch, request
) -> None:
    keeps_nothing_back = name == "_WAITING" and "unix" in request.node.name
    monkeypatch.setattr(kept, name, attrgetter("of.another.version"))

    first, connections = first_and_own(serving, OK)

    assert Outcome.SUCCEEDED is first.outcome
    assert (1 if keeps_nothing_back else 2) == connections
