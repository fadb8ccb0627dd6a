"""Copying a file from one descriptor to another: holes stay holes, and it can be stopped."""

from __future__ import annotations

import errno
import os
import threading

CHUNK = 1 << 20


class Stopped(Exception):
    """Nobody wants the copy any more."""


class Stop:
    """Says when to stop: at the latest when one of these events is set."""

    def __init__(self, *events: threading.Event) -> None:
        self._events = events

    def check(self) -> None:
        """Raise `Stopped` if it is time."""
        if any(event.is_set() for event in self._events):
            raise Stopped


def copy_contents(reading: int, writing: int, stop: Stop) -> None:
    """Copy what a regular file holds at this moment, and the size that it has.

    What is appended meanwhile is left out, so a file that grows as fast as it is read is no trap; and
    a hole costs nothing, so a file of fifteen terabytes with nothing in it costs nothing either.
    """
    end, at = os.fstat(reading).st_size, 0
    while at < end:
        stop.check()
        try:
            at = os.lseek(reading, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # a hole up to the end
        hole = min(os.lseek(reading, at, os.SEEK_HOLE), end)
        while at < hole:
            stop.check()
            data = os.pread(reading, min(CHUNK, hole - at), at)
            if not data:
                break  # it has become shorter
            write_all(writing, data, at)
            at += len(data)
        else:
            continue
        break
    os.ftruncate(writing, min(end, os.fstat(reading).st_size))


def write_all(fd: int, data: bytes, at: int) -> None:
    """Write all of this at a place in a file."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        view, at = view[written:], at + written
