"""Anybody who knows an action's id may ask what it waits for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from arl_tangram.core.model import Explanation
from arl_tangram.errors import InvalidAction, UnknownAction
from arl_tangram.runtime.tangram import Tangram
from arl_tangram.testing.scripted_host import ScriptedHost

Scripted = Callable[..., None]


async def as_soon_as_known(tangram: Tangram, action: str) -> Explanation:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(UnknownAction):
                return await tangram.explain(action)
            await asyncio.sleep(0)


def test_a_request_that_waits_for_a_token_says_so(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        tangram.quota("search", concurrency=1)
        async with tangram.lease(quota="search") as holder:
            asking = asyncio.create_task(
                tangram.fetch("search", "http://127.0.0.1:9/", id="first-search")
            )
            explanation = await as_soon_as_known(tangram, "first-search")
            assert "queued" == explanation.phase
            assert "1 tokens of api:search (0 free, 1 held)" == explanation.waits_for
            assert "running" == (await tangram.explain(holder.action.id)).phase
            asking.cancel()
            await asyncio.wait({asking})

        assert "done" == (await tangram.explain("first-search")).phase

    scripted(body)


def test_an_id_that_nobody_gave_is_named(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        with pytest.raises(UnknownAction, match="no action has the id 'nobody'"):
            await tangram.explain("nobody")

    scripted(body)


def test_a_port_that_there_is_not_is_refused_at_once(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        tangram.quota("search", concurrency=1)
        with pytest.raises(InvalidAction, match="99999"):
            await tangram.fetch("search", "http://127.0.0.1:99999/")

    scripted(body)
