"""Finds free time in calendars; a meeting is ``(start, end)`` in minutes, the end not included."""

from __future__ import annotations

from collections.abc import Iterable

Block = tuple[int, int]


def merge(meetings: Iterable[Block]) -> list[Block]:
    """The busy time as few blocks as possible, in order; blocks that touch become one."""
    blocks: list[Block] = []
    for start, end in sorted(meetings):
        if end < start:
            raise ValueError(f"a meeting that ends before it starts: {start} to {end}")
        if blocks and start <= blocks[-1][1]:
            blocks[-1] = (blocks[-1][0], end)
        else:
            blocks.append((start, end))
    return blocks


def gaps(busy: Iterable[Block], day: Block) -> list[Block]:
    """The free blocks of a day."""
    free: list[Block] = []
    cursor, night = day
    for start, end in merge(busy):
        if start >= night:
            break
        if start > cursor:
            free.append((cursor, start))
        cursor = max(cursor, end)
    if cursor < night:
        free.append((cursor, night))
    return free


def overlap(calendars: Iterable[Iterable[Block]]) -> list[Block]:
    """The blocks in which every calendar is busy."""
    first, *others = [merge(calendar) for calendar in calendars]
    shared = first
    for other in others:
        shared = [
            (max(a, c), min(b, d)) for a, b in shared for c, d in other if max(a, c) < min(b, d)
        ]
    return shared


def first_fit(calendars: Iterable[Iterable[Block]], length: int, day: Block) -> int | None:
    """The earliest minute from which everybody is free for `length` minutes."""
    everything = [meeting for calendar in calendars for meeting in calendar]
    for start, end in gaps(everything, day):
        if end - start >= length:
            return start
    return None
