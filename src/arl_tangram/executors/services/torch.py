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
from pathlib import Path
from typing import Any

from ...core.model import Outcome, Seconds
from ...errors import Unavailable
from ..api import HttpClient, Request
from .child import Child
from .devices import Devices
from .openai import said
from .port import Said, Seat

_STEP_S = 300.0  # whoever asked sets a shorter limit
_LIFE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchSettings:
    """What to load.

    Attributes:
        module: ``"package:function"``; the function returns a `torch.nn.Module` on the CPU.
        arguments: keyword arguments of the function.
        path: folders to import from, besides those of this process.
        probe: a request that must succeed before an instance is ready.
        variables: environment variables of the worker.
    """

    module: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    probe: Any = None
    variables: Mapping[str, str] = field(default_factory=dict)
    reply_limit_bytes: int = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class _Worker:
    """The process that holds the host copy, and the instances it has on devices."""

    name: str
    folder: Path
    child: Child
    http: HttpClient
    instances: set[str] = field(default_factory=set)


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
        return self._worker is not None and self._worker.child.alive

    async def restore(self, seat: Seat) -> None:
        async with self._starting:
            worker = self._worker
            if worker is None or not worker.child.alive:
                worker = await self._start()
        worker.instances.add(seat.instance)
        where = {"instance": seat.instance, "devices": seat.devices, "mib": seat.device_mib}
        answer = await self._ask(worker, "/restore", where)
        if answer.outcome is Outcome.SUCCEEDED and self._settings.probe is not None:
            answer = await self.call(seat.instance, self._settings.probe, timeout_s=_STEP_S)
        if answer.outcome is not Outcome.SUCCEEDED:
            if not worker.child.alive:
                raise Unavailable(await worker.child.why())
            raise Unavailable(f"it could not be put on devices {seat.devices}: {answer.reason}")

    async def evict(self, instance: str) -> None:
        worker = self._of(instance)
        answer = await self._ask(worker, "/evict", {"instance": instance})
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
        answer = await self._ask(worker, "/evict", {"instance": instance}, limit_s=_LIFE_S)
        if answer.outcome is not Outcome.SUCCEEDED:
            await self._stop(worker)  # it takes the others with it, and they are told

    async def died(self, instance: str) -> str:
        return await self._of(instance).child.why()

    async def answers(self, instance: str) -> bool:
        http = self._of(instance).http
        reply = await http.send(Request(url="http://worker/health", timeout_s=_LIFE_S))
        return reply.outcome is Outcome.SUCCEEDED

    async def call(self, instance: str, request: Any, *, timeout_s: Seconds) -> Said:
        worker = self._of(instance)
        body = {"instance": instance, "request": request}
        return await self._ask(worker, "/call", body, limit_s=timeout_s)

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
        folder = Path(tempfile.mkdtemp(prefix="arl-tangram-torch-"))
        every = range(self._devices.count)
        path = os.pathsep.join([*settings.path, *filter(None, sys.path)])
        what = {
            "socket": str(folder / "s"),
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
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        http = HttpClient(socket=str(folder / "s"), secure=False)
        worker = self._worker = _Worker(name=name, folder=folder, child=child, http=http)
        try:
            await _until_ready(worker)
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
        shutil.rmtree(worker.folder, ignore_errors=True)

    async def _ask(
        self, worker: _Worker, path: str, body: Any, *, limit_s: Seconds = _STEP_S
    ) -> Said:
        try:
            content = json.dumps(body).encode()
        except (TypeError, ValueError) as error:
            return Said(outcome=Outcome.FAILED, reason=f"the request is no JSON: {error}")
        request = Request(
            url=f"http://worker{path}",
            method="POST",
            content=content,
            timeout_s=limit_s,
            body_limit_bytes=self._settings.reply_limit_bytes,
        )
        return said(await worker.http.send(request))


async def _until_ready(worker: _Worker) -> None:
    """Wait until a worker answers. Raises `Unavailable` if it ends instead."""
    request = Request(url="http://worker/health", timeout_s=_LIFE_S)
    while (await worker.http.send(request)).outcome is not Outcome.SUCCEEDED:
        if not worker.child.alive:
            raise Unavailable(await worker.child.why())
        await asyncio.sleep(0.02)
