"""The wardens of one environment: those that wait for work and those that watch a background."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection
from concurrent.futures import Executor

from ..errors import Unavailable
from .inside import frames
from .runner import Runner
from .warden import Warden

FAREWELL_S = 1.0
"""How long after its wardens the first process of an environment may be seen to end."""
ANSWER_S = 1.0


class Wardens:
    """Args:
    name: the environment, for messages.
    runner: its first process.
    offload: runs what may block.
    """

    def __init__(self, name: str, *, runner: Runner, offload: Executor) -> None:
        self._name = name
        self._runner = runner
        self._offload = offload
        self._idle: list[Warden] = []
        self._lingering: set[Warden] = set()

    @property
    def background(self) -> frozenset[Warden]:
        """Those that watch over what was left in the background."""
        return frozenset(self._lingering)

    async def take(self) -> Warden:
        """One that is ready for work, made if there is none."""
        while self._idle:
            warden = self._idle.pop()
            if await warden.ready and warden.alive:
                return warden
        return await self.make()

    async def make(self) -> Warden:
        """A new one, when it is ready; raises `Unavailable` if it cannot be made."""
        warden = self._order()
        try:
            ready = await warden.ready
        except BaseException:
            warden.close()
            raise
        if not ready:
            raise Unavailable(f"environment {self._name} {self._runner.trouble()}")
        return warden

    def give_back(self, warden: Warden) -> None:
        """It is ready for other work."""
        self._lingering.discard(warden)
        self._idle.append(warden)

    def retire(self, warden: Warden) -> None:
        """It has processes to watch over from now on."""
        self._lingering.add(warden)

    def relieve(self, warden: Warden) -> None:
        """It has none to watch over any more."""
        self._lingering.discard(warden)

    def keep_one_ready(self) -> None:
        """Have one made, without waiting for it, if none is left for the next command."""
        if not self._idle:
            self._idle.append(self._order())

    async def mourn(self) -> None:
        """One was lost: have its remains ended, and learn whether its environment lives."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._offload, self._runner.end_orphans)
        try:
            self._idle.append(await self.make())
        except Unavailable:
            await self._runner.death(FAREWELL_S)

    async def look_after(self, wardens: Collection[Warden]) -> None:
        """Learn which of these, which are not at work, still have processes to watch over."""
        asked = {w.order("still"): w for w in wardens if w in self._lingering}
        if asked:
            await asyncio.wait(asked, timeout=ANSWER_S)
        for answer, warden in asked.items():
            if answer.done() and (told := answer.result()) and not told.flags & frames.LEFT:
                self._lingering.discard(warden)

    async def dismiss(self, warden: Warden) -> None:
        """End one and everything it answers for."""
        if warden.alive and not self._runner.died:
            warden.tell("end")
            await asyncio.wait([warden.gone], timeout=ANSWER_S)
        warden.close()

    def close(self) -> None:
        """Let go of all that are not at work."""
        for warden in (*self._idle, *self._lingering):
            warden.close()

    def _order(self) -> Warden:
        host, inside = socket.socketpair()
        warden = Warden(host, on_end=self._ended)
        with inside:
            self._runner.make_warden(inside)
        return warden

    def _ended(self, warden: Warden) -> None:
        self._lingering.discard(warden)
        if warden in self._idle:
            self._idle.remove(warden)
