"""Groups of processes by the second version of control groups: one folder each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from . import group, owner

ROOM = "arl-tangram"
LIMITS = {"cpu": "cpu", "cpuset": "cores", "memory": "memory", "pids": "pids"}
NEEDED = "cpu"


def mount_point() -> Path | None:
    """Where the second version is mounted; None if it is not."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            return Path(left.split()[4])
    return None


def own_folder(mount: Path) -> Path:
    """The folder of this process's own group."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return mount / line[3:].lstrip("/")
    return mount


class V2Group:
    """The folder of one environment."""

    def __init__(self, folder: Path, limits: frozenset[str]) -> None:
        self._folder = folder
        self._limits = limits
        self._milli = -1
        self._cores: str | None = None
        self._quota = os.open(folder / "cpu.max", os.O_RDWR | os.O_CLOEXEC)
        self._peak = self._kills = -1
        self._peak_before = 0
        if "memory" in limits:
            self._kills = os.open(folder / "memory.events", os.O_RDONLY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):
            self._peak = os.open(folder / "memory.peak", os.O_RDWR | os.O_CLOEXEC)
        if self._peak < 0:
            with contextlib.suppress(OSError):
                self._peak = os.open(folder / "memory.peak", os.O_RDONLY | os.O_CLOEXEC)

    @property
    def entries(self) -> Sequence[str]:
        return [str(self._folder / "cgroup.procs")]

    def set_cpu(self, milli: int) -> None:
        if milli != self._milli:
            self._milli = milli
            os.pwrite(self._quota, b"%d %d" % group.quota(milli), 0)

    def set_cores(self, cores: Collection[int]) -> None:
        wanted = group.format_cores(cores)
        if wanted != (self._cores or "") and "cores" in self._limits:
            group.write(self._folder / "cpuset.cpus", wanted or "\n")
            self._cores = wanted

    def freeze(self) -> None:
        group.write(self._folder / "cgroup.freeze", 1)

    def thaw(self) -> None:
        group.write(self._folder / "cgroup.freeze", 0)

    def start_peak(self) -> None:
        if self._peak >= 0:
            try:
                os.pwrite(self._peak, b"0", 0)  # starts anew for this descriptor, since 6.12
            except OSError:
                self._peak_before = int(os.pread(self._peak, 64, 0))

    def peak(self) -> int:
        if self._peak < 0:
            return 0
        peak = int(os.pread(self._peak, 64, 0))
        if 0 < peak == self._peak_before:  # an earlier action's: only what it holds now is known
            return int(group.read(self._folder / "memory.current"))
        return peak

    def oom_kills(self) -> int:
        return group.count_of(b"oom_kill", self._kills)

    def cpu_s(self) -> float:
        return int(group.read(self._folder / "cpu.stat").split()[1]) / 1e6

    def processes(self) -> list[int]:
        return [int(pid) for pid in group.read(self._folder / "cgroup.procs").split()]

    def remove(self) -> None:
        for fd in (self._quota, self._peak, self._kills):
            if fd >= 0:
                os.close(fd)
        self._quota = self._peak = self._kills = -1
        with contextlib.suppress(OSError):
            self.thaw()
        group.remove_folder(self._folder)


class V2Groups:
    """Makes groups where this process may: at the root for root, else in its own delegated group.

    Raises `OSError` when groups cannot be made.
    """

    name = "cgroup-v2"

    def __init__(self) -> None:
        mount = mount_point()
        if mount is None:
            raise OSError("it is not mounted")
        parent = self._find_parent(mount)
        enabled = self._enable(parent)
        if NEEDED not in enabled:
            raise OSError(f"{parent} has no {NEEDED} controller")
        self._room = parent / ROOM
        name = owner.new_name()
        self._folder = self._room / name
        group.make_in_room(self._room, self._make, name)
        for stray in group.strays(self._room):
            group.remove_folder(stray)
        enabled = self._enable(self._folder)
        # All environments together count as one process of each core, not as one in all.
        for folder in (self._room, self._folder):
            group.write(folder / "cpu.weight", min(10_000, 100 * (os.cpu_count() or 1)))
        self.limits = frozenset({"freeze", *(LIMITS[name] for name in enabled if name in LIMITS)})

    def create(self, name: str, *, memory_bytes: int | None, pids: int | None) -> V2Group:
        folder = self._folder / name
        folder.mkdir()
        if memory_bytes is not None and "memory" in self.limits:
            group.write(folder / "memory.max", memory_bytes)
            if (swap := folder / "memory.swap.max").exists():
                group.write(swap, 0)
        if pids is not None and "pids" in self.limits:
            group.write(folder / "pids.max", pids + group.OVERHEAD_PIDS)
        return V2Group(folder, self.limits)

    def close(self) -> None:
        group.remove_folder(self._folder)
        with contextlib.suppress(OSError):  # another process of ours may be using it
            self._room.rmdir()

    def _find_parent(self, mount: Path) -> Path:
        own = own_folder(mount)
        is_root = not (mount / "cgroup.type").exists()
        if os.getuid() == 0 and is_root:
            return mount  # only here may processes and groups live side by side
        if own.name == "supervisor":
            return own.parent
        if not os.access(own / "cgroup.procs", os.W_OK):
            raise OSError(f"{own} is not ours to divide")
        self._step_aside(own)
        return own

    def _make(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._enable(folder)

    @staticmethod
    def _step_aside(own: Path) -> None:
        """Move all processes of our group into one below it, so that it can be divided."""
        aside = own / "supervisor"
        aside.mkdir(exist_ok=True)
        for pid in group.read(own / "cgroup.procs").split():
            with contextlib.suppress(ProcessLookupError):
                group.write(aside / "cgroup.procs", int(pid))

    @staticmethod
    def _enable(folder: Path) -> set[str]:
        """Let the groups below have the controllers there are; returns those they have."""
        offered = set((folder / "cgroup.controllers").read_text().split())
        for name in offered & LIMITS.keys():
            with contextlib.suppress(OSError):
                group.write(folder / "cgroup.subtree_control", f"+{name}")
        return set((folder / "cgroup.subtree_control").read_text().split())
