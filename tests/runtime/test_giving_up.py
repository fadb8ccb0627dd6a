"""A start that nobody waits for any more is ended for whoever needs its devices."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import arl_tangram as at

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
