"""A priority queue whose waiting jobs can be cancelled and reprioritised."""

from __future__ import annotations

from collections.abc import Hashable

Rank = tuple[float, int]


class JobQueue:
    """Jobs by priority (lower first), then in the order they came."""

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, Hashable]] = []
        self._place: dict[Hashable, int] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, job: Hashable) -> bool:
        return job in self._place

    def push(self, job: Hashable, priority: float = 0) -> None:
        if job in self._place:
            raise ValueError(f"{job!r} is waiting already")
        self._arrivals += 1
        self._heap.append(((priority, self._arrivals), job))
        self._place[job] = len(self._heap) - 1
        self._rise(len(self._heap) - 1)

    def peek(self) -> Hashable:
        if not self._heap:
            raise LookupError("no job is waiting")
        return self._heap[0][1]

    def pop(self) -> Hashable:
        job = self.peek()
        self._take_out(0)
        return job

    def cancel(self, job: Hashable) -> None:
        """Take a waiting job out, wherever it is."""
        self._take_out(self._place_of(job))

    def reprioritise(self, job: Hashable, priority: float) -> None:
        """Give a waiting job another priority; among equals it keeps its order of arrival."""
        place = self._place_of(job)
        self._heap[place] = ((priority, self._heap[place][0][1]), job)
        self._rise(place)
        self._sink(self._place[job])

    def _place_of(self, job: Hashable) -> int:
        if job not in self._place:
            raise LookupError(f"{job!r} is not waiting")
        return self._place[job]

    def _take_out(self, place: int) -> None:
        """Remove the entry at `place`; the last entry fills the hole."""
        self._swap(place, len(self._heap) - 1)
        _, job = self._heap.pop()
        del self._place[job]
        if place < len(self._heap):
            self._sink(place)

    def _rise(self, place: int) -> None:
        while place and self._heap[place] < self._heap[(place - 1) // 2]:
            self._swap(place, (place - 1) // 2)
            place = (place - 1) // 2

    def _sink(self, place: int) -> None:
        while (child := 2 * place + 1) < len(self._heap):
            if child + 1 < len(self._heap) and self._heap[child + 1] < self._heap[child]:
                child += 1
            if self._heap[place] < self._heap[child]:
                return
            self._swap(place, child)
            place = child

    def _swap(self, one: int, other: int) -> None:
        heap = self._heap
        heap[one], heap[other] = heap[other], heap[one]
        self._place[heap[one][1]], self._place[heap[other][1]] = one, other
