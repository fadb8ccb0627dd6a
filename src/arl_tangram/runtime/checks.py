"""What an argument of the public interface may be; one that may not is named, shown, and refused."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ..errors import ConfigError, InvalidAction

AnyPath = str | os.PathLike[str]
"""A path as text, or an object that stands for one."""

MOST = 2**53
"""No whole number is larger: whatever reads a journal may hold it as a float."""
_SURROGATE = "it holds a lone surrogate, which is no character"


def wrong(field: str, value: object, want: str) -> InvalidAction:
    """The error that names a field, shows its value, and says what would be right."""
    return InvalidAction(f"{field}={shown(value)}: {want}")


def shown(value: object) -> str:
    """A value for people: short, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # such as a whole number of more digits than Python prints
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 200 else f"{text[:100]}…{text[-99:]}"


@contextlib.contextmanager
def settings(table: str = "") -> Iterator[None]:
    """What is wrong inside is a setting, of this table, and raises `ConfigError`."""
    try:
        yield
    except InvalidAction as error:
        raise ConfigError(f"{table}.{error}" if table else str(error)) from None


def word(value: object, field: str) -> str:
    """A name: text that is not empty."""
    if type(value) is str and value and value.isascii():  # what nearly everybody writes
        return value
    if not isinstance(value, str) or not value:
        raise wrong(field, value, "give a name")
    utf8(value, field)
    return value


def utf8(value: str, field: str) -> bytes:
    """Text as it is stored; a model's JSON may hold half a surrogate pair, which cannot be."""
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise InvalidAction(f"{field}: {_SURROGATE}") from None


def whole(value: object, field: str, *, least: int = -MOST, most: int = MOST) -> int:
    """A whole number."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return int(value)
    limits = f"; at least {least}" if least > -MOST else ""
    raise wrong(field, value, f"give a whole number{limits}, at most {most}")


def priority(value: object) -> int:
    """A priority."""
    if type(value) is int and -MOST <= value <= MOST:
        return value
    try:
        return whole(value, "priority")
    except InvalidAction as error:
        raise InvalidAction(f"{error}; higher goes first") from None


def flag(value: object, field: str) -> bool:
    """True or False, and nothing that only counts as one of them: "no" would be yes."""
    if value is True or value is False:
        return value
    raise wrong(field, value, "give True or False")


def inside(value: object, field: str = "path") -> str:
    """A path in an environment; an empty one is the workspace."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or "\0" in text:
        raise wrong(field, value, "give a path, as text without NUL")
    if not text.isascii() and not encodable(text):
        raise InvalidAction(f"{field}: {_SURROGATE}")
    return text


def path(value: object, field: str) -> Path:
    """A path of this machine; an empty one would be wherever this process happens to be."""
    if not (text := inside(value, field)):
        raise wrong(field, value, "give a path, such as one that begins with /")
    return Path(text)


def optional_path(value: object, field: str) -> Path | None:
    """A path of this machine, or None."""
    return None if value is None else path(value, field)


def paths(value: object, field: str) -> list[Path]:
    """Several paths of this machine."""
    return [path(each, field) for each in _several(value, field, "give a list of paths")]


def words(value: object, field: str) -> list[str]:
    """A name or several."""
    if isinstance(value, str):
        return [word(value, field)]
    several = _several(value, field, "give a name, or a list of them")
    return [word(each, field) for each in several]


def encodable(text: str) -> bool:
    """Whether it can be given to a program, which may be given bytes that are no text."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def _several(value: object, field: str, want: str) -> Collection[object]:
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Collection):
        raise wrong(field, value, want)
    return value
