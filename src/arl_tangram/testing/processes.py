"""Looking at processes that may end while one looks."""

from __future__ import annotations

from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Seen:
    """A process as it was when it was seen.

    Attributes:
        words: its command line; empty if it has ended and nobody has asked how.
        zombie: whether that is so.
    """

    process: psutil.Process
    name: str
    words: tuple[str, ...]
    zombie: bool


def descendants(pid: int | None = None) -> list[Seen]:
    """All processes below this one, or below the one that asks; those gone meanwhile are left out."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            told = process.as_dict(("name", "cmdline", "status"), ad_value=None)
        except psutil.NoSuchProcess:
            continue
        zombie = told["status"] == psutil.STATUS_ZOMBIE
        found.append(Seen(process, told["name"] or "", tuple(told["cmdline"] or ()), zombie))
    return found


def processor_seconds(pids: list[int]) -> float:
    """What these have used of processors so far; those gone meanwhile count nothing."""
    total = 0.0
    for pid in pids:
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
