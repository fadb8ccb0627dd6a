"""Services that speak the OpenAI protocol: a server of our own as a child, or one at an address."""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ...core.model import Outcome, Seconds
from ...errors import Unavailable
from ..api import Exchange, HttpClient, Request
from .child import Child
from .devices import Devices
from .port import Said, Seat
from .sleeping import PROTOCOLS, Sleeping

_STEP_S = 300.0  # one step of going to sleep or waking; whoever asked sets a shorter limit
_LIFE_S = 5.0
_LAST_WORDS_S = 0.5
_BY_CONTENT = {
    "messages": "/v1/chat/completions",
    "prompt": "/v1/completions",
    "input": "/v1/embeddings",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings:
    """How to run or reach a server.

    Attributes:
        command: how to start one; ``{port}``, ``{gpus}`` (how many devices) and ``{devices}`` in it
            are filled in. The alternative is `addresses`.
        addresses: servers that run already, one for each instance.
        sleep: how it goes to sleep: ``"vllm"``, ``"sglang"`` or ``"none"``.
        sleep_level: of vLLM: 1 keeps the weights in host memory, 2 loads them again.
        model: the name to ask for; what the server lists first by default.
        ready: the path that answers when it is up.
        probe: a request that shows that it answers; one token by default.
        variables: environment variables of the server.
    """

    command: str | Sequence[str] | None = None
    addresses: tuple[str, ...] = ()
    sleep: str = "none"
    sleep_level: int = 1
    model: str | None = None
    ready: str = "/health"
    probe: Mapping[str, Any] | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    reply_limit_bytes: int = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class _Server:
    """One server; `instance` is the last that was restored from it, empty if that was dropped."""

    name: str
    url: str
    devices: tuple[int, ...]
    instance: str
    child: Child | None = None
    model: str | None = None
    awake: bool = False
    ready: bool = False


class OpenAIDriver:
    """One server for each cell; asleep it keeps its process, and its devices are free."""

    movable = False

    def __init__(self, name: str, settings: OpenAISettings, devices: Devices) -> None:
        self._name = name
        self._settings = settings
        self._devices = devices
        self._http = HttpClient(secure=any(a.startswith("https") for a in settings.addresses))
        self._servers: list[_Server] = []
        self._numbers = count(1)
        self._sleeping: Sleeping | None = PROTOCOLS.get(settings.sleep)

    def warm(self, seat: Seat) -> bool:
        return any(s.devices == seat.devices and s.ready and not s.awake for s in self._servers)

    async def restore(self, seat: Seat) -> None:
        server = self._asleep_at(seat)
        if server is None:
            server = await self._begin(seat)
        server.instance = seat.instance
        if not server.ready:
            await self._until(server, self._ready(server))
            server.ready = True
            if self._settings.addresses and self._sleeping is not None:
                await self._wake(server)  # nobody knows how it was left
        elif self._sleeping is not None:
            await self._wake(server)
        await self._until(server, self._probe(server))
        server.awake = True

    async def evict(self, instance: str) -> None:
        server = self._of(instance)
        if self._sleeping is None:
            if server.child is None:
                raise Unavailable(f"{server.url} has no way to leave its devices")
            await self._drop(server, gently=True)
            return
        for step in self._sleeping.sleep(self._settings.sleep_level):
            await self._until(server, self._step(server, step))
        server.awake = False

    async def forget(self, instance: str) -> None:
        for server in [s for s in self._servers if s.instance == instance]:
            await self._drop(server, gently=False)

    async def end(self, instance: str) -> None:
        await self.forget(instance)

    async def died(self, instance: str) -> str:
        server = self._of(instance)
        if server.child is None:
            await asyncio.get_running_loop().create_future()  # nobody tells us
            raise AssertionError("a future that nobody sets has no result")
        return await server.child.why()

    async def answers(self, instance: str) -> bool:
        server = self._of(instance)
        request = Request(url=server.url + self._settings.ready, timeout_s=_LIFE_S)
        return (await self._http.send(request)).outcome is Outcome.SUCCEEDED

    async def call(self, instance: str, request: Any, *, timeout_s: Seconds) -> Said:
        server = self._of(instance)
        if not server.awake:
            raise Unavailable(f"instance {instance} is not on its devices")
        return await self._ask(server, request, timeout_s=timeout_s)

    async def _ask(self, server: _Server, request: Any, *, timeout_s: Seconds) -> Said:
        if not isinstance(request, Mapping):
            return Said(outcome=Outcome.FAILED, reason=f"a request is a mapping, not {request!r}")
        body = dict(request)
        path = body.pop("path", None) or _path_of(body)
        if not isinstance(path, str) or not path.startswith("/"):
            known = ", ".join(_BY_CONTENT)
            reason = f"a request has one of {known}, or a path such as '/v1/rerank'"
            return Said(outcome=Outcome.FAILED, reason=reason)
        if server.model is not None:
            body.setdefault("model", server.model)
        try:
            content = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            return Said(outcome=Outcome.FAILED, reason=f"the request is no JSON: {error}")
        sent = Request(
            url=server.url + path,
            method="POST",
            headers={"content-type": "application/json"},
            content=content,
            timeout_s=timeout_s,
            body_limit_bytes=self._settings.reply_limit_bytes,
        )
        return said(await self._http.send(sent))

    async def close(self) -> None:
        await asyncio.gather(*(self._drop(s, gently=False) for s in list(self._servers)))
        await self._http.close()

    # -- servers ------------------------------------------------------------------

    def _of(self, instance: str) -> _Server:
        for server in self._servers:
            if server.instance == instance:
                return server
        raise Unavailable(f"instance {instance} is gone")

    def _asleep_at(self, seat: Seat) -> _Server | None:
        for server in self._servers:
            if server.devices == seat.devices and server.ready and not server.awake:
                return server
        return None

    async def _begin(self, seat: Seat) -> _Server:
        name = f"{self._name}-{next(self._numbers)}"
        settings = self._settings
        if settings.addresses:
            taken = {server.url for server in self._servers}
            url = next((a for a in settings.addresses if a not in taken), None)
            if url is None:
                n = len(settings.addresses)
                raise Unavailable(f"all {n} addresses of {self._name} are in use already")
            server = _Server(name=name, url=url, devices=seat.devices, instance=seat.instance)
            self._servers.append(server)
            return server
        port = _free_port()
        words = {
            "port": str(port),
            "gpus": str(len(seat.devices)),
            "devices": ",".join(map(str, seat.devices)),
        }
        child = await Child.start(
            _filled(settings.command or "", words),
            variables={
                **self._devices.variables(seat.devices, name),
                **({} if self._sleeping is None else self._sleeping.variables),
                **settings.variables,
            },
        )
        url = f"http://127.0.0.1:{port}"
        server = _Server(
            name=name, url=url, devices=seat.devices, instance=seat.instance, child=child
        )
        self._servers.append(server)
        return server

    async def _drop(self, server: _Server, *, gently: bool) -> None:
        if server.child is not None:
            await (server.child.stop() if gently else server.child.kill())
            self._devices.left(server.name)
        if server in self._servers:
            self._servers.remove(server)

    # -- its protocol ---------------------------------------------------------------

    async def _until(self, server: _Server, step: Coroutine[Any, Any, None]) -> None:
        """A step with a server, given up when its process ends."""
        doing = asyncio.ensure_future(step)
        if server.child is None:
            await doing
            return
        ending = asyncio.ensure_future(server.child.ended())
        try:
            await asyncio.wait({doing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done() and doing.exception() is not None:
                # A connection breaks a little before the end of its process is known.
                await asyncio.wait({ending}, timeout=_LAST_WORDS_S)
            if ending.done():
                raise Unavailable(await server.child.why())
            await doing
        finally:
            doing.cancel()
            ending.cancel()
            await asyncio.gather(doing, ending, return_exceptions=True)

    async def _ready(self, server: _Server) -> None:
        """Ask until it answers; whoever waits sets the limit."""
        request = Request(url=server.url + self._settings.ready, timeout_s=_LIFE_S)
        pause_s = 0.02
        while (await self._http.send(request)).outcome is not Outcome.SUCCEEDED:
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.3, 0.5)
        server.model = self._settings.model
        if server.model is None:
            listed = await self._http.send(Request(url=server.url + "/v1/models"))
            server.model = _first_model(listed)

    async def _wake(self, server: _Server) -> None:
        assert self._sleeping is not None
        for step in self._sleeping.wake(self._settings.sleep_level):
            await self._until(server, self._step(server, step))
        if self._sleeping.asleep is not None:
            await self._until(server, self._awake(server, self._sleeping.asleep))

    async def _awake(self, server: _Server, path: str) -> None:
        pause_s = 0.01
        while True:
            reply = await self._http.send(Request(url=server.url + path))
            if reply.outcome is not Outcome.SUCCEEDED or reply.response is None:
                raise Unavailable(f"{path}: {reply.reason}")
            if not reply.response.json().get("is_sleeping"):
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.5)

    async def _step(self, server: _Server, step: tuple[str, Mapping[str, Any] | None]) -> None:
        path, body = step
        reply = await self._http.send(
            Request(url=server.url + path, method="POST", json=body, timeout_s=_STEP_S)
        )
        if reply.outcome is not Outcome.SUCCEEDED:
            raise Unavailable(f"{path}: {reply.reason}{_detail(reply)}")

    async def _probe(self, server: _Server) -> None:
        probe = self._settings.probe or {"prompt": "1", "max_tokens": 1, "temperature": 0}
        answer = await self._ask(server, probe, timeout_s=_STEP_S)
        if answer.outcome is not Outcome.SUCCEEDED:
            raise Unavailable(f"it does not answer the probe: {answer.reason}")


def said(exchange: Exchange) -> Said:
    """What an exchange with a service means for a call to it."""
    value = None
    if exchange.response is not None:
        try:
            value = exchange.response.json()
        except ValueError:
            if exchange.outcome is Outcome.SUCCEEDED:
                return Said(outcome=Outcome.FAILED, reason="the reply is no JSON")
    return Said(
        outcome=exchange.outcome,
        value=value,
        reason=exchange.reason + _detail(exchange),
        retry_after_s=exchange.retry_after_s,
    )


def _detail(exchange: Exchange) -> str:
    if exchange.outcome is Outcome.SUCCEEDED or exchange.response is None:
        return ""
    text = " ".join(exchange.response.text[:300].split())
    return f": {text}" if text else ""


def _path_of(body: Mapping[str, Any]) -> str | None:
    return next((path for key, path in _BY_CONTENT.items() if key in body), None)


def _first_model(exchange: Exchange) -> str | None:
    try:
        assert exchange.response is not None
        return str(exchange.response.json()["data"][0]["id"])
    except (AssertionError, ValueError, LookupError, TypeError):
        return None


def _filled(command: str | Sequence[str], words: Mapping[str, str]) -> list[str]:
    """The program with its placeholders filled in; other braces are left alone."""
    program = shlex.split(command) if isinstance(command, str) else list(command)
    for key, value in words.items():
        program = [word.replace(f"{{{key}}}", value) for word in program]
    return program


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
