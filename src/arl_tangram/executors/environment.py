"""One open environment on this machine: its commands, their grants and how they end."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

from ..core.model import MILLI, Outcome
from ..errors import ConfigError, Unavailable
from . import completion
from .files import Files
from .grants import grant_variables
from .group import Group
from .inside import frames
from .port import Completion, CpuGrant, EnvironmentSpec, FileEntry, Invocation
from .runner import Runner
from .shell import LocalShell
from .warden import Report, Warden, encode_environment

P = ParamSpec("P")
T = TypeVar("T")

ANSWER_S = 1.0
"""How long a warden may take to end what it runs before it is done from outside."""
HELP_S = 4.0
"""How long that may take before the whole environment is ended."""
ENDING_MILLI = 4000
"""What the environment may use while it is being ended."""
FREEZE_AFTER_S = 0.2
"""How long what is left in the background may take to finish before it is frozen."""
FAREWELL_S = 1.0
"""How long after its wardens the first process of an environment may be seen to end."""
BACKGROUND_MILLI = 10
"""What it may use until then."""


@dataclass(slots=True, eq=False)
class Run:
    """One command on its way."""

    grant: CpuGrant
    invocation: Invocation
    over: asyncio.Future[None]  # done when nothing of it is left to do
    in_shell: bool = False
    shell_lost: bool = False
    warden: Warden | None = None
    background: frozenset[Warden] = frozenset()  # who watched over processes when it began
    stopped: Outcome | None = None  # why it was told to end
    pinned: bool = False
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


class LocalSandbox:
    """An environment with a resident runner in a group of its own.

    Args:
        variables: the environment variables of every command.
        cpu_scale: real cores in one unit.
        pin: whether grants' cores are put into force.
        files: access to the workspace.
        offload: runs what may block.
        on_close: called once, when it has been closed.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        *,
        runner: Runner,
        group: Group,
        variables: Mapping[str, str],
        workspace: str,
        cpu_scale: float,
        pin: bool,
        limits: frozenset[str],
        files: Files,
        offload: Executor,
        on_close: Callable[[LocalSandbox], None],
    ) -> None:
        self.spec = spec
        self._loop = asyncio.get_running_loop()
        self._runner = runner
        self._group = group
        self._workspace = workspace
        self._scale = cpu_scale
        self._machine_milli = round(MILLI * (os.cpu_count() or 1) / cpu_scale)
        self._pin = pin
        self._limits = limits
        self._files = files
        self._offload = offload
        self._on_close = on_close
        self._runs: dict[str, Run] = {}
        self._idle: list[Warden] = []
        self._lingering: set[Warden] = set()
        self._oom_kills = 0
        self._frozen = False
        self._freeze_timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._base = encode_environment(variables)
        self._grant_variables: dict[tuple[int, int], dict[bytes, bytes]] = {}
        runner.on_death = self._runner_died

    async def prepare(self) -> None:
        """Have the first warden ready."""
        self._idle.append(await self.new_warden())

    # -- running ---------------------------------------------------------------------------------

    async def run(self, run_id: str, invocation: Invocation, grant: CpuGrant) -> Completion:
        def order(run: Run, warden: Warden) -> asyncio.Future[Report | None]:
            return warden.order(
                "run",
                self._command(invocation),
                {**self._granted(grant), **self._base, **encode_environment(invocation.variables)},
                self.folder(invocation),
                invocation.stdin,
                self.cores_to_pin(run),
                invocation.idle_timeout_s,
                invocation.output_limit_bytes,
            )

        run = self.new_run(invocation, grant)
        return await self.carry_out(run_id, run, take=self._take_warden, order=order)

    def new_run(self, invocation: Invocation, grant: CpuGrant, *, in_shell: bool = False) -> Run:
        """A command that is about to start."""
        return Run(grant, invocation, self._loop.create_future(), in_shell=in_shell)

    async def dismiss(self, warden: Warden) -> None:
        """End a warden and everything it answers for."""
        self._wake()
        if warden.alive and not self._runner.died:
            warden.tell("end")
            await asyncio.wait([warden.gone], timeout=ANSWER_S)
        warden.close()

    async def carry_out(
        self,
        run_id: str,
        run: Run,
        *,
        take: Callable[[], Awaitable[Warden]],
        order: Callable[[Run, Warden], asyncio.Future[Report | None]],
    ) -> Completion:
        """See a command through from its grant to its end.

        `take` finds the warden that is to do it, `order` gives that warden the order.
        """
        self._admit(run_id, run)
        try:
            run.warden = await take()
            if run.stopped is not None:  # told to stop before it could start
                self._give_back(run)
                return Completion(outcome=run.stopped, reason="was told to stop")
            report = order(run, run.warden)
            return await self._see_to_its_end(run, run.warden, report)
        finally:
            self._forget(run_id, run)

    def resize(self, run_id: str, grant: CpuGrant) -> None:
        if run := self._runs.get(run_id):
            run.grant = grant
            self._apply_grants()
            if run.pinned and run.warden and grant.cores:
                run.warden.tell("pin", grant.cores)

    def stop(self, run_id: str) -> None:
        if run := self._runs.get(run_id):
            self._end(run, Outcome.CANCELLED)

    async def shell(self) -> LocalShell:
        self._require_open()
        shell = LocalShell(self, variables=self._base)
        await shell.start()
        return shell

    def _admit(self, run_id: str, run: Run) -> None:
        self._require_open()
        if run_id in self._runs:
            raise ConfigError(f"run_id={run_id!r}: it is running already; give each run its own")
        self._wake()
        if not self._runs:
            self._group.start_peak()
        self._runs[run_id] = run
        run.background = frozenset(self._lingering)
        self._apply_grants()

    async def _take_warden(self) -> Warden:
        while self._idle:
            warden = self._idle.pop()
            if await warden.ready and warden.alive:
                return warden
        return await self.new_warden()

    async def new_warden(self) -> Warden:
        """Have the first process make a warden and wait until it is ready."""
        host, inside = socket.socketpair()
        warden = Warden(host, on_end=self._warden_ended)
        try:
            with inside:
                self._runner.make_warden(inside)
            ready = await warden.ready
        except BaseException:
            warden.close()
            raise
        if not ready:
            raise Unavailable(f"environment {self.spec.id} {self._runner.trouble()}")
        return warden

    async def _see_to_its_end(
        self, run: Run, warden: Warden, report: asyncio.Future[Report | None]
    ) -> Completion:
        invocation = run.invocation
        if invocation.timeout_s is not None:
            run.timers.append(
                self._loop.call_later(invocation.timeout_s, self._end, run, Outcome.TIMED_OUT)
            )
        try:
            ended = await report
        except asyncio.CancelledError:
            await self._end_for_good(run, warden)
            raise
        if ended is None:
            await self._find_out()
        return self._conclude(run, warden, ended)

    async def _find_out(self) -> None:
        """A warden was lost: learn whether the environment was, and let its remains be ended."""
        await self._loop.run_in_executor(self._offload, self._runner.end_orphans)
        try:
            self._idle.append(await self.new_warden())
        except Unavailable:
            await self._runner.death(FAREWELL_S)

    async def _end_for_good(self, run: Run, warden: Warden) -> None:
        """Wait until the command is gone, however often we are cancelled meanwhile."""
        self._end(run, Outcome.CANCELLED)
        report = warden.again()
        while not report.done():
            try:
                await asyncio.wait([report])
            except asyncio.CancelledError:
                continue
        if report.result() is None:
            await self._find_out()
        self._conclude(run, warden, report.result())

    def _conclude(self, run: Run, warden: Warden, report: Report | None) -> Completion:
        if report is not None and report.flags & frames.LEFT:
            self._lingering.add(warden)
        elif report is not None:
            self._lingering.discard(warden)
            self._give_back(run)
        run.shell_lost = report is None or bool(report.flags & frames.SHELL_LOST)
        peak = self._group.peak()
        kills = 0
        limit = self.spec.memory_mib
        if limit is not None and (report is None or report.status or run.stopped):
            now = self._group.oom_kills()
            kills, self._oom_kills = now - self._oom_kills, now
        return completion.conclude(
            report,
            run.invocation,
            completion.Circumstances(
                stopped=run.stopped,
                environment_died=self._runner.died,
                warden_trouble=warden.trouble,
                oom_kills=kills,
                background_lost=not run.background <= self._lingering,
                peak=peak,
                memory_limited="memory" in self._limits,
                memory_mib=limit,
            ),
        )

    def _give_back(self, run: Run) -> None:
        if run.warden and not run.in_shell:
            self._idle.append(run.warden)

    def _forget(self, run_id: str, run: Run) -> None:
        for timer in run.timers:
            timer.cancel()
        del self._runs[run_id]
        run.over.set_result(None)
        if not self._idle and self.usable:
            self._spare_warden()
        if self._runs:
            self._apply_grants(ended=True)
        elif self._lingering and self.usable:
            self._group.set_cpu(BACKGROUND_MILLI)
            self._freeze_timer = self._loop.call_later(FREEZE_AFTER_S, self._freeze)

    def _spare_warden(self) -> None:
        host, inside = socket.socketpair()
        warden = Warden(host, on_end=self._warden_ended)
        with inside:
            self._runner.make_warden(inside)
        self._idle.append(warden)

    # -- ending ----------------------------------------------------------------------------------

    def _end(self, run: Run, why: Outcome) -> None:
        if run.stopped is None:
            run.stopped = why
            if run.warden:
                run.warden.tell("kill")
                later = self._loop.call_later(ANSWER_S, self._end_from_outside, run)
                run.timers.append(later)

    def _end_from_outside(self, run: Run) -> None:
        # The warden is held up, by a crowd or because it was stopped: do its work for it.
        if run.warden:
            self._group.set_cpu(ENDING_MILLI)
            self._offload.submit(self._runner.end_below_warden, run.warden.pid, self._group)
            later = self._loop.call_later(HELP_S, self._end_everything, run)
            run.timers.append(later)

    def _end_everything(self, run: Run) -> None:
        # Only the end of the environment is sure to be the end of this command.
        if run.warden:
            self._runner.kill()
            run.warden.close()

    def _warden_ended(self, warden: Warden) -> None:
        self._lingering.discard(warden)
        if warden in self._idle:
            self._idle.remove(warden)

    def _runner_died(self) -> None:
        wardens = [*self._idle, *self._lingering]
        wardens += [run.warden for run in self._runs.values() if run.warden]
        for warden in wardens:
            warden.close()

    @property
    def usable(self) -> bool:
        """Whether it can run anything."""
        return self._closing is None and not self._runner.died

    def _require_open(self) -> None:
        if self._closing is not None:
            raise Unavailable(f"environment {self.spec.id} is closed")
        if self._runner.died:
            raise Unavailable(f"environment {self.spec.id} {self._runner.trouble()}")

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._freeze_timer:
            self._freeze_timer.cancel()
        if self._frozen:
            self._group.thaw()
        self._group.set_cpu(ENDING_MILLI)  # to die takes time too
        for run in self._runs.values():
            run.stopped = run.stopped or Outcome.CANCELLED
        await self._runner.end()
        self._runner_died()
        while self._runs:  # they still have to read how they ended
            await asyncio.wait([run.over for run in self._runs.values()])
        self._files.close()
        self._on_close(self)

    # -- grants ----------------------------------------------------------------------------------

    def _apply_grants(self, *, ended: bool = False) -> None:
        """Put the grants into force; `ended` says that they are what an ended run has left."""
        grants = [run.grant for run in self._runs.values()]
        self._group.set_cpu(round(sum(grant.milli for grant in grants) * self._scale))
        # Moving a group to other cores is dear, and takes its processes off those they were put on.
        if self._pin and not (ended and all(run.pinned for run in self._runs.values())):
            cores = {core for grant in grants for core in grant.cores}
            unpinned = any(not grant.cores for grant in grants)
            self._group.set_cores(() if unpinned else cores)

    def cores_to_pin(self, run: Run) -> tuple[int, ...]:
        """The cores its warden has to put it on; none if the group sees to it."""
        # Alone in its group, the group's cores are its own, and follow a resize at no cost.
        if not self._pin or (len(self._runs) == 1 and "cores" in self._limits):
            return ()
        run.pinned = bool(run.grant.cores)
        return tuple(run.grant.cores)

    def _wake(self) -> None:
        if self._freeze_timer:
            self._freeze_timer.cancel()
            self._freeze_timer = None
        if self._frozen:
            self._group.thaw()
            self._frozen = False

    def _freeze(self) -> None:
        if self._lingering and not self._runs and self.usable:
            self._group.freeze()
            self._frozen = True

    # -- commands --------------------------------------------------------------------------------

    def granted(self, grant: CpuGrant) -> dict[str, str]:
        """The variables of a grant; no more is promised than this machine could ever give."""
        most = max(grant.milli, min(grant.most_milli, self._machine_milli))
        return grant_variables(replace(grant, most_milli=most))

    def _granted(self, grant: CpuGrant) -> dict[bytes, bytes]:
        key = (grant.milli, grant.most_milli)
        if (granted := self._grant_variables.get(key)) is None:
            granted = encode_environment(self.granted(grant))
            self._grant_variables[key] = granted
        return granted

    def _command(self, invocation: Invocation) -> list[bytes]:
        command = invocation.command
        if isinstance(command, str):
            return [b"/bin/sh", b"-c", os.fsencode(command)]
        return [os.fsencode(word) for word in command] or [b""]

    @property
    def home(self) -> bytes:
        """The directory commands start in unless told otherwise."""
        return os.fsencode(self._workspace)

    def folder(self, invocation: Invocation) -> bytes:
        """The directory a command starts in."""
        return os.fsencode(os.path.join(self._workspace, invocation.cwd or ""))  # noqa: PTH118

    # -- files -----------------------------------------------------------------------------------

    async def write(self, path: str, data: bytes) -> None:
        await self._with_files(self._files.write, path, data)

    async def read(self, path: str) -> bytes:
        return await self._with_files(self._files.read, path)

    async def upload(self, source: Path, path: str) -> None:
        await self._with_files(self._files.upload, source, path)

    async def download(self, path: str, target: Path) -> None:
        await self._with_files(self._files.download, path, target)

    async def list(self, path: str = ".") -> Sequence[FileEntry]:
        return await self._with_files(self._files.list, path)

    async def _with_files(self, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._require_open()
        return await self._loop.run_in_executor(self._offload, lambda: do(*args, **kwargs))
