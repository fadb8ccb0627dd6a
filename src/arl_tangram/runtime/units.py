"""Reads what people write for amounts: durations, sizes of memory, and numbers of cores."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import timedelta
from itertools import islice
from typing import NamedTuple

from ..core.model import CPU, MILLI, MOST_UNITS, Elastic
from ..core.speedup import Speedup
from ..errors import InvalidAction
from .checks import shown, wrong

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
_CORES = "a number such as 2 or 0.25, a range such as (1, 8), or a list such as [1, 2, 4]"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_LONGEST_S = 1e9
_MOST_BYTES = 2**60
_MOST_CORES = 10**9
LEAST_MILLI = 10
"""The smallest share of a core that the kernel's CPU bandwidth control can express."""


class CpuRequest(NamedTuple):
    """What an action asks of the processors: a fixed amount, or an elastic range."""

    milli: int
    elastic: Elastic | None


def seconds(value: Duration, field: str) -> float:
    """A span of time in seconds; raises `InvalidAction` unless it is positive and finite."""
    said = f"{field}={shown(value)}"
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
    if span > _LONGEST_S:
        raise InvalidAction(f"{said}: a time limit of many years; leave it out for no limit")
    return span


def size_bytes(value: Size, field: str) -> int:
    """An amount of memory in bytes; raises `InvalidAction` unless it is positive."""
    said = f"{field}={shown(value)}"
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
    if amount > _MOST_BYTES:
        raise InvalidAction(f"{said}: no machine has as much; give {want}")
    return int(amount)


def size_mib(value: Size, field: str) -> int:
    """An amount of memory in MiB, rounded up, since less than asked for could break a program."""
    size = size_bytes(value, field)
    if size < MIB:
        raise InvalidAction(f'{field}={shown(value)}: {size} bytes hold no program; say "512MiB"')
    return -(-size // MIB)


def memory_mib(value: Size | None) -> int | None:
    """What `memory=` means in MiB; None is no limit."""
    return None if value is None else size_mib(value, "memory")


def cpu_request(
    value: Cpus,
    *,
    field: str = "cpus",
    resizable: bool = True,
    speedup: Speedup | None = None,
    most: int = MOST_UNITS,
) -> CpuRequest:
    """What `cpus=` means: 2, 0.25, ``(1, 8)`` for all from 1 to 8, or ``[1, 2, 4]`` for just these.

    Whoever reads JSON has no tuples, so there ``"1:8"`` is the range and ``[1, 2, 4]`` the list. Of
    several amounts, those above `most` are left out, unless all are: nobody could ever get them.
    """
    if type(value) is int and 0 < value <= _MOST_CORES:  # what nearly everybody writes
        return CpuRequest(value * MILLI, None)
    given = _parsed(value, field) if isinstance(value, str) else value
    if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
        amounts = _amounts(given, field, value, most)
        if len(amounts) > 1:
            elastic = Elastic(units=amounts, speedup=speedup, resizable=resizable, resource=CPU)
            return CpuRequest(0, elastic)
        given = amounts[0]
    cores = _number(given, f"{field}={shown(value)}", _CORES)
    if cores > _MOST_CORES:
        raise wrong(field, value, f"no machine has as many; give {_CORES}")
    milli = round(cores * MILLI)
    if milli < LEAST_MILLI:
        raise wrong(field, value, f"at least {LEAST_MILLI / MILLI} of a core")
    return CpuRequest(milli, None)


def owned_milli(value: Cpus | None) -> int:
    """What the `cpus=` of an environment means, which keeps one amount for life."""
    if value is None:
        return 0
    milli, elastic = cpu_request(value)
    if elastic is not None:
        raise wrong("cpus", value, "an environment owns one amount for life, such as 2 or 0.5")
    return milli


def _amounts(given: Sequence[int], field: str, value: object, most: int) -> tuple[int, ...]:
    first = list(islice(given, MOST_UNITS + 1))
    if not 0 < len(first) <= MOST_UNITS or not all(type(n) is int and n >= 1 for n in first):
        raise wrong(field, value, f"give {_CORES}; a range or a list is of whole cores from 1")
    if not isinstance(given, tuple):
        return tuple(n for n in sorted(set(first)) if n <= most) or (min(first),)
    if len(given) != 2 or given[0] > given[1]:
        raise wrong(field, value, "a range is (least, most), such as (1, 8)")
    return tuple(range(given[0], min(given[1], most) + 1)) or (given[0],)


def _parsed(text: str, field: str) -> float | Sequence[int]:
    try:
        if ":" in text:
            least, most = text.split(":")
            return (int(least), int(most))
        if "," in text:
            return [int(part) for part in text.split(",")]
        return float(text)
    except ValueError:
        raise wrong(field, text, f"give {_CORES}, as text 2, 0.25, 1:8 or 1,2,4") from None


def _number(value: object, said: str, want: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidAction(f"{said}: give {want}")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise InvalidAction(f"{said}: give {want}") from None
    if not math.isfinite(number):
        raise InvalidAction(f"{said}: give {want}")
    return number
