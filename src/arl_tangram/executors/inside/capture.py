"""What a command printed, in bounded memory: the head and the tail, and how much it was."""

import posix

CHUNK = 65536
PIPE_MOST = 1 << 20


class Capture:
    """The reading end of one output pipe.

    Attributes:
        ended: whether nothing more can come.
        total: the bytes read so far.
        head, tail: what is kept of them; together they are all of it, if `total` allows.
    """

    def __init__(self, limit: int) -> None:
        self.reading, self.writing = posix.pipe2(posix.O_CLOEXEC)
        posix.set_blocking(self.reading, False)
        self.ended = False
        self.begin(limit)

    def begin(self, limit: int) -> None:
        """Start to count and keep anew."""
        self.total = 0
        self.head = bytearray()
        self.tail = bytearray()
        self._head_most = limit - limit // 2
        self._tail_most = limit // 2

    def pull(self) -> bool:
        """Read what is there, at most one chunk; False when the pipe has ended."""
        try:
            data = posix.read(self.reading, CHUNK)
        except BlockingIOError:
            return True
        if not data:
            self.ended = True
            return False
        self._keep(data)
        return True

    def drain(self) -> None:
        """Read what is in the pipe now, without waiting for more."""
        most = self.total + PIPE_MOST
        while self.total < most and not self.ended:
            try:
                data = posix.read(self.reading, CHUNK)
            except BlockingIOError:
                return
            if not data:
                self.ended = True
                return
            self._keep(data)

    def close_writing(self) -> None:
        """Leave the writing end to the command."""
        posix.close(self.writing)
        self.writing = -1

    def close(self) -> None:
        posix.close(self.reading)
        if self.writing >= 0:
            posix.close(self.writing)

    def _keep(self, data: bytes) -> None:
        self.total += len(data)
        room = self._head_most - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if data:
            tail = self.tail
            tail += data
            if len(tail) > self._tail_most + CHUNK:
                del tail[: len(tail) - self._tail_most]

    def kept(self) -> list[bytes]:
        """Head and tail, the tail cut to its limit."""
        tail = self.tail
        if len(tail) > self._tail_most:
            del tail[: len(tail) - self._tail_most]
        return [bytes(self.head), bytes(tail)]
