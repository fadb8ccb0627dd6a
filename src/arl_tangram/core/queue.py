"""The order in which waiting actions are served: priority, a fair share between tasks, arrival."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Generic, Protocol, TypeVar

from .model import TaskId
from .shares import FIRST, Standing


class Queued(Protocol):
    """What can wait in line."""

    task: TaskId
    priority: int
    number: int  # in the order of arrival
    weight: int  # what it counts for in the fair share between tasks

    @property
    def id(self) -> str:
        """What it is known by."""


T = TypeVar("T", bound=Queued)
Line = OrderedDict[str, T]
_OVERDUE = TaskId("\0overdue")  # the line of those who have waited too long, before all tasks'
_TO_COME = 1 << 62  # later than any turn that was


class Queue(Generic[T]):
    """Those who wait for one node, or for any."""

    def __init__(self) -> None:
        self._levels: dict[int, dict[TaskId, Line[T]]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def priority(self) -> int:
        """The highest of those who wait; there is somebody."""
        return max(self._levels)

    def add(self, entry: T) -> None:
        """Let it wait behind the others of its task and the same priority."""
        self._line(entry)[entry.id] = entry
        self._size += 1

    def add_first(self, entry: T) -> None:
        """Let it wait before them: it has been served once already."""
        line = self._line(entry)
        line[entry.id] = entry
        line.move_to_end(entry.id, last=False)
        self._size += 1

    def promote(self, entry: T) -> None:
        """Let it be served before all of the same priority, whatever its task holds."""
        tasks = self._levels[entry.priority]
        if entry.id in tasks.get(_OVERDUE, ()):
            return
        self.remove(entry)
        tasks = self._levels.setdefault(entry.priority, {})
        tasks.setdefault(_OVERDUE, OrderedDict())[entry.id] = entry
        self._size += 1

    def promoted(self) -> Iterator[T]:
        """Those promoted, in the order in which they are served."""
        for priority in sorted(self._levels, reverse=True):
            yield from self._levels[priority].get(_OVERDUE, {}).values()

    def overdue(self) -> T | None:
        """The first of those promoted, if any."""
        return next(self.promoted(), None)

    def remove(self, entry: T) -> None:
        """Take it out, from wherever it stands."""
        priority, task = entry.priority, entry.task
        tasks = self._levels[priority]
        if entry.id in tasks.get(_OVERDUE, ()):
            task = _OVERDUE
        del tasks[task][entry.id]
        self._size -= 1
        if not tasks[task]:
            del tasks[task]
            if not tasks:
                del self._levels[priority]

    def __iter__(self) -> Iterator[T]:
        for tasks in self._levels.values():
            for line in tasks.values():
                yield from line.values()

    def _line(self, entry: T) -> Line[T]:
        tasks = self._levels.setdefault(entry.priority, {})
        line = tasks.get(entry.task)
        if line is None:
            line = tasks[entry.task] = OrderedDict()
        return line

    @staticmethod
    def served(queues: Sequence[Queue[T]], standing: Callable[[T], Standing]) -> Iterator[T]:
        """The entries of several queues as one, in service order, looked up only as far as read.

        Within a priority those promoted go first; then the next one is of the task that stands
        first, the oldest of it; what is passed on the way counts as held, and as its turn.
        """
        busy = [queue for queue in queues if queue._size]
        if len(busy) == 1 and len(busy[0]._levels) == 1:
            (tasks,) = busy[0]._levels.values()
            if len(tasks) == 1:
                (line,) = tasks.values()
                yield from line.values()
                return
        priorities = sorted({p for queue in busy for p in queue._levels}, reverse=True)
        for priority in priorities:
            levels = [q._levels[priority] for q in busy if priority in q._levels]
            yield from _fairly(levels, standing)


def _fairly(
    levels: Sequence[Mapping[TaskId, Line[T]]], standing: Callable[[T], Standing]
) -> Iterator[T]:
    lines: dict[TaskId, list[Line[T]]] = {}
    for level in levels:
        for task, line in level.items():
            lines.setdefault(task, []).append(line)
    merged = {task: _merge(parts) for task, parts in lines.items()}
    heap = []
    for task, entries in merged.items():
        entry = next(entries)
        share = FIRST if task is _OVERDUE else standing(entry)
        heap.append((share, entry.number, task, entry))
    heapq.heapify(heap)
    turns = count(_TO_COME)
    while heap:
        share, _, task, entry = heap[0]
        yield entry
        following = next(merged[task], None)
        if following is None:
            heapq.heappop(heap)
        else:
            if task is not _OVERDUE:
                share = Standing(share.held + entry.weight, next(turns))
            heapq.heapreplace(heap, (share, following.number, task, following))


def _merge(lines: Sequence[Line[T]]) -> Iterator[T]:
    if len(lines) == 1:
        return iter(lines[0].values())
    return heapq.merge(*(line.values() for line in lines), key=lambda entry: entry.number)
