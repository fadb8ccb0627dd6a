"""Starting a process of our own without a fork of this one, which may be large."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Mapping
from pathlib import Path

_OUT_OF_THE_WAY = 16


def spawn(argv: list[str], *, fds: Mapping[int, int], log: Path) -> int:
    """Start a program in a session of its own, with nothing of ours but `fds`; returns its id.

    `fds` maps its descriptors to ours. It reads nothing and complains to `log`. It may be told to
    end with the thread that calls this.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    complaints = os.open(log, flags, 0o600)
    # Copied first, or putting one in its place could overwrite another.
    copies = {
        its: fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for its, ours in fds.items()
    }
    try:
        return os.posix_spawn(
            argv[0],
            argv,
            {},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, complaints, 1),
                (os.POSIX_SPAWN_DUP2, complaints, 2),
                *((os.POSIX_SPAWN_DUP2, copy, its) for its, copy in copies.items()),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[
                s for s in signal.valid_signals() if s not in (signal.SIGKILL, signal.SIGSTOP)
            ],
        )
    finally:
        for fd in (*copies.values(), complaints):
            os.close(fd)
