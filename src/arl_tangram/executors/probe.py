"""What this machine offers to limit and to wall off environments, and which of it is used."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..errors import ConfigError, Unavailable
from . import boot, namespaces, users
from . import refused as refusal
from .cgroup_v1 import V1Groups
from .cgroup_v2 import V2Groups
from .group import Groups, NoGroups

GUARANTEES: Mapping[str, str] = {
    "cpu": "processor time is held to the grant by the kernel",
    "cores": "programs stay on the cores granted, whatever they do",
    "memory": "memory is limited for the environment as a whole",
    "pids": "the number of processes is limited for the environment",
    "freeze": "what is left in the background gets no processor time between actions",
    "files": "programs see their workspace and the system, nothing else of the host",
    "processes": "programs see and reach no processes but their environment's",
    "network": "programs reach no network unless the environment was opened with it",
    "user": "commands run as a user that owns nothing on the host",
    "limits": "what the kernel limits by user is the environment's own: it has a user to itself",
    "kernel": "programs are refused what reaches the kernel's shared state: keys, tracing, its log",
}
ENFORCEMENTS = ("cgroup-v2", "cgroup-v1", "rlimits", "none")
ISOLATIONS = ("namespaces", "process-group")
LIMITS = ("cpu", "cores", "memory", "pids", "freeze")
WALLS = ("files", "processes", "network", "user")
UNLIMITED = (
    "disk space and files (inodes) of environments are not limited: put state_dir on a file system "
    "of its own, or under a quota, so that one that fills it harms nothing else"
)
"""What no machine holds, and what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is in force on this machine.

    Attributes:
        guarantees: the names, of `GUARANTEES`, of what holds.
        weaker: sentences on what does not hold, each with its reason.
        mend: sentences on what to do about it.
    """

    enforcement: str
    isolation: str
    guarantees: frozenset[str]
    weaker: tuple[str, ...] = ()
    mend: tuple[str, ...] = ()

    def describe(self) -> Mapping[str, str]:
        """The report as labels and texts."""
        return {
            "enforcement": self.enforcement,
            "isolation": self.isolation,
            "guarantees": ", ".join(name for name in GUARANTEES if name in self.guarantees),
            "weaker": "; ".join(self.weaker),
            "mend": "; ".join(self.mend),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The chosen rungs of both ladders, ready for use.

    Attributes:
        bounds: whether bubblewrap can bound what it mounts in memory.
        ids: the users that environments may run as; None if they run as ourselves.
        refused: the filter of the calls that untrusted commands are refused, if there is one.
    """

    report: Report
    groups: Groups
    namespaces: bool
    bwrap: str = ""
    user_namespace: bool = False
    bounds: bool = False
    ids: range | None = None
    refused: bytes = b""

    def require(self, names: str | Collection[str] | None) -> None:
        """Raise `Unavailable` unless all of these are in force."""
        if names is None:
            return
        wanted = {names} if isinstance(names, str) else set(names)
        if "all" in wanted:
            wanted = set(GUARANTEES)
        for name in wanted:
            if name not in GUARANTEES:
                raise ConfigError(f"require={name!r}: use {', '.join(GUARANTEES)} or 'all'")
        if missing := [name for name in GUARANTEES if name in wanted - self.report.guarantees]:
            lacks = "; ".join(f"{name} ({GUARANTEES[name]})" for name in missing)
            why = "; ".join((*self.report.weaker, *self.report.mend))
            raise Unavailable(f"not in force here: {lacks}. {why}")


class _Maker(Protocol):
    def __call__(self) -> Groups: ...


