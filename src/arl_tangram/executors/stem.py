"""The stem as the host sees it: started when it is needed, asked for wardens."""

from __future__ import annotations

import contextlib
import marshal
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from . import boot
from .spawning import spawn


class Entry(NamedTuple):
    """How a warden gets to where it belongs.

    Attributes:
        first: the first process of its environment; 0 if that has no namespaces.
        kinds: which of its namespaces to join.
        files: the files of its group that a process writes to in order to move itself there.
        limits: its limits by what `resource` calls them.
        user: the id that its commands run as; None means our own.
        refused: the filter of the calls its commands are refused; empty if they are trusted.
    """

    first: int
    kinds: int
    files: Sequence[str]
    limits: Mapping[int, int]
    user: int | None
    refused: bytes

    def order(self) -> bytes:
        """The order to make a warden so."""
        where = (self.first, self.kinds, tuple(self.files), dict(self.limits))
        return marshal.dumps(("warden", *where, self.user, self.refused))


class Stem:
    """Args:
    program_fd: an open file with our code for it.
    log: the file it complains to.
    """

    def __init__(self, *, program_fd: int, log: Path) -> None:
        self._program_fd = program_fd
        self._log = log
        self._pid = 0
        self._control: socket.socket | None = None

    def ensure(self) -> None:
        """Start it unless it lives. Blocks for as long as it takes to start a process."""
        if self._pid and os.waitpid(self._pid, os.WNOHANG) == (0, 0):
            return
        if self._control is not None:
            self._control.close()
        argv = boot.command("stem")
        self._control, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with inside:
            fds = {boot.CONTROL_FD: inside.fileno(), boot.PROGRAM_FD: self._program_fd}
            self._pid = spawn(argv, fds=fds, log=self._log)

    def make_warden(self, entry: Entry, inside: socket.socket) -> None:
        """Have it make a warden that talks through this socket; if it cannot, the socket closes."""
        if self._control is not None:
            with contextlib.suppress(OSError):
                socket.send_fds(self._control, [entry.order()], [inside.fileno()])

    def close(self) -> None:
        """End it; the wardens that it has made live on."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._pid:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
            self._pid = 0
