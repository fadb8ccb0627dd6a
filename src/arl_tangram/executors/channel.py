"""Frames to and from a process inside an environment, on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

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
        self._unsent = bytearray()
        self._open = True
        self._loop.add_reader(sock.fileno(), self._readable)

    def send(self, data: bytes) -> None:
        """Send this, in order; what does not fit is sent as soon as there is room."""
        if not self._open:
            return
        if not self._unsent:
            try:
                sent = self._sock.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # the end is noticed by the reader
            if sent == len(data):
                return
            data = data[sent:]
            self._loop.add_writer(self._sock.fileno(), self._writable)
        self._unsent += data

    def close(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._sock.fileno())
            if self._unsent:
                self._loop.remove_writer(self._sock.fileno())
                self._unsent.clear()
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
        with contextlib.suppress(BlockingIOError):
            try:
                sent = self._sock.send(self._unsent[:CHUNK])
            except OSError as error:
                if isinstance(error, BlockingIOError):
                    raise
                sent = len(self._unsent)
            del self._unsent[:sent]
            if not self._unsent:
                self._loop.remove_writer(self._sock.fileno())
