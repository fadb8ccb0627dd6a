"""The processes below a process, and how to end all of them."""

import posix
import time

SIGKILL, SIGSTOP = 9, 19
ENOUGH = 4 << 20
# Where the fields of /proc/PID/stat are after the name, and flags of the kernel.
FLAGS, PENDING = 6, 28
EXITING, SIGNALED = 0x4, 0x400


def read(path: str) -> bytes:
    """All of a small file; empty if it cannot be read."""
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        text = b""
        while chunk := posix.read(fd, 65536):
            text += chunk
            if len(text) > ENOUGH:
                break
        return text
    except OSError:
        return b""
    finally:
        posix.close(fd)


def write(path: str, data: bytes) -> None:
    """Write to an existing file."""
    fd = posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC)
    try:
        posix.write(fd, data)
    finally:
        posix.close(fd)


def threads(pid: int) -> list[str]:
    """The threads of a process; none if it is gone."""
    try:
        return posix.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def children(pid: int) -> list[int]:
    """The children of a process, as far as they can be seen at this moment."""
    return [
        int(child)
        for thread in threads(pid)
        for child in read(f"/proc/{pid}/task/{thread}/children").split()
    ]


def _parents() -> dict[int, int]:
    parents = {}
    for name in posix.listdir("/proc"):
        if name.isdigit() and (stat := read(f"/proc/{name}/stat")):
            parents[int(name)] = int(stat.rsplit(b")", 1)[1].split()[1])
    return parents


def descendants(root: int) -> list[int]:
    """All processes below `root`, parents first; never this one.

    Of no process, and of the first of all, nothing is found: a mistake must not reach further than
    an environment.
    """
    if root <= 1:
        return []
    if not posix.access(f"/proc/{root}/task/{root}/children", posix.R_OK):
        return _descendants_by_scan(root)
    found: list[int] = []
    queue = children(root)
    seen = set(queue)
    while queue:
        pid = queue.pop()
        found.append(pid)
        for child in children(pid):
            if child not in seen:
                seen.add(child)
                queue.append(child)
    return found


def _descendants_by_scan(root: int) -> list[int]:
    parents = _parents()
    found: list[int] = []
    front = {root}
    while front:
        front = {pid for pid, parent in parents.items() if parent in front}
        found += front
    return found


def living(pids: list[int]) -> list[int]:
    """Those of these processes that have not ended; one may wait unseen for its parent."""
    states = {pid: read(f"/proc/{pid}/stat").rpartition(b")")[2].lstrip()[:1] for pid in pids}
    return [pid for pid, state in states.items() if state not in (b"", b"Z", b"X")]


def dying(pids: list[int]) -> list[int]:
    """Those of these processes that have been killed and are not gone yet."""
    found = []
    for pid in pids:
        fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if len(fields) > PENDING and fields[0] not in (b"Z", b"X"):
            ending = int(fields[FLAGS]) & (EXITING | SIGNALED)
            if ending or int(fields[PENDING]) & 1 << (SIGKILL - 1):
                found.append(pid)
    return found


def signal_each(pids: list[int], number: int) -> None:
    """Send a signal to each of these processes; those that are gone are passed over.

    What is no id of a single process is passed over too: to the kernel it would mean many.
    """
    for pid in pids:
        if pid > 1:
            try:
                posix.kill(pid, number)
            except OSError:
                pass


def end_below(root: int, spared: frozenset[int] = frozenset(), seconds: float = 0.25) -> None:
    """Send SIGKILL to everything below `root` except the spared; does not wait for their end.

    They are stopped first, again and again until nothing new appears, so that a process that
    forks faster than it can be killed does not get away.
    """
    deadline = time.monotonic() + seconds
    stopped: set[int] = set()
    me = posix.getpid()
    while fresh := [p for p in descendants(root) if p not in stopped | spared and p != me]:
        signal_each(fresh, SIGSTOP)
        stopped.update(fresh)
        if time.monotonic() > deadline:
            break
    signal_each(list(stopped), SIGKILL)
