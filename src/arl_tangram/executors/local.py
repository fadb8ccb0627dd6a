"""This machine as a host of environments, with the strongest limits and walls it offers."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import ConfigError, Unavailable
from . import boot, namespaces, probe
from .environment import LocalSandbox
from .files import Files
from .force import Force
from .group import Group
from .port import EnvironmentSpec
from .removal import remove_tree
from .runner import Runner
from .sites import Site, Sites
from .state import State, default_folder
from .stem import Stem

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
OPEN_S = 20.0
PROGRAM, ETC = "program", "etc"


class LocalHost:
    """Opens environments on this machine.

    Use it inside one running event loop.

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
        self._found = probe.choose(enforcement=enforcement, isolation=isolation)
        self._groups = self._found.groups
        try:
            self._found.require(require)
            self._state = self._make_state(Path(state_dir) if state_dir else default_folder())
        except BaseException:
            self._groups.close()
            raise
        self._program_fd = os.open(self._state.folder / PROGRAM, os.O_RDONLY | os.O_CLOEXEC)
        self._sites = Sites(
            self._state.folder,
            found=self._found,
            program_fd=self._program_fd,
            etc=self._state.folder / ETC,
        )
        self._stem = Stem(program_fd=self._program_fd, log=self._state.folder / "log")
        # One thread, which lives as long as we do: what it starts is told to end with it.
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="tangram-spawner")
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

    def check(self, spec: EnvironmentSpec) -> None:
        if not _NAME.fullmatch(spec.id):
            raise ConfigError(f"id={spec.id!r}: use up to 100 letters, digits and '._-'")
        if spec.memory_mib is not None and spec.memory_mib < 16:
            raise ConfigError(f"memory_mib={spec.memory_mib}: nothing runs in less than 16")
        if spec.pids < 1:
            raise ConfigError(f"pids={spec.pids}: give at least 1")
        if spec.workspace is not None and not spec.workspace.is_dir():
            raise ConfigError(f"workspace={str(spec.workspace)!r}: there is no such folder")
        if trouble := namespaces.shut_out(spec.readable, self._state.folder.parent):
            raise ConfigError(trouble)

    async def open(self, spec: EnvironmentSpec) -> LocalSandbox:
        if self._closed:
            raise Unavailable("the host is closed")
        self.check(spec)
        if spec.id in self._names:
            raise ConfigError(f"id={spec.id!r}: an environment of this name is open")
        self._names.add(spec.id)
        loop = asyncio.get_running_loop()
        # Numbered, since the remains of one of the same name may still be on their way out.
        site = self._sites.choose(spec, f"{next(self._numbers)}-{spec.id}")
        stem = self._stem if site.walled else None
        runner = Runner(site.folder / "log", stem=stem, refused=site.refused)
        making = loop.run_in_executor(self._spawner, self._sites.build, site, runner)
        sandbox: LocalSandbox | None = None
        try:
            group = await asyncio.shield(making)
            runner.watch()
            sandbox = self._sandboxes[spec.id] = LocalSandbox(
                spec,
                runner=runner,
                group=group,
                variables=site.variables(),
                workspace=site.inside,
                force=Force(
                    group, limits=self._groups.limits, cpu_scale=self._scale, pin=self._pin
                ),
                limits=self._groups.limits,
                files=Files(site.workspace, inside=site.inside, user=site.user),
                offload=self._offload,
                on_close=self._closed_one(group, site),
            )
            await asyncio.wait_for(sandbox.prepare(), OPEN_S)
        except BaseException as error:
            if sandbox is not None:
                await sandbox.close()
            else:
                self._names.discard(spec.id)
                await self._undo(site, runner, making)
            if isinstance(error, TimeoutError):
                raise Unavailable(f"environment {spec.id} did not start in time") from error
            if isinstance(error, OSError):
                raise Unavailable(f"environment {spec.id} could not be started: {error}") from error
            raise
        return sandbox

    async def _undo(self, site: Site, runner: Runner, making: asyncio.Future[Group]) -> None:
        """Take away what was made of an environment that did not open."""
        await asyncio.wait([making])
        if making.exception() is None:  # else it has cleaned up after itself
            await runner.end()
            await asyncio.to_thread(_remove, making.result(), site.folder)
        self._sites.leave(site)

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
            await asyncio.to_thread(self._stem.close)
            self._spawner.shutdown()

    # -- opening ---------------------------------------------------------------------------------

    def _make_state(self, parent: Path) -> State:
        passable = self._found.ids is not None and not self._found.namespaces
        try:
            state = State(parent, passable=passable)
        except OSError as error:
            raise ConfigError(f"state_dir={str(parent)!r}: {error.strerror}") from error
        (state.folder / PROGRAM).write_bytes(boot.program())
        if self._found.namespaces:
            namespaces.make_etc(state.folder / ETC, uid=os.getuid())
        return state

    # -- closing ---------------------------------------------------------------------------------

    def _closed_one(self, group: Group, site: Site) -> Callable[[LocalSandbox], None]:
        def closed(sandbox: LocalSandbox) -> None:
            self._sandboxes.pop(sandbox.spec.id, None)
            self._names.discard(sandbox.spec.id)
            loop = asyncio.get_running_loop()
            removal = loop.run_in_executor(self._offload, _remove, group, site.folder)
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)
            removal.add_done_callback(lambda _: self._sites.leave(site))

        return closed


def _remove(group: Group, folder: Path) -> None:
    group.remove()
    remove_tree(folder)
