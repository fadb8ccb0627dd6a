"""Quotas, against a real HTTP server that counts and refuses."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psutil
import pytest

import arl_tangram as at
from arl_tangram.core.commands import Command, Start
from arl_tangram.core.events import Event, QuotaThrottled
from arl_tangram.core.model import CPU, MEMORY, Node, NodeId
from arl_tangram.executors import api as executors_api
from arl_tangram.executors.api import Request, retry_after
from arl_tangram.runtime.observers import Observer
from arl_tangram.runtime.tangram import Tangram
from arl_tangram.testing.clock import ManualClock
from arl_tangram.testing.scripted_host import ScriptedHost

Answer = tuple[int, dict[str, str], bytes]
OK: Answer = (200, {}, b"{}")


class Api:
    """A server on loopback: `reply` decides what each request gets.

    Attributes:
        log: (time, path, status, port of the other side) of each request, in order of arrival.
        busy: requests under way; `most_busy` is the most there were.
        broken: requests whose other side went away.
    """

    def __init__(self, reply: Callable[[Api, str], Answer]) -> None:
        api = self
        self.log: list[tuple[float, str, int, int]] = []
        self.busy = self.most_busy = 0
        self.broken = threading.Event()
        self.lock = threading.Lock()

        class Exchange(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                now = time.monotonic()
                with api.lock:
                    api.busy += 1
                    api.most_busy = max(api.most_busy, api.busy)
                    status, headers, body = reply(api, self.path)
                    api.log.append((now, self.path, status, self.client_address[1]))
                try:
                    if self.path.startswith("/slow"):
                        api.wait_for_the_end(self.connection)
                    elif self.path.startswith("/work"):
                        time.sleep(0.02)
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    length = (1 << 30) if self.path.startswith("/huge") else len(body)
                    self.send_header("content-length", str(length))
                    self.end_headers()
                    if self.path.startswith("/halting"):
                        api.wait_for_the_end(self.connection)
                    for _ in range(1024 if self.path.startswith("/huge") else 0):
                        self.wfile.write(bytes(1 << 20))
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True
                    api.broken.set()
                finally:
                    with api.lock:
                        api.busy -= 1

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def wait_for_the_end(self, connection: Any) -> None:
        """Until the other side goes away."""
        connection.settimeout(20)
        if connection.recv(1) == b"":
            raise ConnectionError

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    @property
    def statuses(self) -> list[int]:
        return [status for _, _, status, _ in self.log]

    def times(self, status: int = 200) -> list[float]:
        return [at for at, _, got, _ in self.log if got == status]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def api(reply: Callable[[Api, str], Answer] = lambda api, path: OK) -> Iterator[Api]:
    server = Api(reply)
    try:
        yield server
    finally:
        server.close()


def in_turn(*answers: Answer) -> Callable[[Api, str], Answer]:
    """Each once, then the last for ever."""
    left = list(answers)
    return lambda api, path: left.pop(0) if len(left) > 1 else left[0]


def run(body: Callable[[Tangram], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def main() -> None:
        node = Node(id=NodeId("n0"), capacity={CPU: 2000, MEMORY: 4096})
        async with asyncio.timeout(30), Tangram(node=node, host=ScriptedHost, **options) as tangram:
            await body(tangram)
        assert {asyncio.current_task()} == asyncio.all_tasks()

    asyncio.run(main())


def test_an_answer_comes_back_over_a_connection_that_is_kept() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=4)
        for i in range(5):
            answer = (await tangram.fetch("search", server.url(f"/{i}"))).check()
            assert answer.value is not None
            assert (200, {}, 1) == (answer.value.status, answer.value.json(), answer.attempts)
            assert answer.timing.run_s > 0

    with api() as server:
        run(body)
        assert 1 == len({port for _, _, _, port in server.log})


class Starts(Observer):
    """When each call was let go, and how many were refused."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.refused = 0

    def happened(self, event: Event, commands: Sequence[Command]) -> None:
        self.refused += isinstance(event, QuotaThrottled)
        self.times += [event.at for command in commands if isinstance(command, Start)]


@pytest.mark.slow
def test_no_span_of_time_sees_more_than_the_rate_and_the_burst() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", rate="50/s", burst=3)
        await asyncio.gather(*(tangram.fetch("search", server.url()) for _ in range(25)))

    starts = Starts()
    with api() as server:
        run(body, observers=[starts])
        arrived = sorted(server.times())
    assert (25, 25) == (len(starts.times), len(arrived))
    for i, j in itertools.combinations(range(25), 2):
        assert j - i + 1 <= 3 + 50 * (starts.times[j] - starts.times[i]) + 1e-6
    assert arrived[-1] - arrived[0] > 0.3  # 22 tokens take 0.44 s to come


