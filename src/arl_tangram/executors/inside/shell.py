"""A resident shell under a warden: commands go in one at a time, and each one's end comes out."""

import posix
import select
import time

from arl_tangram.executors.inside import frames, tree
from arl_tangram.executors.inside.capture import Capture
from arl_tangram.executors.inside.warden import Warden

SETTLE_S = 0.8
"""How long a shell may take to come back after what it waited for was killed."""
KEPT = 1 << 20
OUT_OF_THE_WAY = 100
SIGUSR1, SIGCONT = 10, 18

# A command comes by a file, since a shell reads a pipe byte by byte; a pipe tells that it is there,
# and another how it ended.
#
# A shell cannot be told to drop the command it is in the middle of. So when one is to be ended,
# the shell writes down its variables, functions and options and starts itself anew with them; its
# directory and exported variables stay by themselves.
BASH = rb"""
trap '{ declare -p; declare -f; set +o; shopt -p; } >&253 2>/dev/null
 exec "$BASH" --norc --noprofile -c "$BASH_EXECUTION_STRING" bash again' USR1
if [ "$1" = again ]; then . /proc/self/fd/253 2>/dev/null; shift; echo 137 >&249; fi
while IFS= read -r -u 250 _; do IFS= read -r -d '' -u 251 __arl || :
 eval "$__arl" <&252
 echo $? >&249; done"""
PLAIN = b"""while read -r _ <&7; do command . /proc/self/fd/8 <&9; echo $? >&6; done"""


