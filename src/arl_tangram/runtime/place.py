"""What stands behind an environment: opens its sandbox, runs commands there, closes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from ..core.commands import OpenEnvironment
from ..core.events import EnvironmentClosed, EnvironmentFailed, EnvironmentOpened
from ..core.model import CPU, Environment, Lease, NodeId, Outcome
from ..errors import (
    InternalError,
    InvalidAction,
    RequestError,
    TangramError,
    Unavailable,
    UnknownEnvironment,
)
from ..executors.port import Completion, CpuGrant, EnvironmentSpec, Host, Invocation, Sandbox
from .driver import Driver

log = logging.getLogger(__name__)


class SandboxPlace:
    """One environment, from its request until it is gone.

    Its commands run on what their leases hold, unless the environment owns cores for life: then
    they share those.
    """

    def __init__(
        self,
        environment: Environment,
        spec: EnvironmentSpec,
        *,
        hosts: Mapping[NodeId, Host],
        driver: Driver,
    ) -> None:
        self.environment = environment
        self.enforcement = ""
        self.node: NodeId | None = None
        self._spec = spec
        self._hosts = hosts
        self._driver = driver
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._opening: asyncio.Task[Sandbox] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._sandbox: Sandbox | None = None
        self._why_gone: TangramError | None = None
        self._requested = False
        self._attempt = 0
        self._cores: tuple[int, ...] = ()
        self._sharing: list[str] = []  # runs that share the cores it owns, oldest first

    # -- what its user does -------------------------------------------------------------------

    async def open(self) -> None:
        """Ask for it and wait until it can be used.

        Raises `InvalidAction` if no node could ever hold it, `Unavailable` if it could not be made.
        """
        if self._gone.done():
            raise self._why_gone or UnknownEnvironment(
                f"environment {self.environment.id} was closed; make another one"
            )
        if not self._requested:
            self._requested = True
            self._driver.request(self)
        try:
            await asyncio.shield(self._opened)
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """Let it go, and wait until it is gone with all that was in it; idempotent."""
        if not self._requested:
            return
        self._driver.release(self.environment.id)
        await asyncio.shield(self._gone)

    def require_open(self) -> Sandbox:
        """Its sandbox; raises why it is gone, or `UnknownEnvironment` if it is not open."""
        if self._why_gone is not None:
            raise self._why_gone
        if self._sandbox is None or self._closing is not None:
            raise UnknownEnvironment(f"environment {self.environment.id} is not open")
        return self._sandbox

    # -- commands in it -----------------------------------------------------------------------

    async def run(
        self, _lease: Lease, run_id: str, invocation: Invocation, grant: CpuGrant
    ) -> Completion:
        return await self.hold(run_id, grant, partial(self.require_open().run, run_id, invocation))

    async def hold(
        self, run_id: str, grant: CpuGrant, run: Callable[[CpuGrant], Awaitable[Completion]]
    ) -> Completion:
        """Run something on its grant, or on its share of the cores the environment owns."""
        if not self._owned_milli:
            return await run(grant)
        self._sharing.append(run_id)
        self._share()
        try:
            return await run(self._fair_share())
        finally:
            self._sharing.remove(run_id)
            self._share()

    def resize(self, run_id: str, grant: CpuGrant) -> None:
        if self._sandbox is not None:
            self._sandbox.resize(run_id, grant)

    def stop(self, run_id: str) -> bool:
        if self._sandbox is None:
            return False
        self._sandbox.stop(run_id)
        return True

    def broke(self, reason: str) -> None:
        if self._closing is None:
            self._driver.feed(
                EnvironmentFailed(
                    at=self._driver.now(),
                    environment=self.environment.id,
                    attempt=self._attempt,
                    reason=reason,
                )
            )

    @property
    def _owned_milli(self) -> int:
        return self.environment.needs.get(CPU, 0)

    def _fair_share(self) -> CpuGrant:
        milli = max(self._owned_milli // len(self._sharing), 1)
        return CpuGrant(milli=milli, cores=self._cores, most_milli=milli)

    def _share(self) -> None:
        for run_id in self._sharing:
            self.resize(run_id, self._fair_share())

    # -- what the driver does -----------------------------------------------------------------

    def make(self, command: OpenEnvironment) -> None:
        self.node, self._cores = command.node, command.cores
        self._attempt = command.attempt
        host = self._hosts[command.node]
        self.enforcement = host.describe()["enforcement"]
        self._opening = task = self._loop.create_task(host.open(self._spec))
        task.add_done_callback(partial(self._was_made, command.attempt))

    def unmake(self) -> None:
        self._closing = task = self._loop.create_task(self._close())
        task.add_done_callback(self._was_unmade)

    def resolve(self, outcome: Outcome, reason: str) -> None:
        kinds = {Outcome.REJECTED: InvalidAction, Outcome.CANCELLED: UnknownEnvironment}
        self._give_up(kinds.get(outcome, Unavailable)(reason))
        if self._sandbox is None and self._opening is None:
            self._finish()  # nothing was made, so there is nothing to close

    def abandon(self) -> None:
        if self._why_gone is not None and self._closing is None:
            self.unmake()

    def fail(self, error: BaseException) -> None:
        self._give_up(InternalError(f"scheduling stopped: {error!r}"))
        self._finish()

    def _give_up(self, error: TangramError) -> None:
        self._why_gone = error
        if not self._opened.done():
            self._opened.set_exception(error)
            self._opened.exception()  # nobody may be waiting any more

    def _was_made(self, attempt: int, task: asyncio.Task[Sandbox]) -> None:
        if task is not self._opening:
            return
        self._opening = None
        if task.cancelled():
            failure = "the opening was cancelled"
        elif (error := task.exception()) is None:
            self._sandbox = task.result()
            if self._closing is not None:
                return
            self._driver.feed(
                EnvironmentOpened(
                    at=self._driver.now(), environment=self.environment.id, attempt=attempt
                )
            )
            if not self._opened.done():
                self._opened.set_result(None)
            return
        elif isinstance(error, RequestError):  # another try would end no better
            self._give_up(error)
            self._driver.release(self.environment.id)
            return
        elif isinstance(error, Unavailable):
            failure = str(error)
        else:
            failure = f"the host broke: {error!r}"
            log.error("the host broke", exc_info=error, extra={"action": "open_environment"})
        self.broke(failure)

    async def _close(self) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening])
        if self._sandbox is not None:
            await self._sandbox.close()

    def _was_unmade(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("could not close", exc_info=error, extra={"action": "close_environment"})
        self._sandbox = None
        self._driver.feed(EnvironmentClosed(at=self._driver.now(), environment=self.environment.id))
        self._finish()

    def _finish(self) -> None:
        self._driver.forget(self.environment.id)
        if not self._opened.done():
            self._give_up(UnknownEnvironment(f"environment {self.environment.id} was closed"))
        if not self._gone.done():
            self._gone.set_result(None)