@pytest.mark.slow
def test_a_refusal_pauses_everybody_and_nobody_comes_back_early_or_all_at_once() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", rate=100, burst=20, concurrency=20)
        (await tangram.fetch("search", server.url("/refused"))).check()
        await asyncio.gather(*(tangram.fetch("search", server.url()) for _ in range(19)))

    starts = Starts()
    with api(in_turn((429, {"Retry-After": "0.5"}, b""), OK)) as server:
        run(body, observers=[starts])
        refused, times = server.times(429), sorted(server.times())
    assert (1, 20) == (len(refused), len(times))
    assert times[0] - refused[0] >= 0.499
    first, *later = starts.times[1:]
    for n, at_s in enumerate(later, 1):
        assert n <= 100 * (at_s - first) + 1 + 1e-6  # the bucket was empty after the pause


@pytest.mark.parametrize("wait_s", [60.0, 20_000.0])
def test_a_refusal_of_one_makes_those_who_wait_wait(wait_s, caplog) -> None:
    clock = ManualClock()

    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=1)
        first = asyncio.ensure_future(tangram.fetch("search", server.url("/first")))
        other = asyncio.ensure_future(tangram.fetch("search", server.url("/other")))
        await until(lambda: server.statuses == [429] and clock.next_call is not None)
        assert wait_s == clock.next_call
        clock.advance(wait_s - 0.1)
        await asyncio.sleep(0.02)
        assert [429] == server.statuses
        clock.advance(0.1)
        assert 2 == (await first).check().attempts
        (await other).check()

    with api(in_turn((429, {"Retry-After": f"{wait_s:g}"}, b""), OK)) as server:
        run(body, clock=clock)
        assert ["/first", "/first", "/other"] == [path for _, path, _, _ in server.log]
    said = ["quota search: the API asks everybody to wait for 20,000 s"]
    assert (said if wait_s == 20_000 else []) == [record.message for record in caplog.records]


def test_nobody_comes_while_the_explanation_of_a_refusal_is_on_its_way(monkeypatch) -> None:
    clock = ManualClock()

    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=2)
        first = asyncio.ensure_future(tangram.fetch("search", server.url("/halting")))
        async with asyncio.timeout(10):
            await until(lambda: starts.refused == 1)
        other = asyncio.ensure_future(tangram.fetch("search", server.url("/other")))
        first.cancel()
        await until(lambda: clock.next_call == 60.0)
        assert ["/halting"] == [path for _, path, _, _ in server.log]
        clock.advance(60.0)
        (await other).check()

    monkeypatch.setattr(executors_api, "_EXPLANATION_S", 25.0)
    starts = Starts()
    with api(in_turn((429, {"Retry-After": "60"}, b"why"), OK)) as server:
        run(body, clock=clock, observers=[starts])


def test_a_long_pause_is_told_once(caplog) -> None:
    clock = ManualClock()

    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=3)
        calls = [
            asyncio.ensure_future(tangram.fetch("search", server.url("/work"), attempts=1))
            for _ in range(3)
        ]
        assert {at.Outcome.LOST} == {answer.outcome for answer in await asyncio.gather(*calls)}

    with api(in_turn((429, {"Retry-After": "86400"}, b""))) as server:
        run(body, clock=clock)
        assert [429] * 3 == server.statuses
    assert 1 == len(caplog.records)


@pytest.mark.slow
def test_an_adaptive_quota_finds_how_many_at_once_the_other_side_takes() -> None:
    def reply(api: Api, path: str) -> Answer:
        return OK if api.busy <= 3 else (429, {"Retry-After": "0.02"}, b"")

    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=24, adaptive=True)
        calls = [tangram.fetch("search", server.url("/work"), attempts=50) for _ in range(120)]
        for answer in await asyncio.gather(*calls):
            answer.check()

    with api(reply) as server:
        run(body)
    later = server.statuses[len(server.statuses) // 3 :]
    assert later.count(429) < 0.5 * len(later)


def test_a_permanent_error_is_a_failure_at_once() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=1)
        answer = await tangram.fetch("search", server.url())
        assert (at.Outcome.FAILED, 1) == (answer.outcome, answer.attempts)
        assert answer.value is not None
        assert (404, "not here") == (answer.value.status, answer.value.text)
        with pytest.raises(at.ActionFailed, match="404"):
            answer.check()

    with api(in_turn((404, {}, b"not here"))) as server:
        run(body)
        assert [404] == server.statuses


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ("no-url", "no-url"),
        ("ftp://x/", "ftp"),
        (Request(url="http://127.0.0.1/", headers={"a": "b\nc: d"}), ""),
    ],
)
def test_a_request_that_cannot_be_sent_is_a_failure_at_once(request_, says) -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=1)
        answer = await tangram.fetch("search", request_, attempts=2)
        if says:
            assert (at.Outcome.FAILED, 1) == (answer.outcome, answer.attempts)
        assert says in answer.reason

    run(body)


