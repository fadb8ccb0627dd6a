"""Orders from the host to a process that makes wardens, and the end of its children."""

import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import posix
import select
import sys

CONTROL = 3
CLOSE_ON_EXEC = 0x40000000  # MSG_CMSG_CLOEXEC
LARGEST = 65536


class Control:
    """The socket that orders come by, and a wake-up whenever a child has ended."""

    def __init__(self) -> None:
        self._sock = _socket.socket(fileno=CONTROL)
        self._wake, self._waker = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        _signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda number, stack: None)
        self._both = select.poll()
        self._both.register(self._wake, select.POLLIN)
        self._both.register(CONTROL, select.POLLIN)
        self._children = select.poll()
        self._children.register(self._wake, select.POLLIN)

    def wait(self) -> bool:
        """Wait until there is something to do; whether an order is among it."""
        return CONTROL in [fd for fd, _ in self._both.poll()]

    def wait_for_child(self, milliseconds: float) -> None:
        """Wait, a bounded time, until a child has ended."""
        self._children.poll(milliseconds)

    def take(self) -> "tuple[tuple[object, ...], int] | None":
        """The next order and the descriptor that came with it; None when the host is gone."""
        try:
            data, ancillary, _, _ = self._sock.recvmsg(LARGEST, 64, CLOSE_ON_EXEC)
        except OSError:
            return None
        if not data:
            return None
        fds = [int.from_bytes(content[:4], sys.byteorder) for _, _, content in ancillary]
        return marshal.loads(data), fds[0] if fds else -1  # noqa: S302  it is from the host

    def reap(self) -> list[int]:
        """Collect the children that have ended."""
        try:
            posix.read(self._wake, 4096)
        except BlockingIOError:
            pass
        ended: list[int] = []
        while True:
            try:
                pid, _ = posix.waitpid(-1, posix.WNOHANG)
            except ChildProcessError:
                return ended
            if not pid:
                return ended
            ended.append(pid)

    def leave(self) -> None:
        """Close it in a forked child."""
        for fd in (self._wake, self._waker, CONTROL):
            posix.close(fd)