def choose(*, enforcement: str = "auto", isolation: str = "auto") -> Found:
    """Find the best there is, or exactly what is asked for; its groups are the caller's to close.

    Raises:
        ConfigError: there is no such rung.
        Unavailable: it was asked for by name, and this machine does not have it.
    """
    if enforcement not in ("auto", *ENFORCEMENTS):
        raise ConfigError(f"enforcement={enforcement!r}: use auto, {', '.join(ENFORCEMENTS)}")
    if isolation not in ("auto", *ISOLATIONS):
        raise ConfigError(f"isolation={isolation!r}: use auto, {', '.join(ISOLATIONS)}")
    raise_file_limit()
    bwrap, user_namespace, lacks_walls = _find_walls(isolation)
    groups, lacks_limits = _find_groups(enforcement)
    guarantees = set(groups.limits)
    if bwrap:
        guarantees |= {*WALLS} - {"user"}
    ids = None if user_namespace else users.ids()
    if ids is not None or user_namespace:
        guarantees.add("user")
    if ids is not None and len(ids) > 1:
        guarantees.add("limits")
    if refused := refusal.program():
        guarantees.add("kernel")
    bounds = bool(bwrap) and namespaces.can_bound(bwrap)
    weaker = _weaker(guarantees, lacks_limits, lacks_walls)
    if bwrap and not bounds:
        weaker.append(
            "shared memory (/dev/shm) has no bound but the memory limit (bubblewrap is older than 0.7)"
        )
    report = Report(
        enforcement=groups.name,
        isolation="namespaces" if bwrap else "process-group",
        guarantees=frozenset(guarantees),
        weaker=tuple(weaker),
        mend=tuple(_mend(guarantees, bwrap)),
    )
    return Found(
        report=report,
        groups=groups,
        namespaces=bool(bwrap),
        bwrap=bwrap,
        user_namespace=user_namespace,
        bounds=bounds,
        ids=ids,
        refused=refused,
    )


def raise_file_limit() -> None:
    """Allow this process as many open files as it may have; each environment needs a handful."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _find_walls(isolation: str) -> tuple[str, bool, str]:
    """Bubblewrap if it works, whether it needs a user namespace, and why not if it does not."""
    if isolation == "process-group":
        return "", False, "process-group was asked for"
    trouble = "bubblewrap (bwrap) is not installed"
    if bwrap := namespaces.find_bwrap():
        for user_namespace in (False, True) if os.getuid() == 0 else (True,):
            line = namespaces.arguments(
                bwrap=bwrap,
                folders={},
                etc=None,
                network=False,
                readable=(),
                user_namespace=user_namespace,
                info_fd=None,
            )
            argv = [*line, str(boot.interpreter()), "-I", "-S", "-E", "-c", "pass"]
            tried = subprocess.run(argv, capture_output=True, text=True, check=False, env={})
            if tried.returncode == 0:
                return bwrap, user_namespace, ""
            trouble = f"bubblewrap does not work here: {tried.stderr.strip()[-200:]}"
    if isolation == "namespaces":
        raise Unavailable(f"isolation='namespaces': {trouble}")
    return "", False, trouble


def _find_groups(enforcement: str) -> tuple[Groups, str]:
    """The groups of the chosen rung, and why no stronger one is used."""
    makers: tuple[tuple[str, _Maker], ...] = (("cgroup-v2", V2Groups), ("cgroup-v1", V1Groups))
    troubles: list[str] = []
    for name, make in makers:
        if enforcement not in ("auto", name):
            continue
        try:
            return make(), "; ".join(troubles)
        except PermissionError as error:
            where = Path(str(error.filename)).parent
            troubles.append(f"{name}: this user may not make groups below {where}")
        except OSError as error:
            troubles.append(f"{name}: {error}")
        if enforcement == name:
            raise Unavailable(f"enforcement={name!r}: {troubles[-1]}")
    asked = enforcement != "auto"
    reason = f"{enforcement} was asked for" if asked else "; ".join(troubles)
    return NoGroups("none" if enforcement == "none" else "rlimits"), reason


def _weaker(guarantees: set[str], lacks_limits: str, lacks_walls: str) -> list[str]:
    sentences = []
    rungs = (
        (LIMITS, lacks_limits),
        (WALLS, lacks_walls),
        (("limits",), "only root, with all ids, can give each environment a user of its own"),
        (("kernel",), f"no filter of calls is known for {platform.machine()} and its kernel"),
    )
    for names, reason in rungs:
        if missing := [name for name in names if name not in guarantees]:
            because = f" ({reason})" if reason else ""
            sentences.append(f"not in force: {', '.join(missing)}{because}")
    return sentences


def _mend(guarantees: set[str], bwrap: str) -> list[str]:
    sentences = []
    if "cpu" not in guarantees:
        sentences.append(
            "for limits by the kernel, run as root, or in a group of your own: "
            "systemd-run --user --scope -p Delegate=yes COMMAND"
        )
    if not bwrap:
        sentences.append("for isolation, install bubblewrap (Debian: apt install bubblewrap)")
    return [*sentences, UNLIMITED]
