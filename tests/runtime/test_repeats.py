"""An id of the caller's: sent once, for all who ask with it, and each has an answer of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import arl_tangram as at
from arl_tangram.core.model import CPU, MEMORY, Node, NodeId
from arl_tangram.executors.api import Request, Response
from arl_tangram.runtime import repeats
from arl_tangram.runtime.driver import Driver
from arl_tangram.runtime.repeats import apart, size_of
from arl_tangram.runtime.tangram import Tangram
from arl_tangram.testing.scripted_host import ScriptedHost


class Api:
    """A server on loopback that answers with what it was sent, once `go` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.heard: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        sent = await reader.readexactly(17) if "content-length: 17" in head.lower() else b""
        marked = "marked" if "x-mark: a\r\n" in head else ""
        self.heard.append(f"{head.split()[1]}{marked}{sent.decode()}")
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait(
            {gone, asyncio.ensure_future(self.go.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
        size = int(head.split()[1].partition("size=")[2] or 1)
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % size)
        writer.write(bytes(size))
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()
        gone.cancel()


Fetch = Callable[..., "asyncio.Task[at.Answer[Any]]"]
Body = Callable[[Tangram, Api, Fetch], Awaitable[None]]


def run(body: Body, *, go: bool = True) -> Api:
    """Runs a test's body with a Tangram and a server; `fetch(path, id)` asks it, under `api`."""
    api = Api()

    async def main() -> None:
        if go:
            api.go.set()
        server = await asyncio.start_server(api.serve, "127.0.0.1", 0)
        url = api.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        node = Node(id=NodeId("n0"), capacity={CPU: 2000, MEMORY: 4096})
        async with asyncio.timeout(60), Tangram(node=node, host=ScriptedHost) as tangram:
            tangram.quota("api", concurrency=1)

            def fetch(path: str, id: str | None = None, **fields: Any) -> Any:  # noqa: A002
                request = Request(url=url + path, **fields)
                return asyncio.ensure_future(tangram.fetch("api", request, id=id))

            await body(tangram, api, fetch)
        api.go.set()
        server.close()
        while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    asyncio.run(main())
    return api


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("who", [0, 1])
def test_a_call_goes_on_while_anybody_waits_for_it(who) -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        both = [fetch("/", "one"), fetch("/", "one")]
        await until(lambda: len(api.heard) == 1)
        both[who].cancel()
        await asyncio.wait([both[who]])
        assert both[who].cancelled()
        api.go.set()
        assert at.Outcome.SUCCEEDED is (await both[1 - who]).outcome

    assert ["/"] == run(body, go=False).heard


def test_calls_with_and_without_an_id_are_asked_for_at_once() -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        answers = [fetch(f"/{i}", f"n{i}" if i % 2 else None) for i in range(8)]
        assert {at.Outcome.SUCCEEDED} == {(await each).outcome for each in answers}

    assert 8 == len(run(body).heard)


def test_a_call_is_cancelled_when_the_last_who_waited_has_gone() -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        both = [fetch("/", "one"), fetch("/", "one")]
        await until(lambda: len(api.heard) == 1)
        for each in both:
            each.cancel()
        await asyncio.wait(both)
        assert [True, True] == [each.cancelled() for each in both]
        assert tangram._fetch is not None
        assert {} == tangram._fetch.repeats._under_way  # it has ended, not only been told to
        api.go.set()
        (await fetch("/next")).check()  # its place is free
        assert at.Outcome.CANCELLED is (await fetch("/", "one")).outcome

    assert ["/", "/next"] == run(body, go=False).heard


def test_who_joins_a_call_that_is_being_cancelled_is_told_so() -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        first = fetch("/", "one")
        await until(lambda: len(api.heard) == 1)
        first.cancel()
        await asyncio.sleep(0)
        assert at.Outcome.CANCELLED is (await fetch("/", "one")).outcome
        await asyncio.wait([first])
        assert first.cancelled()

    run(body, go=False)


def test_what_cannot_be_submitted_leaves_nobody_waiting(monkeypatch) -> None:
    def broken(*_: object) -> None:
        raise at.InternalError("scheduling stopped")

    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        with monkeypatch.context() as changed:
            changed.setattr(Driver, "submit", broken)
            both = await asyncio.gather(
                fetch("/", "one"), fetch("/", "one"), return_exceptions=True
            )
        assert [at.InternalError] * 2 == [type(each) for each in both]

    run(body)


def test_what_one_caller_changes_no_other_sees() -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        for _ in range(3):
            answer = (await fetch("/", "one")).check()
            assert {"connection": "close", "content-length": "1"} == answer.value.headers
            answer.value.headers.clear()

    run(body)


def test_a_request_is_sent_as_it_was_when_it_was_asked_for() -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        page = {"pages": [1, 2, 3]}
        params, headers = {"q": "a"}, {"x-mark": "a"}
        async with tangram.lease(quota="api"):
            call = fetch("/", method="POST", json=page, params=params, headers=headers)
            await asyncio.sleep(0)
            page["pages"].append(4)
            params["q"] = headers["x-mark"] = "b"
        (await call).check()

    assert ['/?q=amarked{"pages":[1,2,3]}'] == run(body).heard


def test_an_answer_that_is_kept_no_more_is_said_to_be_and_nothing_is_sent(monkeypatch) -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        for n in range(3):
            (await fetch(f"/{n}", f"id-{n}")).check()
        with pytest.raises(at.InvalidAction, match=r"'id-0': .* no longer kept, only the last 2"):
            await fetch("/0", "id-0")
        (await fetch("/1", "id-1")).check()
        (await fetch("/2", "id-2")).check()

    monkeypatch.setattr(repeats, "KEPT", 2)
    assert ["/0", "/1", "/2"] == run(body).heard


def test_an_answer_too_big_to_keep_is_given_and_costs_no_other_its_place(monkeypatch) -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        for size in (100, 2000, 400, 300):
            (await fetch(f"/?size={size}", f"id-{size}")).check()
        with pytest.raises(at.InvalidAction, match=r"no longer kept"):
            await fetch("/?size=2000", "id-2000")
        (await fetch("/?size=100", "id-100")).check()
        (await fetch("/?size=900", "id-900")).check()  # the sum is too much now
        with pytest.raises(at.InvalidAction, match=r"no longer kept"):
            await fetch("/?size=100", "id-100")

    monkeypatch.setattr(repeats, "KEPT_BYTES", 1200)
    assert 5 == len(run(body).heard)


def test_what_was_asked_counts_as_what_is_kept(monkeypatch) -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        for n in range(2):
            (await fetch("/", f"id-{n}", method="POST", content=bytes(700))).check()
        with pytest.raises(at.InvalidAction, match=r"no longer kept"):
            await fetch("/", "id-0", method="POST", content=bytes(700))

    monkeypatch.setattr(repeats, "KEPT_BYTES", 1200)
    run(body)


def test_a_slow_call_does_not_keep_the_answers_after_it(monkeypatch) -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        tangram.quota("wide", concurrency=2)
        async with tangram.lease(quota="api"):
            slow = fetch("/slow", "slow")
            await asyncio.sleep(0)
            url = slow.get_coro().cr_frame.f_locals["request"].url.replace("slow", "fast")
            for n in range(3):
                (await tangram.fetch("wide", url, id=f"fast-{n}")).check()
            with pytest.raises(at.InvalidAction, match=r"no longer kept"):
                await tangram.fetch("wide", url, id="fast-0")
        (await slow).check()

    monkeypatch.setattr(repeats, "KEPT", 1)
    run(body)


def test_the_ids_that_are_remembered_are_bounded(monkeypatch) -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        for n in range(5):
            (await fetch("/", f"id-{n}")).check()
        assert tangram._fetch is not None
        assert ["id-2", "id-3"] == list(tangram._fetch.repeats._gone)

    monkeypatch.setattr(repeats, "KEPT", 1)
    monkeypatch.setattr(repeats, "IDS", 2)
    run(body)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (None, 8),
        ("four", 4),
        (Response(status=200, body=bytes(70)), 70),
        ({"ab": [1.5, "abc"], "c": (True,)}, 2 + 8 + 3 + 1 + 8),
        (Request(url="http", content=b"12", params={"a": "b"}, headers={}), 4 + 2 + 2 + 8),
    ],
)
def test_the_size_of_a_reply_is_about_what_it_takes(value: object, size: int) -> None:
    assert size == size_of(value)


