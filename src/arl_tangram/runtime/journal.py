"""The journal: every event with the commands it caused, one line of JSON each."""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ..core.commands import Command
from ..core.estimates import Learned
from ..core.events import Event
from ..core.kernel import Kernel
from ..errors import ConfigError
from ..policies.eviction import eviction_named
from ..policies.registry import policy_named
from .codec import decode, encode
from .observers import Observer

log = logging.getLogger(__name__)

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a kernel needs to be made the same again.

    Attributes:
        policy: the name of the policy.
        estimates: what had been learned before, as `Learned.to_json` gave it.
        settings: other arguments of the kernel, its eviction by name.
    """

    policy: str
    estimates: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    event: Event
    commands: list[Command]


class JournalWriter(Observer):
    """Writes a journal from a thread of its own, so that scheduling never waits for a disk.

    What is in the file after a crash is a readable beginning of what happened.
    """

    def __init__(self, path: Path, header: Header) -> None:
        try:
            self._file = path.open("w", encoding="utf-8")
            with contextlib.ExitStack() as undo:
                undo.callback(self._discard)
                self._write(self._file, {"journal": VERSION, **encode(header)})
                self._file.flush()
                undo.pop_all()
        except OSError as error:
            raise ConfigError(f"journal={str(path)!r}: {error.strerror}") from error
        self._lines: queue.SimpleQueue[tuple[Event, Sequence[Command]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._drain, name="journal", daemon=True)
        self._thread.start()

    def happened(self, event: Event, commands: Sequence[Command]) -> None:
        self._lines.put((event, commands))

    def close(self) -> None:
        self._lines.put(None)
        self._thread.join()

    def _drain(self) -> None:
        try:
            with self._file as file:
                while (line := self._lines.get()) is not None:
                    event, commands = line
                    self._write(file, {"event": encode(event), "commands": encode(list(commands))})
                    if self._lines.empty():
                        file.flush()
        except OSError as error:
            log.error("the journal ends here: %s", error, extra={"action": "journal"})  # noqa: TRY400
            while self._lines.get() is not None:
                pass

    def _discard(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written once cannot be now
            self._file.close()

    @staticmethod
    def _write(file: TextIO, value: Any) -> None:
        file.write(json.dumps(value, separators=(",", ":")) + "\n")


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal that was read back."""

    header: Header
    lines: list[Line]

    @classmethod
    def read(cls, path: Path) -> Journal:
        """Read a whole journal; a last line cut short by a crash is left out.

        Raises `ConfigError` naming the file and the line that is damaged.
        """
        try:
            with path.open(encoding="utf-8") as file:
                lines = _complete(file)
                header = _header(path, next(lines, (1, ""))[1])
                return cls(header, list(_in_order(path, lines)))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: damaged: {error}") from error

    def kernel(self) -> Kernel:
        """A fresh kernel as the one that wrote this journal was at its start."""
        estimates = Learned.from_json(self.header.estimates) if self.header.estimates else None
        settings = dict(self.header.settings)
        if (eviction := settings.pop("eviction", None)) is not None:
            settings["eviction"] = eviction_named(eviction)
        try:
            return Kernel(policy_named(self.header.policy), estimates, **settings)
        except TypeError as error:
            raise ConfigError(
                f"a journal with other settings than a kernel has: {error}"
            ) from error

    def first_difference(self) -> int | None:
        """Replay it; the index of the first line where a fresh kernel gives other commands."""
        kernel = self.kernel()
        for index, line in enumerate(self.lines):
            if kernel.handle(line.event) != line.commands:
                return index
        return None


def _header(path: Path, text: str) -> Header:
    try:
        data = json.loads(text)
        version = data.pop("journal")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{path}: this is no journal: {error}") from error
    if version != VERSION:
        raise ConfigError(f"{path}: this journal is of version {version}, not {VERSION}")
    try:
        header: Header = decode(Header, data)
        if header.estimates:
            Learned.from_json(header.estimates)
    except ValueError as error:
        raise ConfigError(f"{path}:1: damaged: {error}") from error
    return header


def _in_order(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[Line]:
    before = float("-inf")
    for number, text in lines:
        line = _line(path, number, text)
        if not before <= line.event.at < float("inf"):
            raise ConfigError(f"{path}:{number}: damaged: {line.event.at} is before {before}")
        before = line.event.at
        yield line


def _line(path: Path, number: int, text: str) -> Line:
    try:
        data = json.loads(text)
        return Line(decode(Event, data["event"]), decode(list[Command], data["commands"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path}:{number}: damaged: {error}") from error


def _complete(file: TextIO) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file, 1):
        if line.endswith("\n"):
            yield number, line
