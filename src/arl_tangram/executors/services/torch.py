"""PyTorch modules as services: a worker process keeps the weights, and copies them to devices and off."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ...core.model import Outcome, Seconds
from ...errors import Unavailable
from ..api import Exchange, HttpClient, Request
from .child import Child
from .devices import Devices
from .openai import said
from .port import Said, Seat

_STEP_S = 300.0  # whoever asked sets a shorter limit
_LIFE_S = 5.0
_EVER_S = 1e7  # an exchange is as long as the work for it
OVERTIME_S = 10.0
"""How long a worker may go on with a call that nobody waits for any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchSettings:
    """What to load.

    Attributes:
        module: ``"package:function"``; the function returns a `torch.nn.Module` on the CPU.
        arguments: keyword arguments of the function.
        path: folders to import from, besides those of this process.
        probe: a request that must succeed before an instance is ready.
        variables: environment variables of the worker.
        overtime_s: how long it may go on with a call whose time is over, or that was cancelled; then
            the worker is ended, since nothing else ends a thread.
    """

    module: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    probe: Any = None
    variables: Mapping[str, str] = field(default_factory=dict)
    reply_limit_bytes: int = 64 * 1024 * 1024
    overtime_s: Seconds = OVERTIME_S


_Asking = asyncio.Task[Exchange]


@dataclass(slots=True, eq=False)
class _Worker:
    """The process that holds the host copy, and the instances it has on devices.

    Attributes:
        at_work: what it is doing, whether or not anybody still waits for it, and for which instance.
        ready: whether it has answered, and so has the weights.
        ended_for: why we ended it; empty if it ended by itself.
    """

    name: str
    child: Child
    http: HttpClient
    instances: set[str] = field(default_factory=set)
    at_work: dict[_Asking, str] = field(default_factory=dict)
    ready: bool = False
    ended_for: str = ""


