"""A submitted action, for whoever submitted it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

from ..core.model import ActionId, Explanation
from ..errors import UnknownAction
from .driver import Driver
from .finishing import to_the_end
from .results import Result
from .work import CommandWork


class Handle:
    """Await it, or its `result()`, for the result; cancelling that wait does not cancel the action."""

    def __init__(self, work: CommandWork, driver: Driver) -> None:
        self._work = work
        self._driver = driver

    def __repr__(self) -> str:
        return f"<Handle {self.id} {self.phase}>"

    def __await__(self) -> Generator[object, None, Result]:
        return self.result().__await__()

    @property
    def id(self) -> ActionId:
        """The id of the action."""
        return self._work.action.id

    @property
    def phase(self) -> str:
        """Where it is: ``queued``, ``running``, ``stopping`` or ``done``."""
        return self._explain().phase

    def cancel(self) -> None:
        """Let it end as cancelled, with all it started; ignored if it has ended."""
        self._driver.cancel(self.id)

    async def result(self) -> Result:
        """Wait for its end."""
        return await self._work.wait()

    async def explain(self) -> Explanation:
        """Where it is, what it waits for, behind whom, and since when."""
        return self._explain()

    def _explain(self) -> Explanation:
        done = Explanation(action=self.id, phase="done", since_s=self._work.submitted_at)
        if self._work.result is not None:
            return done
        try:
            return self._driver.explain(self.id)
        except UnknownAction:  # it ended in this very moment
            return done


async def to_its_end(handle: Handle) -> Result:
    """The result of an action that is nobody else's: it is cancelled if this task is."""
    try:
        return await handle.result()
    except asyncio.CancelledError:
        handle.cancel()
        await to_the_end(handle.result())
        raise
