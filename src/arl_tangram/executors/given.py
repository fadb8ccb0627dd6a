"""What a command is given to read, in memory of ours: a descriptor costs its environment nothing."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable

from .copying import write_all

_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def files_of(all_data: Iterable[bytes]) -> list[int]:
    """A descriptor for each of these; all or none."""
    fds: list[int] = []
    try:
        fds.extend(map(file_of, all_data))
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    return fds


def file_of(data: bytes) -> int:
    """A descriptor to read this from; nobody can write to it."""
    fd = os.memfd_create("given", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        fill(fd, data)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def fill(fd: int, data: bytes) -> None:
    """Make this the contents of a file that is read from its start."""
    os.ftruncate(fd, 0)
    write_all(fd, data, 0)
    os.lseek(fd, 0, os.SEEK_SET)
