"""Whose fault it is that a call's program ended, and what no device here could ever hold."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import arl_tangram as at


def run(body: Callable[[at.Tangram], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), at.Tangram.local(gpus=1, gpu_memory="8MiB") as tangram:
            await body(tangram)

    asyncio.run(main())


def test_a_call_whose_program_was_killed_is_lost_and_tried_again(tmp_path: Path) -> None:
    async def body(tangram: at.Tangram) -> None:
        once = f"test -e {tmp_path}/x && exec cat; touch {tmp_path}/x; kill -9 $$"
        tangram.service("a", driver="command", call=["sh", "-c", once])
        answer = await tangram.call("a", "abc")
        assert ("abc", 2) == (answer.check().value, answer.attempts)

    run(body)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"host_memory": "100TiB"}, r"services\.a\.host_memory: 104857600 MiB, and this machine"),
        ({"gpu_model": "H9000"}, r"services\.a\.gpu_model='H9000': the devices here are"),
    ],
)
def test_what_no_device_here_could_hold_is_refused_when_declared(
    options: dict[str, Any], says: str
) -> None:
    async def body(tangram: at.Tangram) -> None:
        with pytest.raises(at.ConfigError, match=says):
            tangram.service("a", driver="command", call=["cat"], **options)

    run(body)
