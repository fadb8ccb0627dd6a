"""A Tangram over a host without processes: everything but the executor is real."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from arl_tangram.core.model import CPU, MEMORY, Node, NodeId
from arl_tangram.runtime.tangram import Tangram
from arl_tangram.testing.scripted_host import ScriptedHost

Body = Callable[[Tangram, ScriptedHost], Coroutine[Any, Any, None]]


@pytest.fixture
def scripted() -> Callable[..., None]:
    """Runs a test's body with an open Tangram of two cores and its scripted host."""

    def run(body: Body, *, cpus: int = 2, host: ScriptedHost | None = None, **options: Any) -> None:
        async def main() -> None:
            the_host = host or ScriptedHost()
            node = Node(id=NodeId("n0"), capacity={CPU: cpus * 1000, MEMORY: 4096})
            async with (
                asyncio.timeout(60),
                Tangram(node=node, host=lambda: the_host, **options) as tangram,
            ):
                await body(tangram, the_host)
            assert {} == the_host.sandboxes
            assert {asyncio.current_task()} == asyncio.all_tasks()

        asyncio.run(main())

    return run