class TorchDriver:
    """One worker process for each service; its instances come and go inside it."""

    movable = True

    def __init__(self, name: str, settings: TorchSettings, devices: Devices) -> None:
        self._name = name
        self._settings = settings
        self._devices = devices
        self._worker: _Worker | None = None
        self._starting = asyncio.Lock()  # two instances that come at once share one worker
        self._numbers = count(1)

    def warm(self, seat: Seat) -> bool:
        worker = self._worker
        return worker is not None and worker.ready and worker.child.alive

    async def restore(self, seat: Seat) -> None:
        async with self._starting:
            worker = self._worker
            if worker is None or not worker.child.alive:
                worker = await self._start()
        worker.instances.add(seat.instance)
        where = {"devices": seat.devices, "mib": seat.device_mib}
        answer = await self._tell(worker, "/restore", seat.instance, where)
        if answer.outcome is Outcome.SUCCEEDED and self._settings.probe is not None:
            answer = await self.call(seat.instance, self._settings.probe, timeout_s=_STEP_S)
        if answer.outcome is not Outcome.SUCCEEDED:
            if not worker.child.alive:
                raise Unavailable(await worker.child.why())
            raise Unavailable(f"it could not be put on devices {seat.devices}: {answer.reason}")

    async def evict(self, instance: str) -> None:
        worker = self._of(instance)
        answer = await self._tell(worker, "/evict", instance, {})
        if answer.outcome is not Outcome.SUCCEEDED:
            raise Unavailable(answer.reason)
        worker.instances.discard(instance)

    async def forget(self, instance: str) -> None:
        worker = self._worker
        if worker is not None and worker.instances <= {instance}:
            await self._stop(worker)

    async def end(self, instance: str) -> None:
        worker = self._worker
        if worker is None or instance not in worker.instances:
            return
        worker.instances.discard(instance)
        unfinished = {asking for asking, whose in worker.at_work.items() if whose == instance}
        if unfinished:  # what is being put on devices meanwhile would stay there
            _, unfinished = await asyncio.wait(unfinished, timeout=_LIFE_S)
        if not unfinished:
            answer = await self._tell(worker, "/evict", instance, {}, limit_s=_LIFE_S)
            if answer.outcome is Outcome.SUCCEEDED:
                return
        await self._stop(worker)  # it takes the others with it, and they are told

    async def died(self, instance: str) -> str:
        worker = self._of(instance)
        reason = await worker.child.why()
        return worker.ended_for or reason

    async def answers(self, instance: str) -> bool:
        http = self._of(instance).http
        reply = await http.send(Request(url="http://worker/health", timeout_s=_LIFE_S))
        return reply.outcome is Outcome.SUCCEEDED

    async def call(self, instance: str, request: Any, *, timeout_s: Seconds) -> Said:
        """Ask it; this ends when the worker has, or is ended, so that no more are at work than asked."""
        worker = self._of(instance)
        try:
            content = json.dumps({"instance": instance, "request": request}).encode()
        except (TypeError, ValueError, RecursionError) as error:
            return Said(outcome=Outcome.FAILED, reason=f"the request is no JSON: {error}")
        asking = self._begin(worker, "/call", instance, content)
        try:
            return await _within(asking, timeout_s)
        finally:
            if not asking.done():
                await _to_its_end(asyncio.ensure_future(self._see_out(worker, asking)))

    async def close(self) -> None:
        if self._worker is not None:
            await self._stop(self._worker)

    # -- the worker -----------------------------------------------------------------

    def _of(self, instance: str) -> _Worker:
        if self._worker is None or instance not in self._worker.instances:
            raise Unavailable(f"instance {instance} is gone")
        return self._worker

    async def _start(self) -> _Worker:
        settings = self._settings
        if self._worker is not None:
            await self._stop(self._worker)
        name = f"{self._name}-{next(self._numbers)}"
        folder = tempfile.mkdtemp(prefix="arl-tangram-torch-")  # nobody else can look into it
        socket = f"{folder}/s"
        every = range(self._devices.count)
        path = os.pathsep.join([*settings.path, *filter(None, sys.path)])
        what = {
            "socket": socket,
            "module": settings.module,
            "arguments": settings.arguments,
        }
        try:
            child = await Child.start(
                (sys.executable, "-m", f"{__package__}.torch_worker", json.dumps(what)),
                variables={
                    "PYTHONPATH": path,
                    **self._devices.variables(every, name),
                    **settings.variables,
                },
                folder=folder,
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        http = HttpClient(socket=socket, secure=False)
        worker = self._worker = _Worker(name=name, child=child, http=http)
        try:
            await _until_ready(worker)
            worker.ready = True
        except BaseException:  # half a worker is of no use to whoever comes next
            await self._stop(worker)
            raise
        return worker

    async def _stop(self, worker: _Worker) -> None:
        if self._worker is worker:
            self._worker = None
        await worker.child.kill()
        await worker.http.close()
        self._devices.left(worker.name)
        if unfinished := set(worker.at_work):
            await asyncio.wait(unfinished, timeout=_LIFE_S)  # it breaks off with the worker

    async def _tell(
        self,
        worker: _Worker,
        path: str,
        instance: str,
        more: Mapping[str, Any],
        *,
        limit_s: Seconds = _STEP_S,
    ) -> Said:
        """Have an instance brought up or taken down; `end` waits for what is given up here."""
        content = json.dumps({"instance": instance, **more}).encode()
        return await _within(self._begin(worker, path, instance, content), limit_s)

    def _begin(self, worker: _Worker, path: str, instance: str, content: bytes) -> _Asking:
        """Let the worker do something; the exchange is over when that is."""
        request = Request(
            url=f"http://worker{path}",
            method="POST",
            content=content,
            timeout_s=_EVER_S,
            body_limit_bytes=self._settings.reply_limit_bytes,
        )
        asking = asyncio.get_running_loop().create_task(worker.http.send(request))
        worker.at_work[asking] = instance
        asking.add_done_callback(worker.at_work.pop)
        return asking

    async def _see_out(self, worker: _Worker, asking: _Asking) -> None:
        """Wait until a call that nobody waits for is over, and end the worker if it is not in time."""
        overtime_s = self._settings.overtime_s
        await asyncio.wait({asking}, timeout=overtime_s)
        if not asking.done():
            worker.ended_for = f"it was ended: a call went on {overtime_s:g} s after its time"
            await self._stop(worker)


async def _within(asking: _Asking, limit_s: Seconds) -> Said:
    """How an exchange ended, which goes on if this does not wait for it any more."""
    await asyncio.wait({asking}, timeout=limit_s)
    if not asking.done():
        return Said(outcome=Outcome.TIMED_OUT, reason=f"no full reply within {limit_s:g} s")
    return said(asking.result())


async def _to_its_end(ending: asyncio.Future[None]) -> None:
    """Wait for it however often this task is cancelled meanwhile; that is raised afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.wait({ending})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    ending.result()


async def _until_ready(worker: _Worker) -> None:
    """Wait until a worker answers. Raises `Unavailable` if it ends instead."""
    request = Request(url="http://worker/health", timeout_s=_LIFE_S)
    while (await worker.http.send(request)).outcome is not Outcome.SUCCEEDED:
        if not worker.child.alive:
            raise Unavailable(await worker.child.why())
        await asyncio.sleep(0.02)
