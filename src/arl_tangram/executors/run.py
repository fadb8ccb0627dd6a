"""One command of an environment, from its grant to its end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ..core.model import Outcome
from .port import CpuGrant, Invocation
from .warden import Warden


@dataclass(slots=True, eq=False)
class Run:
    """One command on its way.

    Attributes:
        over: done when nothing of it is left to do.
        background: who watched over processes when it began.
        stopped: why it was told to end, if it was.
        pinned: whether its warden has put it on its cores.
        crowded: whether another command ran in its environment meanwhile.
        kills_before: how many processes had been killed for want of memory when it began.
    """

    grant: CpuGrant
    invocation: Invocation
    over: asyncio.Future[None]
    in_shell: bool = False
    shell_lost: bool = False
    warden: Warden | None = None
    background: frozenset[Warden] = frozenset()
    stopped: Outcome | None = None
    pinned: bool = False
    crowded: bool = False
    kills_before: int = 0
    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    def is_over(self) -> None:
        """Nothing more is done about it."""
        self.warden = None
        for timer in self.timers:
            timer.cancel()
