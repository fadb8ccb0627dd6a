"""Compares two texts line by line, and applies the difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Keep:
    count: int


@dataclass(frozen=True)
class Delete:
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Insert:
    lines: tuple[str, ...]


Change = Keep | Delete | Insert


class Conflict(ValueError):
    """The changes were made for another text."""


def diff(a: Sequence[str], b: Sequence[str]) -> list[Change]:
    """The shortest list of changes that makes `b` out of `a`; deletions before insertions."""
    common = _common_lengths(a, b)
    steps: list[tuple[str, str]] = []
    i = j = 0
    while i < len(a) or j < len(b):
        if i < len(a) and j < len(b) and a[i] == b[j]:
            steps.append(("keep", a[i]))
            i, j = i + 1, j + 1
        elif j == len(b) or (i < len(a) and common[i + 1][j] >= common[i][j + 1]):
            steps.append(("delete", a[i]))
            i += 1
        else:
            steps.append(("insert", b[j]))
            j += 1
    return [_change(kind, [line for _, line in group]) for kind, group in groupby(steps, _kind)]


def apply(a: Sequence[str], changes: Iterable[Change]) -> list[str]:
    """Carry the changes out on `a`."""
    result: list[str] = []
    cursor = 0
    for change in changes:
        if isinstance(change, Keep):
            if cursor + change.count > len(a):
                raise Conflict(f"line {cursor + 1}: {change.count} lines to keep, fewer are left")
            result += a[cursor : cursor + change.count]
            cursor += change.count
        elif isinstance(change, Delete):
            found = tuple(a[cursor : cursor + len(change.lines)])
            if found != change.lines:
                raise Conflict(f"line {cursor + 1}: {change.lines} to delete, found {found}")
            cursor += 1
        else:
            result += change.lines
    if cursor != len(a):
        raise Conflict(f"line {cursor + 1}: the changes end before the text does")
    return result


def invert(changes: Iterable[Change]) -> list[Change]:
    """The changes that lead back."""
    swapped = {Delete: Insert, Insert: Delete}
    return [c if isinstance(c, Keep) else swapped[type(c)](c.lines) for c in changes]


def unified(changes: Iterable[Change]) -> str:
    """Deleted lines with a minus, inserted ones with a plus, kept ones as their number."""
    lines: list[str] = []
    for change in changes:
        if isinstance(change, Keep):
            lines.append(f"@ {change.count}")
        else:
            sign = "-" if isinstance(change, Delete) else "+"
            lines += [sign + line for line in change.lines]
    return "\n".join(lines)


def _common_lengths(a: Sequence[str], b: Sequence[str]) -> list[list[int]]:
    """For each pair of ends of `a` and `b`, how long their longest common part is."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        row, below = table[i], table[i + 1]
        for j in range(len(b) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if a[i] == b[j] else max(below[j], row[j + 1])
    return table


def _kind(step: tuple[str, str]) -> str:
    return step[0]


def _change(kind: str, lines: list[str]) -> Change:
    if kind == "keep":
        return Keep(len(lines))
    return Delete(tuple(lines)) if kind == "delete" else Insert(tuple(lines))
