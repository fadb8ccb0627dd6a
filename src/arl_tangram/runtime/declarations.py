"""Reads a file that declares services and quotas."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError
from .checks import AnyPath

_QUOTA = frozenset({"rate", "burst", "concurrency", "daily", "windows", "adaptive"})


class Declared(NamedTuple):
    """What a file says, by name."""

    services: Mapping[str, Mapping[str, Any]]
    quotas: Mapping[str, Mapping[str, Any]]


def read(path: AnyPath) -> Declared:
    """The tables ``[services.NAME]`` and ``[quotas.NAME]`` of a TOML file, still to be judged."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"services={str(path)!r}: {error.strerror}") from error
    with of(path):
        return _tables(_parsed(data))


@contextmanager
def of(path: AnyPath) -> Iterator[None]:
    """What is wrong inside is wrong in this file, and says so."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error.__cause__


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"line {line}: the byte {data[error.start]:#04x} is no UTF-8; TOML is, so save it as that"
        ) from error
    except RecursionError as error:
        raise ConfigError("it is nested too deeply") from error
    except ValueError as error:
        raise ConfigError(f"it is no TOML: {error}") from error


def _tables(document: Mapping[str, Any]) -> Declared:
    for key in document:
        if key not in Declared._fields:
            raise ConfigError(f"{key}: there are [services.NAME] and [quotas.NAME] only")
    tables = Declared(*(document.get(key, {}) for key in Declared._fields))
    for key, table in zip(Declared._fields, tables, strict=True):
        if not isinstance(table, dict) or not all(isinstance(t, dict) for t in table.values()):
            raise ConfigError(f"{key}: each has a table of its own, [{key}.NAME]")
    for name, table in tables.quotas.items():
        if unknown := sorted(table.keys() - _QUOTA):
            raise ConfigError(
                f"quotas.{name}.{unknown[0]}: there is no such key; "
                f"there are {', '.join(sorted(_QUOTA))}"
            )
    return tables
