"""A start that nobody waits for any more is ended for whoever needs its devices."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import arl_tangram as at
from arl_tangram.core.events import Event, InstanceFailed
from arl_tangram.runtime.observers import Observer

pytestmark = pytest.mark.slow

SILENT = (
    "import socket, time; s = socket.create_server(('127.0.0.1', {port})); "
    "s.listen(); time.sleep(1000)"
)
JUDGE: dict[str, Any] = {
    "driver": "command",
    "start": ["sleep", "1000"],
    "call": ["cat"],
    "memory": "6MiB",
}


def stuck(driver: str, folder: Path) -> dict[str, Any]:
    """A service that never gets ready, and that leaves a file behind once it has begun."""
    begun = folder / "begun"
    if driver == "command":
        tries = ["sh", "-c", f"touch {begun}; false"]
        return {**JUDGE, "ready": tries}
    program = f"open({str(begun)!r}, 'w').close(); {SILENT}"
    command = [sys.executable, "-c", program]
    return {"driver": "openai", "command": command, "memory": "6MiB"}


async def until(path: Path) -> None:
    async with asyncio.timeout(30):
        while not path.exists():  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("driver", ["command", "openai"])
def test_a_start_that_nobody_waits_for_makes_room(driver: str, tmp_path: Path) -> None:
    others = set(psutil.Process().children(recursive=True))

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            at.Tangram.local(gpus=1, gpu_memory="8MiB") as tangram,
        ):
            tangram.service("stuck", **stuck(driver, tmp_path))
            tangram.service("judge", **JUDGE)
            given_up = asyncio.create_task(tangram.call("stuck", {}))
            await until(tmp_path / "begun")
            children = set(psutil.Process().children(recursive=True)) - others
            assert children
            given_up.cancel()
            answer = await tangram.call("judge", {"x": 1})
            assert (at.Outcome.SUCCEEDED, {"x": 1}) == (answer.outcome, answer.value)
            assert [] == [child for child in children if child.is_running()]

    asyncio.run(main())


def test_who_waits_for_devices_is_told_who_is_on_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(60),
            at.Tangram.local(gpus=1, gpu_memory="8MiB") as tangram,
        ):
            tangram.service("stuck", **stuck("command", tmp_path))
            tangram.service("judge", **JUDGE)
            waiting = [asyncio.create_task(tangram.call("stuck", {}))]
            await until(tmp_path / "begun")
            waiting.append(asyncio.create_task(tangram.call("judge", {"x": 1}, id="b")))
            await asyncio.sleep(0.1)
            why = (await tangram.explain("b")).waits_for
            assert why.startswith("devices for an instance of judge (stuck#1 being restored for ")

    asyncio.run(main())


class Failures(Observer):
    def __init__(self) -> None:
        self.names: asyncio.Queue[str] = asyncio.Queue()

    def happened(self, event: Event, commands: Any) -> None:
        if isinstance(event, InstanceFailed):
            self.names.put_nowait(event.instance)


def test_instances_that_share_a_worker_which_never_starts_all_have_their_time(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch", reason="torch: PyTorch is not installed")
    (tmp_path / "stuck.py").write_text("import time\ndef model(): time.sleep(1000)\n")
    seen = Failures()

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            at.Tangram.local(gpus=2, gpu_memory="8MiB", observers=[seen]) as tangram,
        ):
            settings = {"module": "stuck:model", "path": str(tmp_path), "memory": "6MiB"}
            tangram.service("stuck", driver="torch", start_timeout="1s", **settings)
            calls = [asyncio.create_task(tangram.call("stuck", {}))]
            await asyncio.sleep(0.5)  # the worker is on its way
            calls += [asyncio.create_task(tangram.call("stuck", {})) for _ in range(8)]
            failed = {await seen.names.get() for _ in range(3)}
            assert {"stuck#1", "stuck#2"} < failed
            for call in calls:
                call.cancel()

    asyncio.run(main())
