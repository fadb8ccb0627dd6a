"""The first process of an environment as the host sees it: started, asked for wardens, ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from .boot import CONTROL_FD, PROGRAM_FD
from .group import Group
from .inside import tree
from .spawning import spawn
from .stem import Entry, Stem

READY_FD, INFO_FD, REFUSED_FD = 3, 5, 6
END_S = 6.0

# The first process of a PID namespace: it takes in what has lost its parent, and does nothing else.
FIRST = "sleep 2147483647 & echo >&3; exec 3>&-; while :; do wait; sleep 2147483647 & done"


class Runner:
    """The first process of one environment.

    Args:
        log: the file it complains to.
        stem: what makes the wardens of an environment behind walls; None without walls, where the
            first process does.
        refused: the filter of the calls that an environment behind walls is refused, if any.

    Attributes:
        died: whether it has ended.
        on_death: called once when it does.
        pid: the process that was started, bubblewrap if there are walls.
        entry: how wardens get to where they belong; set before the first is made.
    """

    def __init__(self, log: Path, *, stem: Stem | None, refused: bytes = b"") -> None:
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._stem = stem
        self._refused = refused
        self.died = False
        self.on_death: Callable[[], None] = lambda: None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.pid = 0
        self.entry = Entry(0, 0, (), {}, None, b"")
        self._first_pid = 0
        self._first = self._watched = -1
        self._control: socket.socket | None = None

    def start(self, argv: list[str], *, program_fd: int) -> int:
        """Start it and return the first process's id; 0 if it never came to be. Blocks.

        May be called from another thread, which it may then be told to end with.
        """
        if self._stem is None:
            self._control, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with inside:
                fds = {CONTROL_FD: inside.fileno(), PROGRAM_FD: program_fd}
                self.pid = self._first_pid = spawn(argv, fds=fds, log=self._log)
        else:
            self._stem.ensure()
            self._first_pid = self._start_behind_walls(argv)
        if self._first_pid:
            self._first = os.pidfd_open(self._first_pid)
        return self._first_pid

    def _start_behind_walls(self, argv: list[str]) -> int:
        (ready, says_ready), (info, says_info), (refused, says_refused) = (
            os.pipe2(os.O_CLOEXEC) for _ in range(3)
        )
        try:
            try:
                os.write(says_refused, self._refused)
                fds = {READY_FD: says_ready, INFO_FD: says_info, REFUSED_FD: refused}
                self.pid = spawn(argv, fds=fds, log=self._log)
            finally:
                for fd in (says_ready, says_info, refused, says_refused):
                    os.close(fd)
            return _child_pid(info) if os.read(ready, 1) else 0
        finally:
            os.close(ready)
            os.close(info)

    def watch(self) -> None:
        """Notice its end from now on."""
        self._watched = os.pidfd_open(self.pid)
        self._loop.add_reader(self._watched, self._reap)

    def make_warden(self, inside: socket.socket) -> None:
        """Have a warden made that talks through this socket; if it cannot be, the socket closes."""
        if self._stem is not None:
            self._stem.make_warden(self.entry, inside)
        elif self._control is not None:
            with contextlib.suppress(OSError):  # its death is noticed by its own means
                socket.send_fds(self._control, [self.entry.order()], [inside.fileno()])

    def end_orphans(self) -> None:
        """Kill what a warden that was lost has left to the first process. Blocks."""
        if self._stem is not None and not self.died:
            tree.end_below(self._first_pid)  # wardens are the stem's children, so they are spared

    @staticmethod
    def end_below_warden(pid: int, group: Group) -> None:
        """Kill, from outside, what a warden answers for, and wake the warden up. Blocks."""
        if pid <= 1:
            return
        if tree.read(f"/proc/{pid}/comm") != b"tangram-warden\n":
            return  # it has ended, and another process may have its id
        group.freeze()  # so that nothing is started meanwhile
        tree.end_below(pid)
        tree.signal_each([pid], signal.SIGCONT)
        group.thaw()

    def kill(self) -> None:
        """End everything at once."""
        # Bubblewrap ends after the first process has, and with it all others; that is what we
        # wait for, so it is not killed itself.
        if not self.died:
            with contextlib.suppress(ProcessLookupError):
                if self._first >= 0:
                    signal.pidfd_send_signal(self._first, signal.SIGKILL)
                else:
                    self._kill_bubblewrap()

    async def death(self, seconds: float) -> None:
        """Wait until it has ended, at most so long."""
        await asyncio.wait([self._ended], timeout=seconds)

    async def end(self) -> None:
        """End everything and wait until it is gone."""
        if self._watched < 0:
            self.watch()
        if self._stem is not None:
            self.kill()  # all processes of a PID namespace end with its first
        if self._control is not None:
            self._control.close()
        await self.death(END_S)
        if not self.died:
            self._kill_bubblewrap()
        await self._ended

    def trouble(self) -> str:
        """What is wrong with it, for a sentence that starts with the environment's name."""
        return "has ended" + (f": {last}" if (last := self.complaint()) else "")

    def complaint(self) -> str:
        """The last thing it has complained of."""
        lines = self._log.read_text(errors="replace").split("\n") if self._log.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _kill_bubblewrap(self) -> None:
        # Early on its child does not yet end with it, and would wait for it forever.
        tree.signal_each([*tree.children(self.pid), self.pid], signal.SIGKILL)

    def _reap(self) -> None:
        self._loop.remove_reader(self._watched)
        os.close(self._watched)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.died = True
        if self._first >= 0:
            os.close(self._first)
            self._first = -1
        self.on_death()
        self._ended.set_result(None)


def _child_pid(info: int) -> int:
    """The first process's id from what bubblewrap has written."""
    _, _, number = os.read(info, 65536).partition(b'"child-pid":')
    return int(number.split(b",")[0].strip(b" \n}")) if number else 0
