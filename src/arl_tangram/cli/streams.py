"""Lets a command's output through while it runs."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

# The command itself, with its output to two named pipes in the folder $0.
_SCRIPT = 'exec "$@" >"$0/1" 2>"$0/2"'


STREAMS = {1: "standard output", 2: "standard error"}


class Passage:
    """Two named pipes, and threads that copy what comes through them to our own output.

    The threads and not the event loop write, so that a reader who is slow, such as a pager, delays
    neither a time limit nor a resize.

    Attributes:
        heard_at: when something came through last.
        trouble: why not all of it could be written, if so.
    """

    def __init__(self) -> None:
        self.heard_at = time.monotonic()
        self._folder = tempfile.mkdtemp(prefix="arl-tangram-run-")
        self.trouble = ""
        self._ends: list[int] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        for number in (1, 2):
            path = Path(self._folder) / str(number)
            os.mkfifo(path)
            reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            # Ours keeps the pipe open until the end, also if the command never opens it.
            self._ends.append(os.open(path, os.O_WRONLY))
            os.set_blocking(reading, True)
            thread = threading.Thread(target=self._copy, args=(reading, number), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let the rest through; everything that wrote must have ended."""
        for end in self._ends:
            os.close(end)
        for thread in self._threads:
            thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def through(self, command: Sequence[str]) -> list[str]:
        """The command with its output led through here."""
        return ["/bin/sh", "-c", _SCRIPT, self._folder, *command]

    def _copy(self, source: int, target: int) -> None:
        try:
            while data := os.read(source, 65536):
                self.heard_at = time.monotonic()
                write_all(target, data)
        except BrokenPipeError:
            pass  # nobody reads on: the command will notice
        except OSError as error:
            self.trouble = f"{STREAMS[target]}: {error.strerror}"
        os.close(source)


def write_all(target: int, data: bytes) -> None:
    """Write all of this to a descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]
