"""Leases: resources for code of one's own, handed over and given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from arl_tangram.core.commands import Command, Start
from arl_tangram.core.events import Event
from arl_tangram.core.model import Action, Outcome
from arl_tangram.errors import ActionCancelled, ActionRejected, InvalidAction
from arl_tangram.runtime.observers import Observer
from arl_tangram.runtime.results import Timing
from arl_tangram.runtime.tangram import Tangram
from arl_tangram.testing.scripted_host import ScriptedHost

Scripted = Callable[..., None]


class Finished(Observer):
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def finished(self, action: Action, outcome: Outcome, timing: Timing) -> None:
        self.outcomes.append(outcome)


def test_a_lease_holds_its_cores_until_the_block_ends(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.lease(cpus=2) as lease:
            assert (2.0, (0, 1)) == (lease.cpus, lease.cores)
            waiting = tangram.submit("true")
            assert "queued" == waiting.phase
        assert (0.0, ()) == (lease.cpus, lease.cores)
        assert (await waiting).ok

    scripted(body)


def test_a_lease_is_entered_once(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        lease = tangram.lease(cpus=1)
        async with lease:
            with pytest.raises(InvalidAction, match="entered once"):
                await lease.__aenter__()
            assert 1.0 == lease.cpus
        with pytest.raises(InvalidAction, match="entered once"):
            await lease.__aenter__()
        async with tangram.lease(cpus=2):
            pass

    scripted(body)


def test_leases_wait_for_one_another(scripted: Scripted) -> None:
    order: list[str] = []

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async def use(name: str) -> None:
            async with tangram.lease(cpus=2):
                order.append(f"{name} in")
                await asyncio.sleep(0.001)
                order.append(f"{name} out")

        await asyncio.gather(use("a"), use("b"), use("c"))

    scripted(body)
    assert ["a in", "a out", "b in", "b out", "c in", "c out"] == order


def test_a_wide_lease_grows_and_shrinks_if_its_code_can(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.lease(cpus=(1, 8), resizable=True) as wide:
            assert 2.0 == wide.cpus
            async with tangram.lease(cpus=1):
                assert 1.0 == wide.cpus
            assert 2.0 == wide.cpus

    scripted(body)


def test_giving_up_while_waiting_leaves_nothing(scripted: Scripted) -> None:
    finished = Finished()

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.lease(cpus=2):
            waiting = asyncio.create_task(tangram.lease(cpus=2).__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            granted = asyncio.create_task(tangram.lease(cpus=2).__aenter__())
            await asyncio.sleep(0)
        granted.cancel()  # it was granted, but has not noticed yet
        with pytest.raises(asyncio.CancelledError):
            await granted
        async with tangram.lease(cpus=2):
            pass

    scripted(body, observers=[finished])
    cancelled, succeeded = Outcome.CANCELLED, Outcome.SUCCEEDED
    assert [cancelled, succeeded, cancelled, succeeded] == finished.outcomes


def test_what_the_block_raises_is_how_it_ended(scripted: Scripted) -> None:
    finished = Finished()

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        for error in (KeyError("x"), asyncio.CancelledError()):
            with pytest.raises(type(error)):
                async with tangram.lease():
                    raise error

    scripted(body, observers=[finished])
    assert [Outcome.FAILED, Outcome.CANCELLED] == finished.outcomes


def test_a_lease_that_can_never_be_is_refused(scripted: Scripted) -> None:
    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        with pytest.raises(ActionRejected, match="cpus=3,"):
            async with tangram.lease(cpus=3):
                pass
        with pytest.raises(ActionRejected, match="memory=8192MiB"):
            async with tangram.lease(memory="8GiB"):
                pass
        with pytest.raises(InvalidAction, match="cpus=0"):
            tangram.lease(cpus=0)

    scripted(body)


class Started(Observer):
    def __init__(self) -> None:
        self.actions: list[str] = []

    def happened(self, event: Event, commands: Sequence[Command]) -> None:
        self.actions += [c.lease.action for c in commands if isinstance(c, Start)]


def test_closing_takes_leases_away_and_starts_none_that_wait(scripted: Scripted) -> None:
    started = Started()

    async def body(tangram: Tangram, host: ScriptedHost) -> None:
        async with tangram.lease(cpus=2) as held:
            waiting = asyncio.create_task(tangram.lease(cpus=2).__aenter__())
            await asyncio.sleep(0)
            await tangram.close()

            assert (True, 0.0) == (held.revoked, held.cpus)
            with pytest.raises(ActionCancelled):
                await waiting

    scripted(body, observers=[started])
    assert 1 == len(started.actions)
