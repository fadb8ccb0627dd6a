"""The first process of an environment: reaps what nobody else does and makes wardens."""

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import select
import sys
import time

from arl_tangram.executors.inside import calls, frames, tree
from arl_tangram.executors.inside.spawn import Spawner
from arl_tangram.executors.inside.warden import Gone, Warden

CONTROL = 3
CLOSE_ON_EXEC = 0x40000000  # MSG_CMSG_CLOEXEC
NAME = b"tangram-init"
END_S = 5.0
SHM = "/dev/shm"  # noqa: S108  a new file system of this environment


class First:
    """Args:
    user: the user id that commands run as; None means this process's own.
    alone: whether this is the first process of a PID namespace, which ends with it.
    """

    def __init__(self, *, user: "int | None", alone: bool) -> None:
        self._user = user
        self._alone = alone
        self._control = _socket.socket(fileno=CONTROL)
        self._wardens: set[int] = set()
        self._ended = select.poll()
        self._wake, self._waker = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)

    def serve(self) -> None:
        calls.rename(NAME)
        calls.prctl(calls.PR_SET_NO_NEW_PRIVS, 1)
        calls.prctl(calls.PR_SET_CHILD_SUBREAPER, 1)
        calls.prctl(calls.PR_SET_DUMPABLE, 0)
        if self._alone:
            posix.chmod(SHM, 0o1777)  # it is new, and ours
        posix.chdir("/")
        posix.umask(0o022)
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL if self._alone else _signal.SIG_IGN)
        _signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda number, stack: None)
        self._ended.register(self._wake, select.POLLIN)
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        poll.register(CONTROL, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll()]
            self._reap()
            if CONTROL in ready:
                self._obey()

    def _obey(self) -> None:
        try:
            order, ancillary, _, _ = self._control.recvmsg(16, 64, CLOSE_ON_EXEC)
        except OSError:
            order = b""
        if not order:
            self._end()
        for _, _, data in ancillary:
            self._make_warden(int.from_bytes(data[:4], sys.byteorder))

    def _make_warden(self, fd: int) -> None:
        try:
            pid = posix.fork()
        except OSError:
            posix.close(fd)  # the host sees the other end close
            return
        if pid == 0:
            code = 1
            try:
                self._become_warden(fd)
                code = 0
            except Gone:
                code = 0
            finally:
                posix._exit(code)
        posix.close(fd)
        self._wardens.add(pid)

    def _become_warden(self, fd: int) -> None:
        for inherited in (self._wake, self._waker, CONTROL):
            posix.close(inherited)
        calls.rename(b"tangram-warden")
        calls.prctl(calls.PR_SET_CHILD_SUBREAPER, 1)
        for number in (1, 2, 3, 10, 12, 13, 15):
            _signal.signal(number, _signal.SIG_IGN)
        if self._user is not None:
            posix.setgroups([])
            _go_first()
        calls.prctl(calls.PR_SET_DUMPABLE, 1)  # else its own files in /proc are not its own
        try:
            oom = posix.open("/proc/self/oom_score_adj", posix.O_WRONLY | posix.O_CLOEXEC)
        except OSError:
            oom = -1
        calls.prctl(calls.PR_SET_DUMPABLE, 0)
        sock = _socket.socket(fileno=fd)
        try:
            Warden(sock, Spawner(self._user, oom)).serve()
        except Exception as error:
            text = f"{type(error).__name__}: {error}".encode(errors="replace")
            sock.sendall(frames.to_host([frames.CRASHED], [b"", b"", b"", b"", text]))
            raise

    def _reap(self) -> None:
        try:
            posix.read(self._wake, 4096)
        except BlockingIOError:
            pass
        lost = False
        while True:
            try:
                pid, _ = posix.waitpid(-1, posix.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            lost |= pid in self._wardens
            self._wardens.discard(pid)
        if lost:  # what a killed warden answered for is ours now: end it in its stead
            for child in tree.children(posix.getpid()):
                if child not in self._wardens:
                    tree.end_below(child)
                    tree.signal_each([child], tree.SIGKILL)

    def _end(self) -> None:
        if not self._alone:
            deadline = time.monotonic() + END_S
            while tree.children(posix.getpid()) and time.monotonic() < deadline:
                tree.end_below(posix.getpid())
                self._wardens.clear()
                self._ended.poll(5)
                self._reap()
        posix._exit(0)


def _go_first() -> None:
    """Let this process run before a crowd of its commands, and those at the usual priority."""
    try:
        policy = posix.SCHED_OTHER | posix.SCHED_RESET_ON_FORK
        posix.setpriority(posix.PRIO_PROCESS, 0, -20)
        posix.sched_setscheduler(0, policy, posix.sched_param(0))
    except OSError:
        posix.setpriority(posix.PRIO_PROCESS, 0, 0)


def main() -> None:
    """Read the arguments: the user id or ``-``, then ``alone`` or ``shared``."""
    user, alone = sys.argv[1:3]
    posix.closerange(CONTROL + 1, 1 << 20)
    First(user=None if user == "-" else int(user), alone=alone == "alone").serve()
