"""Services made of programs: one that runs as long as an instance, and one for each call."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ...core.model import Outcome, Seconds
from ...errors import Unavailable
from .child import Child
from .devices import Devices
from .port import Said, Seat

Program = str | Sequence[str]
_LIFE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """The programs of a service; a text is split as a shell would, and run without one.

    Each sees ``ARL_TANGRAM_DEVICES``, ``ARL_TANGRAM_INSTANCE`` and ``ARL_TANGRAM_SERVICE``.

    Attributes:
        call: reads a request as JSON and prints the answer, JSON or plain text.
        start: runs as long as the instance.
        ready: succeeds once `start` can be asked; it is tried again until then.
        stop: is run before `start` is ended.
        sleep, wake: let go of the devices, and take them again.
    """

    call: Program
    start: Program | None = None
    ready: Program | None = None
    stop: Program | None = None
    sleep: Program | None = None
    wake: Program | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    reply_limit_bytes: int = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class _Running:
    """What stands for an instance; `instance` is the last that was restored from it."""

    name: str
    instance: str
    devices: tuple[int, ...]
    variables: Mapping[str, str]
    child: Child | None = None
    awake: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class CommandDriver:
    """Runs the programs of a service."""

    movable = False

    def __init__(self, name: str, settings: CommandSettings, devices: Devices) -> None:
        self._name = name
        self._settings = settings
        self._devices = devices
        self._running: list[_Running] = []
        self._numbers = count(1)

    def warm(self, seat: Seat) -> bool:
        return self._asleep_at(seat) is not None

    async def restore(self, seat: Seat) -> None:
        settings = self._settings
        running = self._asleep_at(seat)
        if running is not None:
            running.instance = seat.instance
            await self._hook(running, "wake", settings.wake)
        else:
            name = f"{self._name}-{next(self._numbers)}"
            running = _Running(
                name=name,
                instance=seat.instance,
                devices=seat.devices,
                variables={
                    **self._devices.variables(seat.devices, name),
                    **settings.variables,
                    "ARL_TANGRAM_SERVICE": self._name,
                },
            )
            self._running.append(running)
            if settings.start is not None:
                running.child = await Child.start(
                    _words(settings.start), variables=self._variables(running)
                )
        if settings.ready is not None:
            await self._ready(running, settings.ready)
        if running.child is not None and not running.child.alive:
            raise Unavailable(await running.child.why())
        running.awake = True

    async def evict(self, instance: str) -> None:
        running = self._of(instance)
        if self._settings.sleep is None:
            if self._settings.stop is not None:
                await self._hook(running, "stop", self._settings.stop)
            await self._drop(running, gently=True)
            return
        await self._hook(running, "sleep", self._settings.sleep)
        running.awake = False

    async def forget(self, instance: str) -> None:
        for running in [r for r in self._running if r.instance == instance]:
            await self._drop(running, gently=False)

    async def end(self, instance: str) -> None:
        await self.forget(instance)

    async def died(self, instance: str) -> str:
        running = self._of(instance)
        if running.child is None:
            await running.ended.wait()
            return "it was ended"
        return await running.child.why()

    async def answers(self, instance: str) -> bool:
        running = self._of(instance)
        if self._settings.ready is None:
            return running.child is None or running.child.alive
        try:
            async with asyncio.timeout(_LIFE_S):
                return (await self._run(running, self._settings.ready))[0] == 0
        except TimeoutError:
            return False

    async def call(self, instance: str, request: Any, *, timeout_s: Seconds) -> Said:
        running = self._of(instance)
        if not running.awake:
            raise Unavailable(f"instance {instance} is not on its devices")
        try:
            sent = json.dumps(request).encode()
        except (TypeError, ValueError, RecursionError) as error:
            return Said(outcome=Outcome.FAILED, reason=f"the request is no JSON: {error}")
        try:
            async with asyncio.timeout(timeout_s):
                status, child = await self._run(running, self._settings.call, sent)
        except TimeoutError:
            return Said(outcome=Outcome.TIMED_OUT, reason=f"no full reply within {timeout_s:g} s")
        if child.cut:
            limit = self._settings.reply_limit_bytes
            return Said(
                outcome=Outcome.FAILED,
                reason=f"the reply is longer than {limit:,} bytes; raise reply_limit to accept it",
            )
        value = _value(bytes(child.out))
        if _killed(status):
            why = await child.why()
            return Said(outcome=Outcome.LOST, value=value, reason=f"the call: {why}")
        if status:
            said = f"; it said: {child.tail}" if child.tail else ""
            return Said(
                outcome=Outcome.FAILED, value=value, reason=f"the call exited with {status}{said}"
            )
        return Said(outcome=Outcome.SUCCEEDED, value=value)

    async def close(self) -> None:
        await asyncio.gather(*(self._drop(r, gently=False) for r in list(self._running)))

    # -- programs ---------------------------------------------------------------------

    def _of(self, instance: str) -> _Running:
        for running in self._running:
            if running.instance == instance:
                return running
        raise Unavailable(f"instance {instance} is gone")

    def _asleep_at(self, seat: Seat) -> _Running | None:
        for running in self._running:
            if running.devices == seat.devices and not running.awake and running.child is not None:
                return running if running.child.alive else None
        return None

    async def _ready(self, running: _Running, program: Program) -> None:
        pause_s = 0.02
        while True:
            status, child = await self._run(running, program)
            if status == 0:
                return
            if running.child is not None and not running.child.alive:
                raise Unavailable(await running.child.why())
            if status == 127:
                raise Unavailable(f"ready: {child.tail}")
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.3, 0.5)

    async def _hook(self, running: _Running, name: str, program: Program | None) -> None:
        assert program is not None
        if running.child is not None and not running.child.alive:
            raise Unavailable(await running.child.why())
        status, child = await self._run(running, program)
        if status:
            raise Unavailable(f"{name} exited with {status}: {child.tail}")

    async def _run(
        self, running: _Running, program: Program, stdin: bytes | None = None
    ) -> tuple[int, Child]:
        """Run a program of this instance to its end; it is killed if that is not waited for."""
        child = await Child.start(
            _words(program),
            variables=self._variables(running),
            stdin=stdin,
            keep_bytes=self._settings.reply_limit_bytes,
        )
        try:
            return await child.ended(), child
        finally:
            await child.kill()

    def _variables(self, running: _Running) -> Mapping[str, str]:
        return {**running.variables, "ARL_TANGRAM_INSTANCE": running.instance}

    async def _drop(self, running: _Running, *, gently: bool) -> None:
        if running.child is not None:
            await (running.child.stop() if gently else running.child.kill())
        self._devices.left(running.name)
        running.ended.set()
        if running in self._running:
            self._running.remove(running)


def _words(program: Program) -> list[str]:
    return shlex.split(program) if isinstance(program, str) else list(program)


def _killed(status: int) -> bool:
    """Whether a program was surely killed: no request makes one end so, but want of memory does."""
    return status < 0 or status == 128 + signal.SIGKILL


def _value(out: bytes) -> Any:
    """What a program printed, as JSON if it is that."""
    text = out.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text
