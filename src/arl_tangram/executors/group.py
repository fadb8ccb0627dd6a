"""What can be done to all processes of one environment at once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from . import owner
from .inside.tree import signal_each

PERIOD_US = 20_000
"""How often a quota is renewed: short, so that a group that has used its part waits briefly."""
LEAST_QUOTA_US = 1_000  # the kernel takes no less
LONGEST_PERIOD_US = 1_000_000
OVERHEAD_PIDS = 8  # the first process, the wardens


class Group(Protocol):
    """The kernel's group of one environment, or what stands in for it."""

    @property
    def entries(self) -> Sequence[str]:
        """The files that a process with one thread writes 0 to in order to move itself in."""

    def set_cpu(self, milli: int) -> None:
        """Allow this many real millicores, at once."""

    def set_cores(self, cores: Collection[int]) -> None:
        """Keep everything on these cores; none means all that the host has."""

    def freeze(self) -> None:
        """Give it no processor time at all until `thaw`."""

    def thaw(self) -> None: ...

    def start_peak(self) -> None:
        """Measure the peak of memory anew from here."""

    def peak(self) -> int:
        """The most bytes it held since `start_peak`; 0 if unknown."""

    def oom_kills(self) -> int:
        """How many of its processes were ever killed for want of memory."""

    def cpu_s(self) -> float:
        """The processor time it has used since it was made; 0 if unknown."""

    def processes(self) -> list[int]:
        """The ids of its processes."""

    def remove(self) -> None:
        """End what is left in it and remove it; blocks, a bounded time."""


class Groups(Protocol):
    """Where a host makes the groups of its environments.

    Attributes:
        name: the enforcement, for people: "cgroup-v2", "cgroup-v1", "rlimits", "none".
        limits: what it enforces, of "cpu", "cores", "memory", "pids", "freeze".
    """

    name: str
    limits: frozenset[str]

    def create(self, name: str, *, memory_bytes: int | None, pids: int | None) -> Group: ...

    def close(self) -> None: ...


class NoGroup:
    """Stands in where the kernel offers no group: nothing is limited."""

    @property
    def entries(self) -> Sequence[str]:
        return ()

    def set_cpu(self, milli: int) -> None: ...
    def set_cores(self, cores: Collection[int]) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def start_peak(self) -> None: ...
    def peak(self) -> int:
        return 0

    def oom_kills(self) -> int:
        return 0

    def cpu_s(self) -> float:
        return 0.0

    def processes(self) -> list[int]:
        return []

    def remove(self) -> None: ...


class NoGroups:
    """Makes no groups."""

    limits: frozenset[str] = frozenset()

    def __init__(self, name: str) -> None:
        self.name = name

    def create(self, name: str, *, memory_bytes: int | None, pids: int | None) -> Group:
        return NoGroup()

    def close(self) -> None: ...


def quota(milli: int) -> tuple[int, int]:
    """Quota and period in microseconds for this many millicores."""
    period = PERIOD_US
    if milli * period < LEAST_QUOTA_US * 1000:
        period = min(LONGEST_PERIOD_US, LEAST_QUOTA_US * 1000 // max(milli, 1))
    return max(LEAST_QUOTA_US, milli * period // 1000), period


def write(path: Path | str, value: object) -> None:
    """Write a value to a file of a group."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def read(path: Path | str) -> bytes:
    """What a file of a group says now."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 1 << 20)
    finally:
        os.close(fd)


def count_of(name: bytes, fd: int) -> int:
    """The number in the line of this name of an open file of a group; 0 if there is none."""
    if fd >= 0:
        for line in os.pread(fd, 4096, 0).splitlines():
            if line.startswith(name + b" "):
                return int(line.split()[1])
    return 0


def make_in_room(room: Path, make: Callable[[Path], None], name: str) -> None:
    """Make a room that hosts share, and a folder in it."""
    for _ in range(100):
        try:
            make(room)
            make(room / name)
        except FileNotFoundError:
            continue  # the last host to leave has just taken the room away
        return
    raise OSError(f"{room} goes away as often as it is made")


def strays(room: Path) -> list[Path]:
    """The folders in a room whose hosts are dead."""
    with contextlib.suppress(FileNotFoundError):
        return [path for path in room.iterdir() if path.is_dir() and owner.is_stray(path.name)]
    return []


def remove_folder(folder: Path, *, seconds: float = 10.0) -> None:
    """Kill what is in a group's folder and remove it with those below; gives up after a while."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
        else:
            return
        try:
            for below in folder.iterdir():
                if below.is_dir():
                    remove_folder(below, seconds=seconds)
            # A process that is in no PID namespace of ours shows as 0.
            signal_each([int(p) for p in read(folder / "cgroup.procs").split()], signal.SIGKILL)
        except OSError:
            pass
        time.sleep(0.001)


def format_cores(cores: Collection[int]) -> str:
    """Core ids as the kernel's lists have them."""
    return ",".join(map(str, sorted(cores)))
