"""A service that asks its callers to wait: the quotas of the call are paused, for everybody."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import arl_tangram as at
from arl_tangram.core.events import Event, InstanceFailed, QuotaThrottled
from arl_tangram.runtime import fetch
from arl_tangram.runtime.observers import Observer


class Server:
    """Speaks as much of the protocol as is needed; the first call after its probe is refused."""

    def __init__(self, status: int, retry_after: str) -> None:
        self.refusal = f"HTTP/1.1 {status} No\r\nretry-after: {retry_after}\r\n"
        self.calls: list[float] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
        sent = json.loads(await reader.readexactly(length) or b"{}")
        # Whoever asks to wait need not be asked whether it lives, which it denies then.
        first = f"HTTP/1.1 {500 if self.calls and 'health' in head else 200} OK\r\n"
        if sent.get("prompt") == "mine":
            self.calls.append(asyncio.get_running_loop().time())
            first = self.refusal if len(self.calls) == 1 else first
        said = json.dumps({"data": [{"id": "m"}], "choices": [{"text": "x"}]})
        writer.write(
            f"{first}connection: close\r\ncontent-length: {len(said)}\r\n\r\n{said}".encode()
        )
        await writer.drain()
        writer.close()


class Paused(Observer):
    def __init__(self) -> None:
        self.pauses: dict[str, float] = {}
        self.failed: list[str] = []

    def happened(self, event: Event, commands: Any) -> None:
        if isinstance(event, QuotaThrottled):
            self.pauses[event.quota] = event.retry_after_s
        elif isinstance(event, InstanceFailed):
            self.failed.append(event.reason)


def asked(status: int, retry_after: str, quota: Any, **options: Any) -> tuple[Any, Any, Any]:
    """The answer to a call that was refused at first, the pauses, and when the server was called."""
    server, seen = Server(status, retry_after), Paused()

    async def main() -> at.Answer[Any]:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with (
            listening,
            asyncio.timeout(60),
            at.Tangram.local(gpus=1, gpu_memory="8MiB", observers=[seen]) as tangram,
        ):
            for name in ("key", "team", "other"):
                tangram.quota(name, concurrency=2)
            tangram.service("a", driver="openai", address=address, memory="1MiB", pinned=[1])
            return await tangram.call("a", {"prompt": "mine"}, quota=quota, **options)

    answer = asyncio.run(main())
    assert [] == seen.failed
    return answer, seen.pauses, server.calls


@pytest.mark.parametrize("status", [429, 503])
def test_every_quota_that_a_refused_call_holds_is_paused_as_long_as_asked(status: int) -> None:
    answer, pauses, calls = asked(status, "1", {"key": 1, "team": 1})
    assert at.Outcome.SUCCEEDED is answer.outcome, answer.reason
    assert (2, {"key", "team"}) == (answer.attempts, set(pauses))
    assert calls[1] - calls[0] >= 0.9


def test_a_call_without_a_quota_waits_itself_but_no_longer_than_the_longest_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "_LONGEST_BACKOFF_S", 0.5)
    answer, pauses, calls = asked(429, "3600", None)
    assert (at.Outcome.SUCCEEDED, {}) == (answer.outcome, pauses)
    assert calls[1] - calls[0] >= 0.49


def test_one_reply_pauses_a_quota_for_a_day_at_most() -> None:
    answer, pauses, calls = asked(429, "999999999", "key", attempts=1)
    assert (at.Outcome.LOST, {"key": 86_400.0}, 1) == (answer.outcome, pauses, len(calls))