def test_a_reply_that_sends_elsewhere_is_no_success() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=1)
        answer = await tangram.fetch("search", server.url())
        assert at.Outcome.FAILED is answer.outcome
        assert "moved to /new" in answer.reason

    with api(in_turn((302, {"Location": "/new"}, b""))) as server:
        run(body)


@pytest.mark.slow
def test_what_may_pass_is_tried_again_by_one_owner_of_retries() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=1)
        answer = (await tangram.fetch("search", server.url())).check()
        assert 3 == answer.attempts

    with api(in_turn((500, {}, b""), (502, {}, b""), OK)) as server:
        run(body)
        assert [500, 502, 200] == server.statuses


def test_what_does_not_pass_is_lost_when_its_attempts_are_spent() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=1)
        answer = await tangram.fetch("search", server.url(), attempts=2)
        assert (at.Outcome.LOST, 2) == (answer.outcome, answer.attempts)
        gone = await tangram.fetch("search", "http://127.0.0.1:9/", attempts=1)
        assert at.Outcome.LOST is gone.outcome
        assert "ConnectError" in gone.reason

    with api(in_turn((500, {}, b""))) as server:
        run(body)
        assert [500, 500] == server.statuses


def test_a_repeated_id_never_calls_twice() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=4)
        url = server.url("/work")
        both = await asyncio.gather(*(tangram.fetch("search", url, id="q1") for _ in range(2)))
        later = await tangram.fetch("search", url, id="q1")
        assert both[0] == both[1] == later
        with pytest.raises(at.InvalidAction, match="another request has this id"):
            await tangram.fetch("search", server.url("/other"), id="q1")

    with api() as server:
        run(body)
        assert [200] == server.statuses


def test_no_id_of_a_caller_is_that_of_a_nameless_action() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=4)
        async with tangram.lease(quota="search") as lease:
            given = lease.action.id
        with pytest.raises(at.InvalidAction, match="the first a letter or digit"):
            await tangram.fetch("search", server.url(), id=given)
        (await tangram.fetch("search", server.url(), id=given.lstrip("_"))).check()

    with api() as server:
        run(body)


@pytest.mark.slow
def test_a_reply_of_a_gigabyte_is_cut_off_and_is_a_failure() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=1)
        answer = await tangram.fetch("search", server.url("/huge"))
        assert (at.Outcome.FAILED, 1) == (answer.outcome, answer.attempts)
        assert "16,777,216 bytes" in answer.reason
        assert (await tangram.fetch("search", server.url())).outcome is at.Outcome.SUCCEEDED

    before = psutil.Process().memory_info().rss
    with api() as server:
        run(body)
        assert server.broken.wait(5)
    assert psutil.Process().memory_info().rss - before < 200 << 20


def test_a_reply_that_never_comes_times_out() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=1)
        request = Request(url=server.url("/slow"), timeout_s=0.1)
        answer = await tangram.fetch("search", request)
        assert (at.Outcome.TIMED_OUT, 1) == (answer.outcome, answer.attempts)

    with api() as server:
        run(body)
        assert server.broken.wait(5)


def test_cancelling_a_request_in_flight_ends_it_and_gives_its_place_back() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=1)
        fetching = asyncio.ensure_future(tangram.fetch("search", server.url("/slow")))
        waiting = asyncio.ensure_future(tangram.fetch("search", server.url("/never")))
        await until(lambda: server.busy == 1)
        waiting.cancel()
        fetching.cancel()
        await asyncio.wait([fetching, waiting])
        assert fetching.cancelled()
        assert waiting.cancelled()
        (await tangram.fetch("search", server.url("/next"))).check()

    with api() as server:
        run(body)
        assert server.broken.wait(5)
        assert ["/slow", "/next"] == [path for _, path, _, _ in server.log]


def test_what_waits_goes_by_priority_then_in_order_of_arrival() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=1)
        async with tangram.lease(quota="search"):
            calls = [
                asyncio.ensure_future(
                    tangram.fetch("search", server.url(f"/{n}"), priority=int(n == 2))
                )
                for n in range(4)
            ]
            await asyncio.sleep(0)
        await asyncio.gather(*calls)

    with api() as server:
        run(body)
        assert ["/2", "/0", "/1", "/3"] == [path for _, path, _, _ in server.log]


def test_an_unknown_quota_is_rejected_by_name() -> None:
    async def body(tangram: Tangram) -> None:
        answer = await tangram.fetch("serch", "http://127.0.0.1:9/")
        assert at.Outcome.REJECTED is answer.outcome
        assert "serch" in answer.reason
        with pytest.raises(at.ActionRejected, match="serch"):
            async with tangram.lease(quota="serch"):
                pass

    run(body)


