"""What this machine offers to this process: cores as the kernel numbers them, quota and memory."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from ..core.model import MILLI, CpuTopology

_SYSTEM = Path("/sys/devices/system")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a process may use of the machine it runs on.

    Attributes:
        cpus: the ids of the cores it may run on, ascending.
        quota_milli: millicores its own control group allows; None means no such limit.
        memory_mib: memory of the machine, or what its control group allows if that is less.
        topology: domains and hardware threads, restricted to `cpus`.
    """

    name: str
    cpus: tuple[int, ...]
    quota_milli: int | None
    memory_mib: int
    topology: CpuTopology

    @property
    def usable_milli(self) -> int:
        """Millicores it can really use: its cores, or its quota if that is less."""
        cores = len(self.cpus) * MILLI
        return cores if self.quota_milli is None else min(cores, self.quota_milli)


def this_machine() -> Machine:
    """Look at the machine. Affinity and the quota of the own control group are respected."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    groups = _own_groups()
    memory = psutil.virtual_memory().total
    limits = [limit for limit in memory_limits(groups) if limit < memory]
    return Machine(
        name=platform.node() or "localhost",
        cpus=cpus,
        quota_milli=min(quotas(groups), default=None),
        memory_mib=min(limits, default=memory) >> 20,
        topology=CpuTopology(
            domains=_groups_within(cpus, _SYSTEM.glob("node/node[0-9]*/cpulist")) or (cpus,),
            siblings=tuple(
                group
                for group in _groups_within(
                    cpus, (_SYSTEM / f"cpu/cpu{c}/topology/thread_siblings_list" for c in cpus)
                )
                if len(group) > 1
            ),
        ),
    )


def _groups_within(cpus: tuple[int, ...], files: Iterable[Path]) -> tuple[tuple[int, ...], ...]:
    """The distinct groups of allowed cores that these files list; unreadable ones count as none."""
    allowed = set(cpus)
    groups = set[tuple[int, ...]]()
    for file in files:
        try:
            listed = cpu_list(file.read_text())
        except (OSError, ValueError):
            continue
        if inside := tuple(core for core in listed if core in allowed):
            groups.add(inside)
    seen = [core for group in groups for core in group]
    if sorted(seen) != sorted(set(seen)) or not set(seen) <= allowed:
        return ()  # groups that overlap are no partition: better none than a wrong one
    return tuple(sorted(groups))


def cpu_list(text: str) -> tuple[int, ...]:
    """The core ids in the kernel's list notation, such as ``0-3,8``."""
    cores: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cores.extend(range(int(first), int(last or first) + 1))
    return tuple(cores)


def _own_groups() -> list[tuple[str, Path]]:
    """(controllers, folder) of every control group this process is in, and of all above it."""
    mounts = _control_group_mounts()
    found: list[tuple[str, Path]] = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        _, controllers, own = line.split(":", 2)
        for name in controllers.split(","):
            if (mount := mounts.get(name)) is None:
                continue
            folder = mount / own.lstrip("/")
            # In a container the path may be the host's; what is mounted is then our own group.
            folder = folder if folder.is_dir() else mount
            found.append((name, folder))
            while folder != mount:
                folder = folder.parent
                found.append((name, folder))
    return found


def _control_group_mounts() -> dict[str, Path]:
    """Where each v1 controller is mounted, and v2 under the empty name."""
    mounts: dict[str, Path] = {}
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return mounts
    for line in lines:
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup2":
            mounts[""] = Path(point)
        elif kind == "cgroup":
            mounts.update((name, Path(point)) for name in options.split(","))
    return mounts


def quotas(groups: Iterable[tuple[str, Path]]) -> list[int]:
    """The millicores that each of these groups allows, where it limits them."""
    quotas: list[int] = []
    for name, folder in groups:
        try:
            if name == "":
                quota, period = (folder / "cpu.max").read_text().split()
            elif name == "cpu":
                quota = (folder / "cpu.cfs_quota_us").read_text().strip()
                period = (folder / "cpu.cfs_period_us").read_text().strip()
            else:
                continue
        except (OSError, ValueError):
            continue
        if quota not in ("max", "-1"):
            quotas.append(int(quota) * MILLI // int(period))
    return quotas


def memory_limits(groups: Iterable[tuple[str, Path]]) -> list[int]:
    """The bytes of memory that each of these groups allows, where it limits them."""
    files = {"": "memory.max", "memory": "memory.limit_in_bytes"}
    limits: list[int] = []
    for name, folder in groups:
        if name not in files:
            continue
        try:
            limits.append(int((folder / files[name]).read_text()))
        except (OSError, ValueError):  # absent at the root, or "max"
            continue
    return limits
