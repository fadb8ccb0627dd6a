"""Whose a group or a folder is, and whether that process still lives."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

_numbers: Iterator[int] = itertools.count()


def start_time(pid: int) -> int | None:
    """When a process started, in ticks since boot; None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(stat.rsplit(b")", 1)[1].split()[19])


def pid_namespace() -> int:
    """The number of the PID namespace that our process ids belong to."""
    return Path("/proc/self/ns/pid").stat().st_ino


def new_name() -> str:
    """A name that tells a later process who made a thing; unique within this process."""
    pid = os.getpid()
    return f"{pid}-{start_time(pid)}-{pid_namespace()}-{next(_numbers)}"


def is_stray(name: str) -> bool:
    """Whether this is a name of `new_name` whose process is known to be gone.

    A name from another PID namespace is not judged: its process may live unseen.
    """
    parts = name.split("-")
    if len(parts) != 4 or not all(part.isdigit() for part in parts):
        return False
    pid, start, namespace = (int(part) for part in parts[:3])
    return namespace == pid_namespace() and start_time(pid) != start