def test_a_copy_shares_nothing_that_can_change_however_deep_it_is() -> None:
    value: list[Any] = [{"x": ([1],)}]
    deep: Any = value
    for _ in range(50_000):
        deep = [deep]

    copied = apart(deep)
    assert size_of(deep) == 1 + 8
    for _ in range(50_000):
        copied, deep = copied[0], deep[0]
    value[0]["x"][0].append(2)

    assert [{"x": [[1]]}] == copied


def test_a_time_limit_may_be_text() -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        assert at.Outcome.SUCCEEDED is (await fetch("/", timeout_s="30s")).outcome

    run(body)


_LOOP: list[Any] = []
_LOOP.append(_LOOP)
_LOOP_TOO: list[Any] = []
_LOOP_TOO.append(_LOOP_TOO)
_DEEP: list[Any] = []
for _ in range(5_000):
    _DEEP = [_DEEP]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, False),
        (1, True, False),
        ({"n": [1]}, {"n": [True]}, False),
        ({1: "a"}, {True: "a"}, False),
        ((1, 2), [1, 2], True),
        ([1], [1, 2], False),
        ({"x": float("nan")}, {"x": float("nan")}, True),
        (0.5, 0.25, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (_LOOP, _LOOP_TOO, True),
        (_DEEP, apart(_DEEP), True),
        (Request(url="u", json=[1]), Request(url="u", json=[1.0]), False),
        (Request(url="u", json=(1,)), Request(url="u", json=[1]), True),
    ],
)
def test_requests_are_the_same_if_their_json_is(one: Any, other: Any, same: bool) -> None:
    assert same is repeats.same(one, other)


def test_an_id_belongs_to_one_quota_declared_or_not() -> None:
    async def body(tangram: Tangram, api: Api, fetch: Fetch) -> None:
        sent = fetch("/a", id="x")
        (await sent).check()
        tangram.quota("other", concurrency=1)
        request = Request(url=api.url + "/a")
        with pytest.raises(at.InvalidAction, match="another request has this id"):
            await tangram.fetch("other", request, id="x")
        with pytest.raises(at.InvalidAction, match="another request has this id"):
            await tangram.fetch("nobody", request, id="x")

    assert ["/a"] == run(body).heard


def test_what_holds_itself_is_copied_and_measured_all_the_same() -> None:
    found = apart(_LOOP)

    assert found is found[0]
    assert found is not _LOOP
    assert 0 == repeats.size_of(_LOOP)
    assert 8 == repeats.size_of([1, _LOOP])
