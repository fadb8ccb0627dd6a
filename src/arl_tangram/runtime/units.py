"""Reads what people write for amounts: durations, sizes of memory, and numbers of cores."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from ..core.model import CPU, MILLI, Elastic
from ..core.speedup import Speedup
from ..errors import InvalidAction

Duration = float | int | str | timedelta
"""Seconds, or text such as ``"250ms"``, ``"30s"``, ``"1h30m"``."""
Size = int | str
"""Bytes, or text such as ``"512MiB"``, ``"2GB"``."""
Cpus = float | int | str | Sequence[int]
"""One amount, ``(least, most)``, a list of the allowed amounts, or text: ``"2"``, ``"1:8"``."""

MIB = 1024 * 1024

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_BYTES = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**i for i, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}{ib}": 1024**i for i, prefix in enumerate("kmgt", 1) for ib in ("", "ib")},
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_LEAST_MILLI = 10
"""The smallest share of a core that the kernel's CPU bandwidth control can express."""


class CpuRequest(NamedTuple):
    """What an action asks of the processors: a fixed amount, or an elastic range."""

    milli: int
    elastic: Elastic | None


def seconds(value: Duration, field: str) -> float:
    """A span of time in seconds; raises `InvalidAction` unless it is positive and finite."""
    said = f"{field}={value!r}"
    if isinstance(value, timedelta):
        span = value.total_seconds()
    elif isinstance(value, str):
        text = value.strip().lower()
        parts = _PART.findall(text)
        if parts and "".join(number + unit for number, unit in parts) == text:
            span = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        else:
            span = _number(text, said, 'seconds such as 2.5, or text such as "30s" or "1h30m"')
    else:
        span = _number(value, said, 'seconds such as 2.5, or text such as "30s" or "1h30m"')
    if not 0 < span < float("inf"):
        raise InvalidAction(f"{said}: give a time above 0, or leave it out")
    return span


def size_bytes(value: Size, field: str) -> int:
    """An amount of memory in bytes; raises `InvalidAction` unless it is positive."""
    said = f"{field}={value!r}"
    want = 'bytes such as 1048576, or text such as "512MiB" or "2GB"'
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip().lower())
        if match is None or match[2] not in _BYTES:
            raise InvalidAction(f"{said}: give {want}")
        amount = float(match[1]) * _BYTES[match[2]]
    else:
        amount = _number(value, said, want)
    if amount < 1:
        raise InvalidAction(f"{said}: a size is at least one byte")
    return int(amount)


def size_mib(value: Size, field: str) -> int:
    """An amount of memory in MiB, rounded up, since less than asked for could break a program."""
    size = size_bytes(value, field)
    if size < MIB:
        raise InvalidAction(f'{field}={value!r}: {size} bytes hold no program; say "512MiB"')
    return -(-size // MIB)


def memory_mib(value: Size | None) -> int | None:
    """What `memory=` means in MiB; None is no limit."""
    return None if value is None else size_mib(value, "memory")


def cpu_request(
    value: Cpus, *, field: str = "cpus", resizable: bool = True, speedup: Speedup | None = None
) -> CpuRequest:
    """What `cpus=` means: 2, 0.25, ``(1, 8)`` for all from 1 to 8, or ``[1, 2, 4]`` for just these.

    Whoever reads JSON has no tuples, so there ``"1:8"`` is the range and ``[1, 2, 4]`` the list.
    """
    if type(value) is int and value > 0:  # what nearly everybody writes
        return CpuRequest(value * MILLI, None)
    said = f"{field}={value!r}"
    want = "a number such as 2 or 0.25, a range such as (1, 8), or a list such as [1, 2, 4]"
    given = _parsed(value, said, want) if isinstance(value, str) else value
    if isinstance(given, Sequence):
        amounts = _amounts(given, said, want)
        if len(amounts) > 1:
            elastic = Elastic(units=amounts, speedup=speedup, resizable=resizable, resource=CPU)
            return CpuRequest(0, elastic)
        given = amounts[0]
    milli = round(_number(given, said, want) * MILLI)
    if milli < _LEAST_MILLI:
        raise InvalidAction(f"{said}: at least {_LEAST_MILLI / MILLI} of a core")
    return CpuRequest(milli, None)


def _amounts(given: Sequence[int], said: str, want: str) -> tuple[int, ...]:
    amounts = tuple(given)
    if not amounts or not all(type(n) is int and n >= 1 for n in amounts):
        raise InvalidAction(f"{said}: give {want}; a range or a list is of whole cores from 1")
    if isinstance(given, tuple):
        if len(amounts) != 2 or amounts[0] > amounts[1]:
            raise InvalidAction(f"{said}: a range is (least, most), such as (1, 8)")
        return tuple(range(amounts[0], amounts[1] + 1))
    return tuple(sorted(set(amounts)))


def _parsed(text: str, said: str, want: str) -> float | Sequence[int]:
    try:
        if ":" in text:
            least, most = text.split(":")
            return (int(least), int(most))
        if "," in text:
            return [int(part) for part in text.split(",")]
        return float(text)
    except ValueError:
        raise InvalidAction(f"{said}: give {want}, as text 2, 0.25, 1:8 or 1,2,4") from None


def _number(value: object, said: str, want: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidAction(f"{said}: give {want}")
    try:
        number = float(value)
    except ValueError:
        raise InvalidAction(f"{said}: give {want}") from None
    if not math.isfinite(number):
        raise InvalidAction(f"{said}: give {want}")
    return number
