"""This machine as a host of environments, with the strongest limits and walls it offers."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import resource
import shutil
import sys
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import ConfigError, Unavailable
from . import boot, namespaces, probe
from .environment import LocalSandbox
from .files import Files
from .group import Group
from .port import MIB, EnvironmentSpec
from .runner import INFO_FD, Runner
from .state import State, default_folder

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
OPEN_S = 20.0
PROGRAM, ETC, HOME, TMP = "program", "etc", "home", "tmp"


class LocalHost:
    """Opens environments on this machine.

    Use it inside one running event loop: environments end with the thread that opened them.

    Args:
        state_dir: where workspaces are kept; one below the system's temporary folder by default.
        cpu_scale: real cores in one unit; 0.25 lets a small machine grant quarters as units.
        pin: whether the cores of a grant are put into force; only possible at a scale of 1.
        enforcement: "auto", "cgroup-v2", "cgroup-v1", "rlimits" or "none".
        isolation: "auto", "namespaces" or "process-group".
        require: what must be in force, of `probe.GUARANTEES`, or "all".

    Raises:
        ConfigError: a setting is wrong.
        Unavailable: this machine does not offer what was asked for.
    """

    def __init__(
        self,
        state_dir: Path | str | None = None,
        *,
        cpu_scale: float = 1.0,
        pin: bool = True,
        enforcement: str = "auto",
        isolation: str = "auto",
        require: str | Collection[str] | None = None,
    ) -> None:
        if not 0 < cpu_scale <= 1:
            raise ConfigError(f"cpu_scale={cpu_scale}: give a number above 0, at most 1")
        self._scale = cpu_scale
        self._pin = pin and cpu_scale == 1
        self._user = probe.command_user()
        self._found = probe.choose(enforcement=enforcement, isolation=isolation)
        self._groups = self._found.groups
        try:
            self._found.require(require)
            self._state = self._make_state(Path(state_dir) if state_dir else default_folder())
        except BaseException:
            self._groups.close()
            raise
        self._program_fd = os.open(self._state.folder / PROGRAM, os.O_RDONLY | os.O_CLOEXEC)
        self._offload = ThreadPoolExecutor(4, thread_name_prefix="tangram-host")
        self._sandboxes: dict[str, LocalSandbox] = {}
        self._removals: set[asyncio.Future[None]] = set()
        self._names: set[str] = set()
        self._numbers = itertools.count()
        self._closed = False

    @property
    def report(self) -> probe.Report:
        """What is in force and what is weaker than the best, for `doctor`."""
        return self._found.report

    def describe(self) -> Mapping[str, str]:
        return self.report.describe()

    async def open(self, spec: EnvironmentSpec) -> LocalSandbox:
        self._check(spec)
        # Numbered, since the remains of one of the same name may still be on their way out.
        folder = self._state.folder / f"{next(self._numbers)}-{spec.id}"
        user = self._user if spec.workspace is None else None
        workspace = folder / "workspace" if spec.workspace is None else spec.workspace.absolute()
        folder.mkdir()
        if spec.workspace is None:
            workspace.mkdir()
            for name in (HOME, TMP):
                (folder / name).mkdir()
                (folder / name).chmod(0o1777)
        self._names.add(spec.id)
        if user is not None:
            os.chown(workspace, user, user)
        loop = asyncio.get_running_loop()
        making = loop.run_in_executor(self._offload, self._make_group, spec, folder.name)
        try:
            runner = self._start(spec, folder, workspace)
        except OSError as error:
            self._names.discard(spec.id)
            group = await making
            await loop.run_in_executor(self._offload, self._remove, group, folder)
            raise Unavailable(f"environment {spec.id} could not be started: {error}") from error
        sandbox: LocalSandbox | None = None
        try:
            group = await making
            await loop.run_in_executor(self._offload, self._admit, runner, group, spec)
            sandbox = self._sandboxes[spec.id] = LocalSandbox(
                spec,
                runner=runner,
                group=group,
                variables=self._variables(spec, workspace),
                workspace=self._inside(spec, workspace),
                cpu_scale=self._scale,
                pin=self._pin,
                limits=self._groups.limits,
                files=Files(workspace, inside=self._inside(spec, workspace), user=user),
                offload=self._offload,
                on_close=self._closed_one(group, folder),
            )
            await asyncio.wait_for(sandbox.prepare(), OPEN_S)
        except BaseException as error:
            if sandbox is not None:
                await sandbox.close()
            else:
                self._names.discard(spec.id)
                await runner.end()
                await loop.run_in_executor(self._offload, self._remove, await making, folder)
            if isinstance(error, TimeoutError):
                raise Unavailable(f"environment {spec.id} did not start in time") from error
            raise
        return sandbox

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._sandboxes.values())))
        await asyncio.gather(*self._removals)
        if self._program_fd >= 0:
            os.close(self._program_fd)
            self._program_fd = -1
            await asyncio.to_thread(self._groups.close)
            await asyncio.to_thread(self._state.close)
            self._offload.shutdown()

    # -- opening ---------------------------------------------------------------------------------

    def _check(self, spec: EnvironmentSpec) -> None:
        if self._closed:
            raise Unavailable("the host is closed")
        if not _NAME.fullmatch(spec.id):
            raise ConfigError(f"id={spec.id!r}: use up to 100 letters, digits and '._-'")
        if spec.id in self._names:
            raise ConfigError(f"id={spec.id!r}: an environment of this name is open")
        if spec.memory_mib is not None and spec.memory_mib < 16:
            raise ConfigError(f"memory_mib={spec.memory_mib}: nothing runs in less than 16")
        if spec.pids < 1:
            raise ConfigError(f"pids={spec.pids}: give at least 1")
        if spec.workspace is not None and not spec.workspace.is_dir():
            raise ConfigError(f"workspace={str(spec.workspace)!r}: there is no such folder")
        if trouble := namespaces.shut_out(spec.readable, self._state.folder.parent):
            raise ConfigError(trouble)

    def _make_state(self, parent: Path) -> State:
        passable = self._user is not None and not self._found.namespaces
        state = State(parent, passable=passable)
        (state.folder / PROGRAM).write_bytes(boot.program())
        if self._found.namespaces:
            uid = os.getuid() if self._user is None else self._user
            namespaces.make_etc(state.folder / ETC, uid=uid)
        return state

    def _make_group(self, spec: EnvironmentSpec, name: str) -> Group:
        memory = None if spec.memory_mib is None else spec.memory_mib * MIB
        return self._groups.create(name, memory_bytes=memory, pids=spec.pids)

    def _start(self, spec: EnvironmentSpec, folder: Path, workspace: Path) -> Runner:
        walled = self._walled(spec)
        user = self._user if spec.workspace is None else None
        argv = boot.command(user=user, alone=walled)
        if walled:
            walls = namespaces.arguments(
                bwrap=self._found.bwrap,
                folders={
                    namespaces.WORKSPACE: workspace,
                    namespaces.HOME: folder / HOME,
                    namespaces.TMP: folder / TMP,
                },
                etc=self._state.folder / ETC,
                network=spec.network,
                readable=spec.readable,
                user_namespace=self._found.user_namespace,
                info_fd=INFO_FD,
            )
            argv = [*walls, *argv]
        return Runner(
            argv,
            program_fd=self._program_fd,
            log=folder / "log",
            namespaces=walled,
        )

    def _admit(self, runner: Runner, group: Group, spec: EnvironmentSpec) -> None:
        """Put the first process under its limits before it makes anything else."""
        pid = runner.learn_first_pid()
        if not pid:
            raise Unavailable(f"environment {spec.id} {runner.trouble()}")
        try:
            group.admit(pid)
            _limit(pid, resource.RLIMIT_CORE, 0)
            _limit(pid, resource.RLIMIT_NOFILE, 4096)
            if self._groups.name == "rlimits":
                if spec.memory_mib is not None:
                    _limit(pid, resource.RLIMIT_AS, spec.memory_mib * MIB)
                # Counted per user namespace, so where it has one, for it alone.
                if self._found.user_namespace and self._walled(spec):
                    _limit(pid, resource.RLIMIT_NPROC, spec.pids)
        except OSError as error:
            why = runner.complaint() or f"it could not be limited: {error}"
            raise Unavailable(f"environment {spec.id} could not be started: {why}") from error

    def _walled(self, spec: EnvironmentSpec) -> bool:
        return self._found.namespaces and spec.workspace is None

    def _inside(self, spec: EnvironmentSpec, workspace: Path) -> str:
        return namespaces.WORKSPACE if self._walled(spec) else str(workspace)

    def _variables(self, spec: EnvironmentSpec, workspace: Path) -> dict[str, str]:
        if spec.workspace is not None:
            return {**os.environ, **spec.variables}
        apart = self._found.namespaces
        return {
            "PATH": namespaces.search_path(),
            "HOME": namespaces.HOME if apart else str(workspace.parent / HOME),
            "TMPDIR": namespaces.TMP if apart else str(workspace.parent / TMP),
            "USER": "user",
            "LOGNAME": "user",
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **({"VIRTUAL_ENV": sys.prefix} if sys.prefix != sys.base_prefix else {}),
            **spec.variables,
        }

    # -- closing ---------------------------------------------------------------------------------

    def _closed_one(self, group: Group, folder: Path):  # type: ignore[no-untyped-def]  # noqa: ANN202
        def closed(sandbox: LocalSandbox) -> None:
            self._sandboxes.pop(sandbox.spec.id, None)
            self._names.discard(sandbox.spec.id)
            loop = asyncio.get_running_loop()
            removal = loop.run_in_executor(self._offload, self._remove, group, folder)
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)

        return closed

    @staticmethod
    def _remove(group: Group, folder: Path) -> None:
        group.remove()
        shutil.rmtree(folder, ignore_errors=True)


def _limit(pid: int, which: int, value: int) -> None:
    _, hard = resource.prlimit(pid, which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.prlimit(pid, which, (value, value))
