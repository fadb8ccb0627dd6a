"""The first process of an environment as the host sees it: started, asked for wardens, ended."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from .boot import CONTROL_FD, PROGRAM_FD
from .group import Group
from .inside import tree

INFO_FD = 5
END_S = 6.0


class Runner:
    """The first process of one environment.

    Args:
        log: the file it complains to.
        namespaces: whether bubblewrap puts it into namespaces of its own.

    Attributes:
        died: whether it has ended.
        on_death: called once when it does.
    """

    def __init__(self, log: Path, *, namespaces: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._namespaces = namespaces
        self.died = False
        self.on_death: Callable[[], None] = lambda: None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.pid = 0
        self._first_pid = 0
        self._first = self._watched = -1

    def start(self, argv: list[str], *, program_fd: int) -> None:
        """Start bubblewrap and the interpreter, or the interpreter alone; `program_fd` is an open
        file with our code for it. May be called from another thread.
        """
        control, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        read_info, info = os.pipe2(os.O_CLOEXEC)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        complaints = os.open(self._log, flags, 0o600)
        # Copied out of the way first, or putting one in its place could overwrite the next.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 16) for fd in (inside.fileno(), info)]
        try:
            # Not `subprocess`: it may fork, which is dear in a large parent.
            self.pid = os.posix_spawn(
                argv[0],
                argv,
                {},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, complaints, 1),
                    (os.POSIX_SPAWN_DUP2, complaints, 2),
                    (os.POSIX_SPAWN_DUP2, high[0], CONTROL_FD),
                    (os.POSIX_SPAWN_DUP2, program_fd, PROGRAM_FD),
                    (os.POSIX_SPAWN_DUP2, high[1], INFO_FD),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=[s for s in signal.valid_signals() if s not in (9, 19)],
            )
        except OSError:
            control.close()
            os.close(read_info)
            raise
        finally:
            for fd in (*high, info, complaints):
                os.close(fd)
            inside.close()
        self._control, self._info = control, read_info
        if not self._namespaces:
            self._first = os.pidfd_open(self.pid)

    def watch(self) -> None:
        """Notice its end from now on."""
        self._watched = os.pidfd_open(self.pid)
        self._loop.add_reader(self._watched, self._reap)

    def learn_first_pid(self) -> int:
        """Wait until the first process exists and return its id; 0 if it never will. Blocks."""
        if not self._namespaces:
            os.close(self._info)
            self._first_pid = self.pid
            return self.pid
        text = b""
        while not text.rstrip().endswith(b"}"):
            chunk = os.read(self._info, 4096)
            if not chunk:
                break
            text += chunk
        os.close(self._info)
        _, _, number = text.partition(b'"child-pid":')
        if not number:
            return 0
        pid = self._first_pid = int(number.split(b",")[0].strip(b" \n}"))
        self._first = os.pidfd_open(pid)
        return pid

    def make_warden(self, inside: socket.socket) -> None:
        """Have the first process make a warden that talks through this socket."""
        with contextlib.suppress(OSError):  # its death is noticed by its own means
            socket.send_fds(self._control, [b"w"], [inside.fileno()])

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

    def end_below_warden(self, inner_pid: int, group: Group) -> None:
        """Kill, from outside, what a warden answers for, and wake the warden up. Blocks."""
        for pid in tree.children(self._first_pid):
            status = Path(f"/proc/{pid}/status")
            with contextlib.suppress(OSError, StopIteration):
                lines = status.read_text().splitlines()
                ids = next(line.split()[1:] for line in lines if line.startswith("NSpid:"))
                if int(ids[-1]) == inner_pid:
                    group.freeze()  # so that nothing is started meanwhile
                    tree.end_below(pid)
                    tree.signal_each([pid], signal.SIGCONT)
                    group.thaw()

    async def death(self, seconds: float) -> None:
        """Wait until it has ended, at most so long."""
        await asyncio.wait([self._ended], timeout=seconds)

    async def end(self) -> None:
        """End everything and wait until it is gone."""
        if self._watched < 0:
            self.watch()
        if self._namespaces:
            self.kill()  # all processes of a PID namespace end with its first
        self._control.close()
        await self.death(END_S)
        if not self.died:
            self._kill_bubblewrap()
        await self._ended

    def _kill_bubblewrap(self) -> None:
        # Early on its child does not yet end with it, and would wait for it forever.
        for pid in (*tree.children(self.pid), self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def trouble(self) -> str:
        """What is wrong with it, for a sentence that starts with the environment's name."""
        return "has ended" + (f": {last}" if (last := self.complaint()) else "")

    def complaint(self) -> str:
        """The last thing it has complained of."""
        lines = self._log.read_text(errors="replace").split("\n") if self._log.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

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
