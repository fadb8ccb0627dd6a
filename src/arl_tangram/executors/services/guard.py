"""Runs one program and leaves nothing of it behind, whoever ends first: it, we, or whoever started us.

    python -I -S guard.py LIFELINE GRACE_S PROGRAM [ARGUMENT…]

LIFELINE is the number of an open pipe: when its other end is closed the program is asked to end and
killed GRACE_S seconds later; a byte on it kills at once. The exit status is the program's.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(lifeline: int, grace_s: float, program: list[str]) -> int:
    """Run the program to its end and return its exit status."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what it leaves behind becomes our child
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a Ctrl-C is for whoever holds the lifeline
    me = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(libc, me, lifeline, program)
    # Nobody must wait for the end of its output because of us.
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    end = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(lifeline, select.POLLIN | select.POLLHUP)
    poll.register(end, select.POLLIN)
    ready = {fd for fd, _ in poll.poll()}
    if end not in ready and not os.read(lifeline, 1):
        _signal_group(pid, signal.SIGTERM)
        poll.unregister(lifeline)
        poll.poll(grace_s * 1000)
    return _end_all(pid)


def _become(libc: ctypes.CDLL, parent: int, lifeline: int, program: list[str]) -> None:
    try:
        os.setsid()
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        os.close(lifeline)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(program[0], program)  # noqa: S606  # a shell is what it may be itself
    except OSError as error:
        os.write(2, f"{program[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


def _end_all(pid: int) -> int:
    """Kill whatever is left, sessions of its own included; the status of the program itself."""
    status = 0
    _signal_group(pid, signal.SIGKILL)  # also where the system does not tell who our children are
    while True:
        for child in _children():
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while True:
                ended, raw = os.waitpid(-1, os.WNOHANG)
                if ended == pid:
                    code = os.waitstatus_to_exitcode(raw)
                    status = code if code >= 0 else 128 - code
                if ended == 0:
                    break
        except ChildProcessError:
            return status
        time.sleep(0.002)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
