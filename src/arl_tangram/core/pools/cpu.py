"""Which cores of a node are free, granted whole, or shared by fractional grants."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable

from ..model import MILLI, CpuTopology


class CpuPool:
    """Hands out concrete cores: whole ones inside one NUMA domain where they fit, siblings together.

    A fraction of a core is placed on one shared core with enough room, so that a grant below
    1,000 millicores is always at home on a single core.
    """

    def __init__(self, milli: int, topology: CpuTopology | None = None) -> None:
        whole, rest = divmod(milli, MILLI)
        domains = topology.domains if topology else (tuple(range(whole + bool(rest))),)
        order = _siblings_together(topology)
        cores = [core for domain in domains for core in sorted(domain, key=order)]
        if len(cores) < whole + bool(rest):
            raise ValueError(f"cpu={milli}: the topology names only {len(cores)} cores")
        cores = cores[: whole + bool(rest)]
        self.capacity = milli
        self._rank = {core: i for i, core in enumerate(cores)}
        self._core = cores
        self._domain = {core: i for i, domain in enumerate(domains) for core in domain}
        self._free: list[list[int]] = [[] for _ in domains]  # heaps of ranks, one a domain
        for core in cores[:whole]:
            heapq.heappush(self._free[self._domain[core]], self._rank[core])
        self.rooms: dict[int, int] = {}
        """Millicores left on each core that is shared by fractions."""
        self.whole = whole
        """Cores that nobody holds any part of."""
        self.ragged = bool(rest)
        """Whether the last core is only a part of one."""
        if rest:
            self.rooms[cores[-1]] = rest

    @property
    def free_milli(self) -> int:
        return self.whole * MILLI + sum(self.rooms.values())

    def sizes(self) -> dict[int, int]:
        """Millicores of each core; the last may be a part of one."""
        sizes = dict.fromkeys(self._core, MILLI)
        if rest := self.capacity % MILLI:
            sizes[self._core[-1]] = rest
        return sizes

    def untouched(self) -> list[int]:
        """The cores that nobody holds any part of."""
        return [self._core[rank] for heap in self._free for rank in heap]

    def take(self, milli: int, *, near: Iterable[int] = ()) -> tuple[int, ...]:
        """Cores for this many millicores, whole ones first, close to the cores `near`.

        The caller has checked that they fit.
        """
        count, part = divmod(milli, MILLI)
        cores = self._take_whole(count, near) if count else ()
        return (*cores, self._take_part(part)) if part else cores

    def give_back(self, milli: int, cores: Iterable[int]) -> None:
        """Return what `take` handed out."""
        count, part = divmod(milli, MILLI)
        cores = tuple(cores)
        for core in cores[:count]:
            heapq.heappush(self._free[self._domain[core]], self._rank[core])
        self.whole += count
        if part:
            self._give_part(part, cores[count])

    def surplus_of(self, cores: tuple[int, ...], count: int) -> tuple[int, ...]:
        """Which `count` of these whole cores to give up so that the rest stay close together."""
        domains = Counter(self._domain[core] for core in cores)
        if len(domains) == 1:
            return cores[-count:]
        ranked = sorted(cores, key=lambda core: (domains[self._domain[core]], -self._rank[core]))
        return tuple(ranked[:count])

    def _take_whole(self, count: int, near: Iterable[int]) -> tuple[int, ...]:
        free = self._free
        self.whole -= count
        if len(free) == 1:
            heap = free[0]
            return tuple([self._core[heapq.heappop(heap)] for _ in range(count)])
        home = Counter(self._domain[core] for core in near)
        taken: list[int] = []
        while len(taken) < count:
            left = count - len(taken)
            best = min(
                (i for i, heap in enumerate(free) if heap),
                # The domain it is in already, then the tightest that fits, then the roomiest.
                key=lambda i: (-home[i], len(free[i]) < left, abs(len(free[i]) - left), i),
            )
            heap = free[best]
            taken += [self._core[heapq.heappop(heap)] for _ in range(min(left, len(heap)))]
            home[best] = 0
        return tuple(taken)

    def _take_part(self, part: int) -> int:
        fitting = [(room, core) for core, room in self.rooms.items() if room >= part]
        if fitting:
            room, core = min(fitting)
        else:
            room, core = MILLI, self._take_whole(1, ())[0]
        self.rooms[core] = room - part
        return core

    def _give_part(self, part: int, core: int) -> None:
        room = self.rooms[core] + part
        if room == MILLI:
            del self.rooms[core]
            heapq.heappush(self._free[self._domain[core]], self._rank[core])
            self.whole += 1
        else:
            self.rooms[core] = room


def _siblings_together(topology: CpuTopology | None) -> _Order:
    groups = topology.siblings if topology else ()
    return _Order({core: min(group) for group in groups for core in group})


class _Order:
    """Sorts cores by physical core, then by number."""

    def __init__(self, physical: dict[int, int]) -> None:
        self._physical = physical

    def __call__(self, core: int) -> tuple[int, int]:
        return self._physical.get(core, core), core
