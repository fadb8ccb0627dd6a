"""Waiting actions in one line for each set of quotas they need, so that an empty quota holds up no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from .entries import Entry
from .queue import Queue


class Lines:
    """Those who wait for one node, or for any."""

    def __init__(self) -> None:
        self._plain: Queue[Entry] = Queue()
        self._metered: dict[tuple[str, ...], Queue[Entry]] = {}
        self._wanted: Counter[tuple[str, int]] = Counter()

    def __len__(self) -> int:
        return len(self._plain) + sum(map(len, self._metered.values()))

    def __iter__(self) -> Iterator[Entry]:
        yield from self._plain
        for queue in self._metered.values():
            yield from queue

    def line_of(self, entry: Entry) -> Queue[Entry]:
        """The line it waits in, or would."""
        if not entry.quotas:
            return self._plain
        return self._metered.setdefault(entry.quotas, Queue())

    @property
    def priority(self) -> int:
        """The highest of those who wait; there is somebody."""
        return max(queue.priority for queue in (self._plain, *self._metered.values()) if len(queue))

    def add(self, entry: Entry, *, first: bool = False) -> None:
        """Let it wait behind, or before, the others of its task and priority."""
        line = self.line_of(entry)
        self._wanted.update((name, entry.least[name]) for name in entry.quotas)
        if first:
            line.add_first(entry)
        else:
            line.add(entry)

    def remove(self, entry: Entry) -> None:
        """Take it out."""
        self.line_of(entry).remove(entry)
        if entry.quotas and not len(self._metered[entry.quotas]):
            del self._metered[entry.quotas]
        for name in entry.quotas:
            wanted = name, entry.least[name]
            self._wanted[wanted] -= 1
            if not self._wanted[wanted]:
                del self._wanted[wanted]

    def promote(self, entry: Entry) -> None:
        """Let it be served before all of the same priority that need tokens of the same quotas."""
        self.line_of(entry).promote(entry)

    def promoted(self) -> Iterator[Entry]:
        """All those promoted."""
        yield from self._plain.promoted()
        for queue in self._metered.values():
            yield from queue.promoted()

    def overdue(self, has_tokens: Callable[[str], bool]) -> Entry | None:
        """The first of those promoted that waits for nothing but its node, if any."""
        first = self._plain.overdue()
        if first is not None or not self._metered:
            return first
        return next((entry for q in self.open(has_tokens) if (entry := q.overdue())), None)

    def open(self, has_tokens: Callable[[str], bool]) -> list[Queue[Entry]]:
        """The lines whose quotas all have tokens now."""
        lines = [queue for quotas, queue in self._metered.items() if all(map(has_tokens, quotas))]
        return [self._plain, *lines] if len(self._plain) else lines

    def needing(self, quotas: Sequence[str]) -> Iterator[Queue[Entry]]:
        """The lines of those who need tokens of any of these quotas."""
        for needed, queue in self._metered.items():
            if not set(needed).isdisjoint(quotas):
                yield queue

    @property
    def wanted(self) -> Collection[tuple[str, int]]:
        """The quotas that somebody waits for here, with every number of tokens that is needed."""
        return self._wanted.keys()
