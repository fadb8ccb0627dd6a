"""Groups of processes by the first version of control groups: a folder in each hierarchy."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from . import group, owner

ROOM = "arl-tangram"
LIMITS = {
    "cpu": "cpu",
    "cpuset": "cores",
    "memory": "memory",
    "pids": "pids",
    "freezer": "freeze",
    "cpuacct": None,
}


def own_folders() -> dict[str, Path]:
    """The folder of this process's own group, by controller."""
    mounts: dict[str, tuple[Path, str]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind == "cgroup":
            root, where = left.split()[3:5]
            for name in options.split(","):
                if name in LIMITS:
                    mounts[name] = Path(where), root
    folders = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            if name in mounts:
                point, root = mounts[name]
                inside = path.removeprefix(root) if root != "/" else path
                folders[name] = point / inside.lstrip("/")
    return folders


class V1Group:
    """The folders of one environment."""

    def __init__(self, folders: Mapping[str, Path], *, cores: str) -> None:
        self._folders = folders
        self._all_cores = cores
        self._milli = -1
        self._cores = cores
        self._period = group.PERIOD_US
        self._quota = self._open("cpu", "cpu.cfs_quota_us")
        self._peak = self._open("memory", "memory.max_usage_in_bytes")
        self._kills = self._open("memory", "memory.oom_control")

    @property
    def entries(self) -> Sequence[str]:
        # Not `cgroup.procs`: to move a whole process means to hold up every start of a process on
        # the machine for several milliseconds.
        return [str(folder / "tasks") for folder in self._folders.values()]

    def set_cpu(self, milli: int) -> None:
        if milli == self._milli or self._quota < 0:
            return
        self._milli = milli
        quota, period = group.quota(milli)
        if period != self._period:
            # The old quota must not be too much for the new period, nor the other way round.
            os.pwrite(self._quota, b"-1", 0)
            group.write(self._folders["cpu"] / "cpu.cfs_period_us", period)
            self._period = period
        os.pwrite(self._quota, b"%d" % quota, 0)

    def set_cores(self, cores: Collection[int]) -> None:
        wanted = group.format_cores(cores) or self._all_cores
        if wanted != self._cores and "cpuset" in self._folders:
            group.write(self._folders["cpuset"] / "cpuset.cpus", wanted)
            self._cores = wanted

    def freeze(self) -> None:
        if folder := self._folders.get("freezer"):
            group.write(folder / "freezer.state", "FROZEN")

    def thaw(self) -> None:
        if folder := self._folders.get("freezer"):
            group.write(folder / "freezer.state", "THAWED")

    def start_peak(self) -> None:
        if self._peak >= 0:
            os.pwrite(self._peak, b"0", 0)

    def peak(self) -> int:
        return int(os.pread(self._peak, 64, 0)) if self._peak >= 0 else 0

    def oom_kills(self) -> int:
        return group.count_of(b"oom_kill", self._kills)

    def cpu_s(self) -> float:
        if folder := self._folders.get("cpuacct"):
            return int(group.read(folder / "cpuacct.usage")) / 1e9
        return 0.0

    def processes(self) -> list[int]:
        folder = next(iter(self._folders.values()))
        return [int(pid) for pid in group.read(folder / "cgroup.procs").split()]

    def remove(self) -> None:
        for fd in (self._quota, self._peak, self._kills):
            if fd >= 0:
                os.close(fd)
        self._quota = self._peak = self._kills = -1
        with contextlib.suppress(OSError):
            self.thaw()
        for folder in self._folders.values():
            group.remove_folder(folder)

    def _open(self, controller: str, file: str) -> int:
        folder = self._folders.get(controller)
        return os.open(folder / file, os.O_RDWR | os.O_CLOEXEC) if folder else -1


class V1Groups:
    """Makes groups below this process's own, so that its limits hold for them too.

    Raises `OSError` when groups cannot be made.
    """

    name = "cgroup-v1"

    def __init__(self) -> None:
        own = own_folders()
        if "cpu" not in own:
            raise OSError("the cpu controller of cgroup v1 is not mounted")
        self._name = owner.new_name()
        self._folders: dict[str, Path] = {}
        self.limits = frozenset(limit for name in own if (limit := LIMITS[name]))
        self._cores, self._mems = "", ""
        for controller, folder in own.items():
            room = folder / ROOM
            self._folders[controller] = room / self._name
            group.make_in_room(room, partial(self._make, controller), self._name)
            if controller == "cpu":
                # All environments together count as one process of each core, not as one in all.
                for place in (room, room / self._name):
                    group.write(place / "cpu.shares", 1024 * (os.cpu_count() or 1))

        self._sweep([folder / ROOM for folder in own.values()])

    @staticmethod
    def _sweep(rooms: list[Path]) -> None:
        """Remove the groups of dead hosts."""
        strays = [stray for room in rooms for stray in group.strays(room)]
        for stray in strays:
            for state in stray.glob("*/freezer.state"):
                group.write(state, "THAWED")  # what is frozen cannot die
        for stray in strays:
            group.remove_folder(stray)

    def create(self, name: str, *, memory_bytes: int | None, pids: int | None) -> V1Group:
        folders = {controller: folder / name for controller, folder in self._folders.items()}
        for controller, folder in folders.items():
            self._make(controller, folder)
        if "cpu" in folders:
            group.write(folders["cpu"] / "cpu.cfs_period_us", group.PERIOD_US)
        if memory_bytes is not None and (memory := folders.get("memory")):
            group.write(memory / "memory.limit_in_bytes", memory_bytes)
            if (swap := memory / "memory.memsw.limit_in_bytes").exists():
                group.write(swap, memory_bytes)
        if pids is not None and "pids" in folders:
            group.write(folders["pids"] / "pids.max", pids + group.OVERHEAD_PIDS)
        return V1Group(folders, cores=self._cores)

    def close(self) -> None:
        for folder in self._folders.values():
            group.remove_folder(folder)
            with contextlib.suppress(OSError):  # another process of ours may be using it
                folder.parent.rmdir()

    def _make(self, controller: str, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        if controller == "cpuset":
            if not self._cores:
                self._cores = group.read(folder.parent / "cpuset.cpus").decode().strip()
                self._mems = group.read(folder.parent / "cpuset.mems").decode().strip()
            group.write(folder / "cpuset.cpus", self._cores)
            group.write(folder / "cpuset.mems", self._mems)
