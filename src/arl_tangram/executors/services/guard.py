"""Runs one program and leaves nothing of it behind, whoever ends first: it, we, or whoever started us.

    python -I -S guard.py LIFELINE OWNER GRACE_S FOLDER PROGRAM [ARGUMENT…]

LIFELINE is the number of an open pipe: after the byte "g" on it, when its other end is closed, or when
the process OWNER has ended, the program is asked to end and killed GRACE_S seconds later; a byte "k"
kills at once. When all is ended, FOLDER is removed with all in it, unless its name is empty, and if
the owner has ended too, so are the folders that stand for memory of devices. The exit status is the
program's. A pipe alone would not do, since a process that the owner forks holds its end open too.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable

DEVICE_FOLDERS = "ARL_TANGRAM_DEVICE_FOLDERS"
"""The variable with the folders that stand for device memory, as `HostDevices` sets it."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(lifeline: int, owner: int, grace_s: float, folder: str, program: list[str]) -> int:
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
    _wait(os.pidfd_open(pid), lifeline, owner, lambda: _signal_group(pid, signal.SIGTERM), grace_s)
    status = _end_all(pid)
    folders = [folder]
    if os.getppid() != owner:  # nobody else gives back what they hold
        folders += os.environ.get(DEVICE_FOLDERS, "").split(os.pathsep)
    _remove(filter(None, folders))
    return status


def _wait(end: int, lifeline: int, owner: int, ask: Callable[[], None], grace_s: float) -> None:
    """Return when the program has ended, or has to be killed."""
    poll = select.poll()
    poll.register(end, select.POLLIN)
    poll.register(lifeline, select.POLLIN | select.POLLHUP)
    try:
        alive = os.pidfd_open(owner)
    except ProcessLookupError:
        alive = -1
    else:
        poll.register(alive, select.POLLIN)
    orphan = alive < 0 or os.getppid() != owner
    ready = set() if orphan else {fd for fd, _ in poll.poll()}
    if end in ready:
        return
    word = os.read(lifeline, 1) if lifeline in ready else b""
    if word == b"k":
        return
    ask()
    if alive >= 0:
        poll.unregister(alive)
    if not word:
        poll.unregister(lifeline)  # nobody is there who could say more
    poll.poll(grace_s * 1000)


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


def _remove(folders: Iterable[str]) -> None:
    for folder in folders:
        import shutil  # noqa: PLC0415  # most programs have none, and start sooner for it

        shutil.rmtree(folder, ignore_errors=True)  # nobody is there to be told


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(
        main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5:])
    )
