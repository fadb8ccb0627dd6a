"""Frames to and from a process inside an environment, on the event loop."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence

from .inside.frames import Reader

CHUNK = 65_536
"""The most taken at once. A larger buffer would be mapped and unmapped for every message."""


class Channel:
    """The host's end of a warden's socket.

    Args:
        sock: connected; the channel owns it from now on.
        on_payload: called with each frame's payload.
        on_end: called once, when the other end is gone or talks nonsense.
        most: the largest frame taken.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        on_payload: Callable[[bytes], None],
        on_end: Callable[[], None],
        most: int,
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._reader = Reader(most)
        self._on_payload = on_payload
        self._on_end = on_end
        self._unsent: deque[tuple[memoryview, Sequence[int]]] = deque()
        self._open = True
        self._loop.add_reader(sock.fileno(), self._readable)

    def send(self, data: bytes, *, fds: Sequence[int] = ()) -> None:
        """Send this, in order; what does not fit is sent as soon as there is room.

        The other end has the descriptors before the first byte. They are ours to close.
        """
        if not self._open:
            _close(fds)
            return
        waits = bool(self._unsent)
        self._unsent.append((memoryview(data), fds))
        if not waits:
            self._push()
            if self._unsent:
                self._loop.add_writer(self._sock.fileno(), self._writable)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._sock.fileno())
            if self._unsent:
                self._loop.remove_writer(self._sock.fileno())
                self._drop()
            self._sock.close()

    def _readable(self) -> None:
        payloads: list[bytes] = []
        ended = False
        try:
            data = self._sock.recv(CHUNK)
            ended = not data
            payloads = self._reader.feed(data)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            ended = True
        for payload in payloads:
            self._on_payload(payload)
        if ended and self._open:
            self.close()
            self._on_end()

    def _writable(self) -> None:
        self._push()
        if not self._unsent:
            self._loop.remove_writer(self._sock.fileno())

    def _push(self) -> None:
        """Send what there is room for."""
        while self._unsent:
            data, fds = self._unsent[0]
            try:
                sent = socket.send_fds(self._sock, [data], fds) if fds else self._sock.send(data)
            except BlockingIOError:
                return
            except OSError:  # the end is noticed by the reader
                self._drop()
                return
            _close(fds)
            if sent == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = (data[sent:], ())

    def _drop(self) -> None:
        for _, fds in self._unsent:
            _close(fds)
        self._unsent.clear()


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
