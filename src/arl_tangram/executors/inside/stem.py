"""The process that the wardens of all walled environments of a host are forked from.

It lives outside of them. A copy of it enters an environment in a fraction of the time in which an
interpreter starts, and shares its memory with all others.
"""

import posix

from arl_tangram.executors.inside import calls
from arl_tangram.executors.inside.birth import Entry, enter, live_as_warden, tell_birth
from arl_tangram.executors.inside.control import Control
from arl_tangram.executors.inside.tree import write

NAME = b"tangram-stem"
SHM = "/dev/shm"  # noqa: S108  a new file system of an environment
# What a warden needs to drop to the user of its commands, and to end and move their processes.
KEPT = (calls.CAP_KILL, calls.CAP_SETGID, calls.CAP_SETUID, calls.CAP_SYS_NICE)


class Stem:
    """Carries out the orders of the host."""

    def __init__(self) -> None:
        self._control = Control()
        self._groups: set[str] = set()

    def serve(self) -> None:
        """Carry out orders until the host is gone."""
        calls.rename(NAME)
        calls.prctl(calls.PR_SET_CHILD_SUBREAPER, 1)  # else its wardens are nobody's children
        calls.prctl(calls.PR_SET_DUMPABLE, 0)
        calls.leave_keyring()
        posix.umask(0o022)
        while True:
            ordered = self._control.wait()
            self._control.reap()
            if not ordered:
                continue
            order = self._control.take()
            if order is None:
                self._thaw()
                return
            match order[0]:
                case ("warden", *entry):
                    self._make_warden(order[1], tuple(entry))  # type: ignore[arg-type]
                case _:
                    posix.close(order[1])

    def _thaw(self) -> None:
        """Let go of all that is frozen: by the first version of control groups it cannot die."""
        for group in self._groups:
            try:
                write(f"{group}/freezer.state", b"THAWED")
            except OSError:
                pass  # another kind of group, or gone by now

    def _make_warden(self, fd: int, entry: Entry) -> None:
        first, kinds, entries, limits, user, refused = entry
        try:
            pid = posix.fork()
        except OSError:
            posix.close(fd)  # the host sees the other end close
            return
        self._groups.update(path.rpartition("/")[0] for path in entries)
        if pid == 0:
            try:
                self._control.leave()
                posix.setsid()
                enter(entries, limits)
                calls.join_namespaces(first, kinds)
                posix.chdir("/")
                if user is not None:
                    posix.chmod(SHM, 0o1777)  # bubblewrap has made it, for root alone
                calls.keep_capabilities(KEPT if user is not None else ())
                # Only a child is in the PID namespace that its parent has joined.
                if (pid := posix.fork()) == 0:
                    live_as_warden(fd, user, refused)
                tell_birth(fd, pid)
            finally:
                posix._exit(0)
        posix.close(fd)
