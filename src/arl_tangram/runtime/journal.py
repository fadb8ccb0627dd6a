"""The journal: every event with the commands it caused, one line of JSON each."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ..core.commands import Command
from ..core.events import Event
from ..errors import ConfigError
from .codec import decode, encode
from .observers import Observer

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a kernel needs to be made the same again.

    Attributes:
        policy: the name of the policy.
        estimates: what had been learned before, as `Learned.to_json` gave it.
        settings: other arguments of the kernel.
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
        except OSError as error:
            raise ConfigError(f"journal={str(path)!r}: {error.strerror}") from error
        self._write(self._file, {"journal": VERSION, **encode(header)})
        self._file.flush()
        self._lines: queue.SimpleQueue[tuple[Event, Sequence[Command]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._drain, name="journal", daemon=True)
        self._thread.start()

    def happened(self, event: Event, commands: Sequence[Command]) -> None:
        self._lines.put((event, commands))

    def close(self) -> None:
        self._lines.put(None)
        self._thread.join()

    def _drain(self) -> None:
        with self._file as file:
            while (line := self._lines.get()) is not None:
                event, commands = line
                self._write(file, {"event": encode(event), "commands": encode(list(commands))})
                if self._lines.empty():
                    file.flush()

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
        with path.open(encoding="utf-8") as file:
            lines = _complete(file)
            try:
                first = json.loads(next(lines, (1, ""))[1])
                if first.pop("journal") != VERSION:
                    raise ConfigError(f"{path}: this journal is of another version than {VERSION}")
                header = decode(Header, first)
            except (ValueError, KeyError, AttributeError) as error:
                if isinstance(error, ConfigError):
                    raise
                raise ConfigError(f"{path}: this is no journal: {error}") from error
            return cls(header, [_line(path, number, text) for number, text in lines])


def _line(path: Path, number: int, text: str) -> Line:
    try:
        data = json.loads(text)
        return Line(decode(Event, data["event"]), decode(list[Command], data["commands"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}:{number}: damaged: {error}") from error


def _complete(file: TextIO) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file, 1):
        if line.endswith("\n"):
            yield number, line