def test_a_days_calls_are_counted_over_any_24_hours() -> None:
    clock = ManualClock()
    day = 86400.0

    async def body(tangram: Tangram) -> None:
        tangram.quota("model", daily=3)
        for wait in (0.0, 0.0, 3600.0):
            clock.advance(wait)
            async with tangram.lease(quota="model"):
                pass
        fourth = asyncio.ensure_future(held(tangram, "model"))
        await asyncio.sleep(0)
        clock.advance(day - 3600.0 - 1.0)
        await asyncio.sleep(0.01)
        assert not fourth.done()
        clock.advance(day / 256 + 2.0)  # a window remembers in slices
        await fourth
        await held(tangram, "model")  # the other token of the first hour
        sixth = asyncio.ensure_future(held(tangram, "model"))
        await asyncio.sleep(0.01)
        assert not sixth.done()
        clock.advance(3600.0)
        await sixth

    run(body, clock=clock)


def test_several_windows_hold_at_once() -> None:
    clock = ManualClock()

    async def body(tangram: Tangram) -> None:
        tangram.quota("model", windows={"1m": 2, "1h": 3})
        await held(tangram, "model")
        await held(tangram, "model")
        third = asyncio.ensure_future(held(tangram, "model"))
        await asyncio.sleep(0.01)
        assert not third.done()
        clock.advance(61.0)
        await third
        fourth = asyncio.ensure_future(held(tangram, "model"))
        clock.advance(600.0)
        await asyncio.sleep(0.01)
        assert not fourth.done()
        clock.advance(3600.0)
        await fourth

    run(body, clock=clock)


def test_a_lease_of_cores_and_tokens_gets_both_or_waits_for_both() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("search", concurrency=2)
        async with tangram.lease(quota={"search": 2}):
            both = asyncio.ensure_future(held(tangram, "search", cpus=2))
            await asyncio.sleep(0)
            async with asyncio.timeout(1), tangram.lease(cpus=2):
                assert not both.done()
        await both

    run(body)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "limits nothing"),
        ({"rate": 0}, "rate=0"),
        ({"rate": "fast"}, "rate='fast'"),
        ({"rate": "10/fortnight"}, "rate='10/fortnight'"),
        ({"concurrency": 0}, "concurrency=0"),
        ({"daily": 0}, "daily=0"),
        ({"rate": 1, "burst": 0}, "burst=0"),
        ({"rate": 1, "burst": 1.5}, "burst=1.5"),
        ({"windows": {"1h": 0}}, r"windows\['1h'\]=0"),
    ],
)
def test_a_quota_that_cannot_be_is_refused_by_field(options, says) -> None:
    async def body(tangram: Tangram) -> None:
        with pytest.raises(at.ConfigError, match=says):
            tangram.quota("q", **options)

    run(body)


def test_two_quotas_need_two_names_and_tokens_are_whole() -> None:
    async def body(tangram: Tangram) -> None:
        tangram.quota("q", rate="600/min", burst=10)
        with pytest.raises(at.ConfigError, match="declared already"):
            tangram.quota("q", rate=1)
        with pytest.raises(at.ConfigError, match="name='a b'"):
            tangram.quota("a b", rate=1)
        with pytest.raises(at.InvalidAction, match="whole number"):
            tangram.lease(quota={"q": 0})
        with pytest.raises(at.ActionRejected, match="never"):
            async with tangram.lease(quota={"q": 11}):
                pass

    run(body)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("2", 2.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("20000", 20000.0),
        ("2592000", 2592000.0),
        ("9" * 400, 1e9),
        ("1_000", None),
        ("nan", None),
        ("soon", None),
        ("", None),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:05 GMT", 0.0),
        ("Thursday, 01-Jan-70 00:00:30 GMT", 20.0),
        ("Thu Jan  1 00:00:30 1970", 20.0),
        ("Thu, 01 Jan 99999 00:00:30 GMT", None),
        ("5, 30", 30.0),
        ("soon, 5", 5.0),
        ("5, Thu, 01 Jan 1970 00:00:30 GMT", 20.0),
    ],
)
def test_a_retry_after_is_seconds_or_a_date(header, seconds) -> None:
    assert seconds == retry_after(header, now=10.0)


def test_a_date_without_a_zone_is_one_of_greenwich(monkeypatch) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "America/New_York")
        time.tzset()
        wait = retry_after("Thu Jan  1 00:00:30 1970", now=10.0)
    time.tzset()

    assert 20.0 == wait


async def held(tangram: Tangram, quota: str, **options: Any) -> None:
    async with tangram.lease(quota=quota, **options):
        pass


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that only a thread can tell."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
