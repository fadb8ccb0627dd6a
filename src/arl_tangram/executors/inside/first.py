"""The first process of an environment without namespaces: makes its wardens and ends with all."""

import posix
import time

from arl_tangram.executors.inside import calls, tree
from arl_tangram.executors.inside.birth import Entry, enter, live_as_warden, tell_birth
from arl_tangram.executors.inside.control import Control

NAME = b"tangram-init"
END_S = 5.0


class First:
    """Carries out the orders of the host."""

    def __init__(self) -> None:
        self._control = Control()
        self._wardens: set[int] = set()
        self._apart = False

    def serve(self) -> None:
        """Carry out orders until the host is gone."""
        calls.rename(NAME)
        calls.prctl(calls.PR_SET_NO_NEW_PRIVS, 1)
        calls.prctl(calls.PR_SET_CHILD_SUBREAPER, 1)
        calls.prctl(calls.PR_SET_DUMPABLE, 0)
        posix.chdir("/")
        posix.umask(0o022)
        while True:
            ordered = self._control.wait()
            self._reap()
            if ordered:
                order = self._control.take()
                if order is None:
                    self._end()
                    return
                match order[0]:
                    case ("warden", *entry):
                        self._make_warden(order[1], tuple(entry))  # type: ignore[arg-type]
                    case _:
                        posix.close(order[1])

    def _make_warden(self, fd: int, entry: Entry) -> None:
        _, _, entries, limits, user, refused = entry
        if refused and not self._apart:
            calls.leave_keyring()
            self._apart = True
        try:
            pid = posix.fork()
        except OSError:
            posix.close(fd)  # the host sees the other end close
            return
        if pid == 0:
            try:
                self._control.leave()
                enter(entries, limits)
                live_as_warden(fd, user, refused)
            finally:
                posix._exit(1)
        tell_birth(fd, pid)
        self._wardens.add(pid)

    def _reap(self) -> None:
        ended = self._wardens.intersection(self._control.reap())
        self._wardens -= ended
        if ended:  # what a killed warden answered for is ours now: end it in its stead
            for child in tree.children(posix.getpid()):
                if child not in self._wardens:
                    tree.end_below(child)
                    tree.signal_each([child], tree.SIGKILL)

    def _end(self) -> None:
        deadline = time.monotonic() + END_S
        self._wardens.clear()
        while tree.children(posix.getpid()) and time.monotonic() < deadline:
            tree.end_below(posix.getpid())
            self._control.wait_for_child(5)
            self._control.reap()
