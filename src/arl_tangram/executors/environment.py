"""One open environment on this machine: its commands, from their grant to how they end."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import ParamSpec, TypeVar

from ..core.model import Outcome
from ..errors import ConfigError, Unavailable
from . import completion
from .copying import Stopped
from .files import Files
from .force import Force
from .given import files_of
from .group import Group
from .inside import frames
from .port import Completion, CpuGrant, EnvironmentSpec, FileEntry, Invocation
from .run import Run
from .runner import Runner
from .shell import LocalShell
from .warden import Report, Warden, encode_environment
from .wardens import ANSWER_S, Wardens

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")

LONGEST_ARGUMENT = 131_071  # the kernel takes no longer one
SCRIPT_FD = 9
HELP_S = 4.0
"""How long it may take to end a command from outside before the whole environment is ended."""


class LocalSandbox:
    """An environment with a resident first process and a group of its own.

    Args:
        variables: the environment variables of every command.
        workspace: the directory commands start in, as they see it.
        force: puts grants into force on the group.
        limits: what the kernel enforces on the group.
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
        force: Force,
        variables: Mapping[str, str],
        workspace: str,
        limits: frozenset[str],
        files: Files,
        offload: Executor,
        on_close: Callable[[LocalSandbox], None],
    ) -> None:
        self.spec = spec
        self._loop = asyncio.get_running_loop()
        self._runner = runner
        self._group = group
        self._force = force
        self._variables = encode_environment(variables)
        self._workspace = workspace
        self._limits = limits
        self._files = files
        self._offload = offload
        self._on_close = on_close
        self._wardens = Wardens(spec.id, runner=runner, offload=offload)
        self._runs: dict[str, Run] = {}
        self._closing: asyncio.Task[None] | None = None
        runner.on_death = self._runner_died

    async def prepare(self) -> None:
        """Have the first warden ready."""
        self._wardens.give_back(await self._wardens.make())

    # -- running ---------------------------------------------------------------------------------

    async def run(self, run_id: str, invocation: Invocation, grant: CpuGrant) -> Completion:
        def order(run: Run, warden: Warden) -> asyncio.Future[Report | None]:
            argv, given = self._command(invocation)
            return warden.order(
                "run",
                argv,
                {
                    **self._force.encoded_variables(grant),
                    **self._variables,
                    **encode_environment(invocation.variables),
                },
                self.folder(invocation),
                tuple(given),
                self.cores_to_pin(run),
                invocation.idle_timeout_s,
                invocation.output_limit_bytes,
                fds=files_of(given.values()),
            )

        run = self.new_run(invocation, grant)
        return await self.carry_out(run_id, run, take=self._wardens.take, order=order)

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
        shell = LocalShell(self, variables=self._variables, force=self._force)
        await shell.start()
        return shell

    def new_run(self, invocation: Invocation, grant: CpuGrant, *, in_shell: bool = False) -> Run:
        """A command that is about to start."""
        return Run(grant, invocation, self._loop.create_future(), in_shell=in_shell)

    async def new_warden(self) -> Warden:
        """A warden for special work."""
        return await self._wardens.make()

    async def dismiss(self, warden: Warden) -> None:
        """End a warden and everything it answers for."""
        self._force.wake()
        await self._wardens.dismiss(warden)

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
                self._give_back(run, run.warden)
                return Completion(outcome=run.stopped, reason="was told to stop")
            try:
                report = order(run, run.warden)
            except OSError as error:  # we are out of files or of memory
                self._give_back(run, run.warden)
                return Completion(outcome=Outcome.LOST, reason=f"its input: {error}")
            return await self._see_to_its_end(run, run.warden, report)
        finally:
            self._forget(run_id, run)

    def _admit(self, run_id: str, run: Run) -> None:
        self._require_open()
        if run_id in self._runs:
            raise ConfigError(f"run_id={run_id!r}: it is running already; give each run its own")
        self._force.wake()
        if not self._runs:
            self._group.start_peak()
        self._runs[run_id] = run
        if len(self._runs) > 1:
            for each in self._runs.values():
                each.crowded = True
        if self.spec.memory_mib is not None:
            run.kills_before = self._group.oom_kills()
        run.background = self._wardens.background
        self._apply_grants()

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
            await self._wardens.mourn()
        self._let_go(run, warden, ended)
        return await self._conclude(run, warden, ended)

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
            await self._wardens.mourn()
        self._let_go(run, warden, report.result())

    def _let_go(self, run: Run, warden: Warden, report: Report | None) -> None:
        """Its command has ended, and the warden may have other work from now on."""
        run.is_over()
        if report is not None and report.flags & frames.LEFT:
            self._wardens.retire(warden)
        elif report is not None:
            self._give_back(run, warden)
        run.shell_lost = report is None or bool(report.flags & frames.SHELL_LOST)

    async def _conclude(self, run: Run, warden: Warden, report: Report | None) -> Completion:
        stopped, limit = run.stopped, self.spec.memory_mib
        suspicious = limit is not None and (report is None or report.status or stopped)
        peak, kills = self._memory_seen(run, kills=bool(suspicious))
        if kills and run.background:
            at_work = {other.warden for other in self._runs.values()}
            await self._wardens.look_after(run.background - at_work)
        return completion.conclude(
            report,
            run.invocation,
            completion.Circumstances(
                stopped=stopped,
                environment_died=self._runner.died,
                warden_trouble=warden.trouble,
                oom_kills=kills,
                crowded=run.crowded,
                background_lost=not run.background <= self._wardens.background,
                peak=peak,
                memory_limited="memory" in self._limits,
                memory_mib=limit,
            ),
        )

    def _memory_seen(self, run: Run, *, kills: bool) -> tuple[int, int]:
        """The peak and, if asked for, the kills since the command began."""
        try:
            return self._group.peak(), self._group.oom_kills() - run.kills_before if kills else 0
        except OSError:  # the environment is being closed, and its group went first
            return 0, 0

    def _give_back(self, run: Run, warden: Warden) -> None:
        if run.in_shell:
            self._wardens.relieve(warden)
        else:
            self._wardens.give_back(warden)

    def _forget(self, run_id: str, run: Run) -> None:
        run.is_over()
        del self._runs[run_id]
        run.over.set_result(None)
        if not self.usable:
            return
        self._wardens.keep_one_ready()
        if self._runs:
            self._apply_grants(ended=True)
        elif self._wardens.background:
            self._force.rest()

    def _apply_grants(self, *, ended: bool = False) -> None:
        """Put the grants into force; `ended` says that they are what an ended run has left."""
        runs = self._runs.values()
        # Moving a group to other cores is dear, and takes its processes off those they were put on.
        stay = ended and all(run.pinned for run in runs)
        self._force.apply([run.grant for run in runs], cores=not stay)

    def cores_to_pin(self, run: Run) -> tuple[int, ...]:
        """The cores its warden has to put it on; none if the group sees to it."""
        cores = self._force.cores_for_warden(run.grant, alone=len(self._runs) == 1)
        run.pinned = bool(cores)
        return cores

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
            self._force.hurry()
            self._offload.submit(self._runner.end_below_warden, run.warden.pid, self._group)
            later = self._loop.call_later(HELP_S, self._end_everything, run)
            run.timers.append(later)

    def _end_everything(self, run: Run) -> None:
        # Only the end of the environment is sure to be the end of this command.
        if run.warden:
            self._runner.kill()
            run.warden.close()

    def _runner_died(self) -> None:
        self._wardens.close()
        for run in list(self._runs.values()):
            if run.warden:
                run.warden.close()

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
        self._force.hurry()
        for run in self._runs.values():
            run.stopped = run.stopped or Outcome.CANCELLED
        await self._runner.end()
        self._runner_died()
        while self._runs:  # they still have to read how they ended
            await asyncio.wait([run.over for run in self._runs.values()])
        self._files.close()
        self._on_close(self)

    # -- commands --------------------------------------------------------------------------------

    @staticmethod
    def _command(invocation: Invocation) -> tuple[list[bytes], dict[int, bytes]]:
        """Its words, and what it is given to read at which of its descriptors."""
        command = invocation.command
        given = {} if invocation.stdin is None else {0: invocation.stdin}
        if not isinstance(command, str):
            return [os.fsencode(word) for word in command] or [b""], given
        text = os.fsencode(command)
        if len(text) > LONGEST_ARGUMENT:
            given[SCRIPT_FD] = b"exec %d<&-; " % SCRIPT_FD + text
            text = b". /proc/self/fd/%d" % SCRIPT_FD
        return [b"/bin/sh", b"-c", text], given

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
        await self._copying(self._files.upload, source, path)

    async def download(self, path: str, target: Path) -> None:
        await self._copying(self._files.download, path, target)

    async def list(self, path: str = ".") -> Sequence[FileEntry]:
        return await self._with_files(self._files.list, path)

    async def _copying(
        self, copy: Callable[[A, B, threading.Event], None], source: A, target: B
    ) -> None:
        stop = threading.Event()
        try:
            await self._with_files(copy, source, target, stop)
        except asyncio.CancelledError:
            stop.set()  # the thread that copies would go on to the end
            raise
        except Stopped:
            raise Unavailable(f"environment {self.spec.id} is closed") from None

    async def _with_files(self, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._require_open()
        return await self._loop.run_in_executor(self._offload, lambda: do(*args, **kwargs))
