"""Where an environment stands: its folders, its walls, its group and its first process."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import Unavailable
from . import boot, namespaces
from .group import OVERHEAD_PIDS, Group
from .port import MIB, EnvironmentSpec
from .probe import Found
from .removal import remove_tree
from .runner import FIRST, INFO_FD, REFUSED_FD, Runner
from .stem import Entry
from .users import Users

OPEN_FILES = 4096
HOME, TMP, WORKSPACE = "home", "tmp", "workspace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The place of one environment.

    Attributes:
        folder: its own part of our state.
        workspace: the folder its commands work in, on the host.
        inside: that folder as its commands see it.
        walled: whether it has namespaces of its own.
        user: the id that its commands run as, and those of no other; None means our own.
        refused: the filter of the calls that its commands are refused; empty if they are trusted.
    """

    spec: EnvironmentSpec
    folder: Path
    workspace: Path
    inside: str
    walled: bool
    user: int | None
    refused: bytes

    @property
    def memory_bytes(self) -> int | None:
        """The most memory that it may hold."""
        return None if self.spec.memory_mib is None else self.spec.memory_mib * MIB

    def variables(self) -> Mapping[str, str]:
        """The environment variables of all its commands."""
        if self.spec.workspace is not None:
            return {**os.environ, **self.spec.variables}
        return {
            "PATH": namespaces.search_path(),
            "HOME": namespaces.HOME if self.walled else str(self.folder / HOME),
            "TMPDIR": namespaces.TMP if self.walled else str(self.folder / TMP),
            "USER": "user",
            "LOGNAME": "user",
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **({"VIRTUAL_ENV": sys.prefix} if sys.prefix != sys.base_prefix else {}),
            **self.spec.variables,
        }


class Sites:
    """Args:
    folder: our part of the state folder.
    found: the limits and walls in force.
    program_fd: an open file with the code of the first process.
    etc: what environments see as /etc.
    """

    def __init__(self, folder: Path, *, found: Found, program_fd: int, etc: Path) -> None:
        self._folder = folder
        self._found = found
        self._users = Users(found.ids)
        self._program_fd = program_fd
        self._etc = etc

    def choose(self, spec: EnvironmentSpec, name: str) -> Site:
        """Decide where and how an environment is to stand; `leave` when nothing of it is left."""
        folder = self._folder / name
        trusted = spec.workspace is not None
        workspace = spec.workspace.absolute() if spec.workspace else folder / WORKSPACE
        walled = self._found.namespaces and not trusted
        return Site(
            spec=spec,
            folder=folder,
            workspace=workspace,
            inside=namespaces.WORKSPACE if walled else str(workspace),
            walled=walled,
            user=None if trusted else self._users.take(),
            refused=b"" if trusted else self._found.refused,
        )

    def leave(self, site: Site) -> None:
        """Nothing of it is left: another may have what was its alone."""
        self._users.give_back(site.user)

    def build(self, site: Site, runner: Runner) -> Group:
        """Make its folders and its group, and start its first process in it. Blocks."""
        site.folder.mkdir()
        try:
            self._make_folders(site)
            group = self._found.groups.create(
                site.folder.name, memory_bytes=site.memory_bytes, pids=site.spec.pids
            )
            try:
                self._start(site, runner, group)
            except BaseException:
                runner.kill()
                group.remove()
                raise
        except BaseException:
            remove_tree(site.folder)
            raise
        return group

    def _start(self, site: Site, runner: Runner, group: Group) -> None:
        first = runner.start(self._command(site), program_fd=self._program_fd)
        if not first:
            raise Unavailable(f"environment {site.spec.id} {runner.trouble()}")
        runner.entry = self._entry(site, group, first)

    def _entry(self, site: Site, group: Group, first: int) -> Entry:
        spec = site.spec
        limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: OPEN_FILES}
        if self._found.groups.name == "rlimits":
            if site.memory_bytes is not None:
                limits[resource.RLIMIT_AS] = site.memory_bytes
            # Counted per user namespace, so where it has one, for it alone.
            if self._found.user_namespace and site.walled:
                limits[resource.RLIMIT_NPROC] = spec.pids + OVERHEAD_PIDS
        for which, value in limits.items():
            _, hard = resource.getrlimit(which)
            limits[which] = value if hard == resource.RLIM_INFINITY else min(value, hard)
        if not site.walled:
            return Entry(0, 0, group.entries, limits, site.user, site.refused)
        kinds = namespaces.kinds(network=spec.network, user_namespace=self._found.user_namespace)
        return Entry(first, kinds, group.entries, limits, site.user, site.refused)

    def _make_folders(self, site: Site) -> None:
        if site.spec.workspace is not None:
            return
        site.workspace.mkdir()
        if site.user is not None:
            os.chown(site.workspace, site.user, site.user)
            namespaces.write_users(site.folder, uid=site.user)
        for name in (HOME, TMP):
            (site.folder / name).mkdir()
            (site.folder / name).chmod(0o1777)

    def _command(self, site: Site) -> list[str]:
        if not site.walled:
            return boot.command("first")
        memory = site.memory_bytes
        walls = namespaces.arguments(
            bwrap=self._found.bwrap,
            folders={
                namespaces.WORKSPACE: site.workspace,
                namespaces.HOME: site.folder / HOME,
                namespaces.TMP: site.folder / TMP,
            },
            etc=self._etc,
            network=site.spec.network,
            readable=site.spec.readable,
            user_namespace=self._found.user_namespace,
            info_fd=INFO_FD,
            refused_fd=REFUSED_FD if site.refused else None,
            users=None if site.user is None else site.folder,
            shm_bytes=memory // 2 if memory and self._found.bounds else None,
        )
        return [*walls, "/bin/sh", "-c", FIRST]
