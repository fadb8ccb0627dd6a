"""How a forked process becomes a warden."""

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import resource

from arl_tangram.executors.inside import calls, frames
from arl_tangram.executors.inside.spawn import Spawner
from arl_tangram.executors.inside.tree import write
from arl_tangram.executors.inside.warden import Gone, Warden

NAME = b"tangram-warden"
# Ended only by what ends its environment; its commands start with all of these as usual.
IGNORED = (1, 2, 3, 10, 12, 13, 15)


# How a warden gets to where it belongs: `stem.Entry` of the host.
Entry = tuple[int, int, tuple[str, ...], dict[int, int], int | None, bytes]


def live_as_warden(fd: int, user: "int | None", refused: bytes) -> None:
    """Serve the host over this socket and exit.

    `user` is the id that commands run as, if not ours; `refused` the filter of the calls that are
    not for them, empty for commands that are trusted.
    """
    code = 1
    try:
        sock = _socket.socket(fileno=fd)
        try:
            Warden(sock, _prepare(user, refused)).serve()
            code = 0
        except Exception as error:
            text = f"{type(error).__name__}: {error}".encode(errors="replace")
            sock.sendall(frames.to_host([frames.CRASHED], [b"", b"", b"", b"", text]))
            raise
    except Gone:
        code = 0
    finally:
        posix._exit(code)


def _prepare(user: "int | None", refused: bytes) -> Spawner:
    calls.rename(NAME)
    calls.prctl(calls.PR_SET_NO_NEW_PRIVS, 1)
    if refused:
        calls.refuse(refused)
    calls.prctl(calls.PR_SET_CHILD_SUBREAPER, 1)
    for number in IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    if user is None:
        calls.prctl(calls.PR_SET_DUMPABLE, 1)  # else its own files in /proc are not its own
    else:
        posix.setgroups([])
        _go_first()
    try:
        oom = posix.open("/proc/self/oom_score_adj", posix.O_WRONLY | posix.O_CLOEXEC)
    except OSError:
        oom = -1
    calls.prctl(calls.PR_SET_DUMPABLE, 0)
    return Spawner(user, oom)


def _go_first() -> None:
    """Let this process run before a crowd of its commands, and those at the usual priority."""
    try:
        policy = posix.SCHED_OTHER | posix.SCHED_RESET_ON_FORK
        posix.setpriority(posix.PRIO_PROCESS, 0, -20)
        posix.sched_setscheduler(0, policy, posix.sched_param(0))
    except OSError:
        posix.setpriority(posix.PRIO_PROCESS, 0, 0)


def tell_birth(fd: int, pid: int) -> None:
    """Tell the host, over a warden's socket, which process the warden is."""
    sock = _socket.socket(fileno=fd)
    sock.sendall(frames.to_host([frames.BORN, pid], []))
    sock.close()


def enter(entries: "tuple[str, ...]", limits: "dict[int, int]") -> None:
    """Move this process, which has one thread, into its group, and set its limits."""
    for path in entries:
        write(path, b"0")
    for which, value in limits.items():
        resource.setrlimit(which, (value, value))