class Shell:
    """Args:
    warden: whom it lives under; the warden serves nothing else from now on.
    path: the shell's program.
    given: the file that its commands read; the host fills it.
    """

    def __init__(
        self, warden: Warden, path: bytes, env: dict[bytes, bytes], cwd: bytes, given: int
    ) -> None:
        bash = path.endswith(b"bash")
        numbers = (249, 250, 251, 252, 253) if bash else (6, 7, 8, 9, 5)
        options = [b"--norc", b"--noprofile"] if bash else []
        self._warden = warden
        self._out, self._err = Capture(KEPT), Capture(KEPT)
        self._ends, said = posix.pipe2(posix.O_CLOEXEC)
        posix.set_blocking(self._ends, False)
        told, self._tells = posix.pipe2(posix.O_CLOEXEC)
        self._text = posix.memfd_create("command", posix.MFD_CLOEXEC)
        self._state = posix.memfd_create("state", posix.MFD_CLOEXEC)
        self._restores = bash
        nothing = posix.open("/dev/null", posix.O_RDONLY | posix.O_CLOEXEC)
        inherited = (said, told, self._text, given, self._state)
        # Copied first, or putting one in its place could overwrite another.
        copies = [posix.dup2(fd, OUT_OF_THE_WAY + at, False) for at, fd in enumerate(inherited)]
        self._pid = warden.start(
            [path, *options, b"-c", BASH if bash else PLAIN, path],
            env,
            cwd,
            [
                (nothing, 0),
                (self._out.writing, 1),
                (self._err.writing, 2),
                *zip(copies, numbers, strict=True),
            ],
        )
        for fd in (said, told, nothing, *copies):
            posix.close(fd)
        self._out.close_writing()
        self._err.close_writing()
        self._poll = select.poll()
        for fd in (self._out.reading, self._err.reading, self._ends, *warden.waits):
            self._poll.register(fd, select.POLLIN)

    def serve(self) -> None:
        """Run commands until the shell has ended, then stay with what it has left behind."""
        self._warden.listen(True)
        while True:
            match self._warden.next_order():
                case ("command", int(serial), bytes(text), cores, idle_s, int(limit)):
                    if not self._run(serial, text, cores, idle_s, limit):  # type: ignore[arg-type]
                        break
                case ("still", int(serial)):
                    self._warden.tell_what_lives(serial, frozenset({self._pid}))
                case ("end", *_):
                    self._warden.end_all()
                    return
                case _:
                    pass  # meant for a command that has ended
        self._warden.linger([self._out, self._err])

    def _run(
        self,
        serial: int,
        text: bytes,
        cores: tuple[int, ...],
        idle_s: float | None,
        limit: int,
    ) -> bool:
        warden = self._warden
        warden.reap()
        before = frozenset(tree.descendants(posix.getpid()))
        warden.begin()
        self._out.begin(limit)
        self._err.begin(limit)
        began = time.monotonic()
        if cores:
            warden.pin_running(cores)
        _fill(self._text, text)
        self._last_status()
        status, flags = None, 0
        try:
            posix.write(self._tells, b"\n")
            status, flags = self._watch(serial, before, idle_s)
        except BrokenPipeError:
            pass  # it has closed its end, on its own or because a command told it to
        if status is None:
            self._end_shell(before)
            status = warden.status if warden.status is not None else 137
            flags |= frames.SHELL_LOST
        run_us = int((time.monotonic() - began) * 1e6)
        self._out.drain()
        self._err.drain()
        warden.reap()
        if tree.living([p for p in tree.descendants(posix.getpid()) if p != self._pid]):
            flags |= frames.LEFT
        warden.report(serial, status, flags, run_us, self._out, self._err)
        return not flags & frames.SHELL_LOST

    def _watch(
        self, serial: int, before: frozenset[int], idle_s: float | None
    ) -> tuple[int | None, int]:
        """Wait for the end; the exit status is None if the shell itself has ended."""
        warden, flags = self._warden, 0
        heard = time.monotonic()
        wait: float | None = None
        while warden.status is None:
            if warden.stop_ordered(serial):
                return self._end(before), flags | frames.KILLED
            if idle_s is not None:
                wait = max(0.0, (heard + idle_s - time.monotonic()) * 1000 + 1)
                wait = min(wait, 1e9)  # poll(2) takes no more, and it is asked again
            ready = self._poll.poll(wait)
            for fd, _ in ready:
                if fd == self._ends:
                    return self._last_status(), flags
                if fd in warden.waits:
                    warden.attend(fd)
                elif (self._out if fd == self._out.reading else self._err).pull():
                    heard = time.monotonic()
                else:
                    self._poll.unregister(fd)
            if idle_s is not None and not ready and time.monotonic() >= heard + idle_s:
                return self._end(before), flags | frames.IDLE
        return None, flags

    def _last_status(self) -> int | None:
        """The exit status it said last, if it has said one since we asked."""
        try:
            said = posix.read(self._ends, 4096).split()
        except BlockingIOError:
            return None
        if not said:
            return None
        return int(said[-1]) if said[-1].isdigit() else 1  # the command has meddled with it

    def _end(self, before: frozenset[int]) -> int | None:
        """Kill what the command has started; if the shell does not come back by that, it goes."""
        me = posix.getpid()
        spared = before | {self._pid}
        status = None
        if self._restores:
            posix.ftruncate(self._state, 0)
            posix.lseek(self._state, 0, 0)
            tree.signal_each([self._pid], tree.SIGSTOP)
            tree.end_below(me, spared)
            tree.signal_each([self._pid], SIGUSR1)
            tree.signal_each([self._pid], SIGCONT)
            status = self._await_status(spared)
        if status is not None:
            tree.end_below(me, spared)
            self._warden.settle(spared)
        return status

    def _end_shell(self, before: frozenset[int]) -> None:
        """Have it ended, by itself if it is about to, and what its last command started with it."""
        deadline = time.monotonic() + 0.05
        while self._warden.status is None and time.monotonic() < deadline:
            self._warden.wait_for_child(5)
            self._warden.reap()
        if self._warden.status is None:
            spared = before - {self._pid}
            tree.end_below(posix.getpid(), spared)
            self._warden.settle(spared)

    def _await_status(self, spared: frozenset[int]) -> int | None:
        deadline = time.monotonic() + SETTLE_S
        poll = select.poll()
        poll.register(self._ends, select.POLLIN)
        while time.monotonic() < deadline and self._warden.status is None:
            if poll.poll(5):
                return self._last_status()
            tree.end_below(posix.getpid(), spared)
            self._warden.reap()
        return None


def _fill(fd: int, data: bytes) -> None:
    """Make this the contents of a file that a shell reads from its start."""
    posix.ftruncate(fd, 0)
    view = memoryview(data)
    at = 0
    while at < len(data):
        at += posix.pwrite(fd, view[at:], at)
    posix.lseek(fd, 0, 0)
