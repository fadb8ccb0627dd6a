"""A command as the work behind an action: runs its attempts where they are to run."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Protocol

from ..core.model import MILLI, Action, Lease, Outcome, Seconds
from ..errors import ConfigError, InternalError, Unavailable
from ..executors.port import Completion, CpuGrant, Invocation
from .account import Account
from .driver import Driver
from .results import Result, Usage

log = logging.getLogger(__name__)

_NEVER_RAN = Completion(outcome=Outcome.LOST)


class Room(Protocol):
    """Where the attempts of a command run: an environment, a shell in one, or a fresh one each."""

    enforcement: str

    async def run(
        self, lease: Lease, run_id: str, invocation: Invocation, grant: CpuGrant
    ) -> Completion:
        """As `Sandbox.run`."""

    def resize(self, run_id: str, grant: CpuGrant) -> None:
        """As `Sandbox.resize`."""

    def stop(self, run_id: str) -> bool:
        """As `Sandbox.stop`; False if the command has not begun, so that there is no output."""

    def broke(self, reason: str) -> None:
        """It cannot run anything any more."""


class CommandWork:
    """One command line, from its submission to its result.

    Args:
        most_milli: what it may grow to on the largest node.
    """

    def __init__(
        self,
        action: Action,
        invocation: Invocation,
        *,
        room: Room,
        driver: Driver,
        most_milli: int,
    ) -> None:
        self.action = action
        self.result: Result | None = None
        self._error: BaseException | None = None
        # One future for each who waits, so that none can cancel another's, and each is woken at
        # once; `asyncio.shield` would take another turn of the loop.
        self._waiters: set[asyncio.Future[None]] = set()
        self.invocation = invocation
        self._room = room
        self._driver = driver
        self._most_milli = most_milli
        self._task: asyncio.Task[None] | None = None
        self._begun = False
        self._completion = _NEVER_RAN
        self._account = Account(driver.now())

    @property
    def submitted_at(self) -> Seconds:
        """When it was submitted, on the driver's clock."""
        return self._account.submitted_at

    def submit(self) -> None:
        """Hand it to the driver."""
        self._driver.submit(self, self._account.submitted_at)

    async def wait(self) -> Result:
        """Wait for the result; cancelling this cancels nothing else."""
        if self.result is None and self._error is None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
        if self.result is None:
            raise self._error or InternalError("woken without a result")
        return self.result

    def start(self, lease: Lease, at: Seconds) -> None:
        self._drop_task()
        self._account.started(lease, at)
        self._completion = _NEVER_RAN
        self._begun = False
        self._task = asyncio.get_running_loop().create_task(self._run(lease))
        # A callback and not try/finally in the coroutine: a task cancelled before its first step
        # never enters its body, and its lease would never come back.
        self._task.add_done_callback(partial(self._left, lease))

    def resize(self, lease: Lease, at: Seconds) -> None:
        self._account.resized(lease, at)
        self._room.resize(_run_id(lease), self._grant(lease))

    def stop(self, lease: Lease) -> None:
        if self._task is not None and not (self._begun and self._room.stop(_run_id(lease))):
            self._task.cancel()

    def resolve(self, outcome: Outcome, reason: str, at: Seconds) -> None:
        self._drop_task()
        done, account = self._completion, self._account
        ran = done is not _NEVER_RAN
        timing = account.timing(at, done.run_s if ran else None)
        self._driver.observers.finished(self.action, outcome, timing)
        self.result = Result(
            id=self.action.id,
            outcome=outcome,
            timing=timing,
            exit_code=done.exit_code,
            raw_stdout=done.stdout,
            raw_stderr=done.stderr,
            stdout_bytes=done.stdout_bytes,
            stderr_bytes=done.stderr_bytes,
            truncated=done.truncated,
            reason=reason or done.reason,
            usage=Usage(done.cpu_s, done.peak_memory_bytes, account.unit_s()),
            grants=account.grants(),
            attempts=account.attempts,
            node=account.lease.node if account.lease else "",
            enforcement=self._room.enforcement if ran else "",
            state_survived=done.state_survived,
        )
        self._wake()

    def fail(self, error: BaseException) -> None:
        self._error = InternalError(f"scheduling stopped: {error!r}")
        self._wake()
        self._drop_task()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _run(self, lease: Lease) -> None:
        self._begun = True
        held = self._account.lease or lease  # it may have been resized before this first step
        run_id, grant = _run_id(lease), self._grant(held)
        completion = await self._room.run(lease, run_id, self.invocation, grant)
        if self._task is asyncio.current_task():
            self._completion = completion
            self._ended(lease, completion.outcome, completion.reason)

    def _drop_task(self) -> None:
        """Let go of an attempt that was lost with its node, if one is still at it."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _grant(self, lease: Lease) -> CpuGrant:
        milli = lease.grant.cpu_milli
        elastic = self.action.elastic
        most = milli
        if elastic is not None and elastic.resizable:
            most = max(milli, min(elastic.most * MILLI, self._most_milli))
        return CpuGrant(milli=milli, cores=lease.grant.cores, most_milli=most)

    def _ended(self, lease: Lease, outcome: Outcome, reason: str) -> None:
        self._task = None
        at = self._driver.now()
        self._account.ended(at)
        self._driver.exited(lease, outcome, at, reason)

    def _left(self, lease: Lease, task: asyncio.Task[None]) -> None:
        """The attempt's task is over; it may have raised, or never have begun."""
        if self._task is not task:  # it has had its say
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("after the end of %s", lease.action, exc_info=error)
            return
        if task.cancelled():
            self._ended(lease, Outcome.CANCELLED, "was cancelled")
        elif isinstance(error := task.exception(), Unavailable):
            self._ended(lease, Outcome.LOST, str(error))
            self._room.broke(str(error))
        elif isinstance(error, ConfigError):  # what was right when it was asked for is so no more
            self._ended(lease, Outcome.REJECTED, str(error))
        else:
            log.error(
                "the executor broke on %s",
                lease.action,
                exc_info=error,
                extra={"action": "executor_broke"},
            )
            self._ended(lease, Outcome.LOST, f"the executor broke: {error!r}")


def _run_id(lease: Lease) -> str:
    return f"{lease.action}.{lease.attempt}"
