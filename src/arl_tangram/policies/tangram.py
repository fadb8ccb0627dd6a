"""The algorithm of ARL-Tangram (arXiv 2603.13019): greedy eviction over elastic allotments.

1. Candidates: in service order, the first n waiting actions whose least demand fits.
2. They are split by key elastic resource.
3. For each resource, the last candidate is tentatively evicted and its units go to the others;
   the eviction is kept while the approximate objective improves. Evicted means deferred.

The objective is the exact completion time of the chosen plus an estimate for those left waiting,
from a heap of completion times walked at most `depth` entries. Amounts are fixed at dispatch. The
paper gives the outline and its cost, O(k n^2 m^2); the inner parts are a reconstruction with that
bound (see `allot` and `tail`).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import islice

from ..core.entries import Entry
from ..core.model import CPU, MILLI, Seconds
from ..core.policy import Plan, View

INFINITY = float("inf")


class Tangram:
    """The paper's policy.

    Args:
        depth: how many waiting actions the estimate of the tail looks at.
    """

    def __init__(self, *, depth: int = 16) -> None:
        self._depth = depth

    def decide(self, view: View) -> Plan:
        """Choose candidates, then drop the last ones as long as that pays."""
        plan = Plan()
        candidates, behind = self._candidates(view, plan)
        groups: dict[str, list[Entry]] = {}
        for entry in candidates:
            elastic = entry.action.elastic
            groups.setdefault(elastic.resource if elastic else CPU, []).append(entry)
        units: dict[str, int] = {}
        for resource, group in groups.items():
            units.update(self._choose(view, resource, group, behind))
        plan.starts = [(entry, units[entry.id]) for entry in candidates if entry.id in units]
        return plan

    def _candidates(self, view: View, plan: Plan) -> tuple[list[Entry], list[Entry]]:
        """The first that fit together, and up to `depth` of those who come after them."""
        candidates: list[Entry] = []
        for entry in view.waiting:
            if not view.free.take(entry.least):
                plan.passed.append(entry)
                break
            candidates.append(entry)
        behind = [*plan.passed, *islice(view.waiting, max(self._depth - 1, 0))]
        return candidates, behind[: self._depth]

    def _choose(
        self, view: View, resource: str, group: Sequence[Entry], behind: Sequence[Entry]
    ) -> dict[str, int]:
        spare = view.free.units(resource)
        room = spare + sum(_least_units(entry) for entry in group)
        work = [view.estimates.work(entry.action) for entry in group]
        table = allot(group, work, room)
        ends = _ends(view, resource)
        waiting = [entry for entry in behind if _uses(entry, resource)]
        best, best_cost = len(group), self._cost(view, table, group, len(group), waiting, ends)
        idle = not view.running
        while best > (1 if idle else 0):
            cost = self._cost(view, table, group, best - 1, waiting, ends)
            if cost >= best_cost:
                break
            best, best_cost = best - 1, cost
        return {e.id: k for e, k in zip(group, table.amounts(best, room), strict=False)}

    def _cost(  # noqa: PLR0917 - private, and called in a loop
        self,
        view: View,
        table: Allotment,
        group: Sequence[Entry],
        chosen: int,
        waiting: Sequence[Entry],
        ends: Sequence[tuple[Seconds, int]],
    ) -> Seconds:
        """Exact completion times of the chosen plus the estimate for the rest."""
        amounts = table.amounts(chosen, table.room)
        new_ends = [
            (table.duration(i, amount), max(amount, _least_units(entry)))
            for i, (entry, amount) in enumerate(zip(group, amounts, strict=False))
        ]
        left = [*group[chosen:], *waiting]  # the same actions on both sides of a comparison
        idle_units = table.room - sum(units for _, units in new_ends)
        durations = [_shortest_alone(view, entry) for entry in left]
        demands = [_least_units(entry) for entry in left]
        return table.total(chosen) + tail([*ends, *new_ends], idle_units, demands, durations)


class Allotment:
    """``f[j][u]``: the least sum of durations of the first j actions on u units.

    One prefix table serves every eviction, since only the last candidate ever leaves.
    """

    def __init__(
        self,
        durations: Sequence[Sequence[tuple[int, int, Seconds]]],
        room: int,
    ) -> None:
        self.room = room
        self._options = durations
        first: list[Seconds] = [0.0] * (room + 1)
        self._sums = [first]
        self._picks: list[list[int]] = []
        for options in durations:
            before = self._sums[-1]
            if len(options) == 1:
                (_, cost, seconds) = options[0]
                row = [INFINITY] * min(cost, room + 1) + [
                    value + seconds for value in before[: room + 1 - cost]
                ]
                pick = [0] * (room + 1)
            else:
                row = [INFINITY] * (room + 1)
                pick = [0] * (room + 1)
                for number, (_, cost, seconds) in enumerate(options):
                    for u in range(cost, room + 1):
                        value = before[u - cost] + seconds
                        if value < row[u]:
                            row[u] = value
                            pick[u] = number
            self._sums.append(row)
            self._picks.append(pick)

    def total(self, chosen: int) -> Seconds:
        """The least sum of durations of the first `chosen` actions."""
        return self._sums[chosen][self.room]

    def amounts(self, chosen: int, room: int) -> list[int]:
        """The units each of the first `chosen` gets in that optimum (0 if rigid)."""
        amounts: list[int] = []
        for j in range(chosen - 1, -1, -1):
            units, cost, _ = self._options[j][self._picks[j][room]]
            amounts.append(units)
            room -= cost
        return amounts[::-1]

    def duration(self, j: int, amount: int) -> Seconds:
        """How long action j lasts on this amount."""
        return next(seconds for units, _, seconds in self._options[j] if units == amount)


def allot(group: Sequence[Entry], work: Sequence[Seconds], room: int) -> Allotment:
    """The allotment table of these actions, each with its expected work, over `room` units."""
    options = []
    for entry, seconds in zip(group, work, strict=True):
        if entry.curve is None:
            options.append([(0, _least_units(entry), seconds)])
        else:
            curve = entry.curve
            options.append(
                [
                    (units, units, curve.startup_s * units + seconds / speed)
                    for units, speed in curve.speeds.items()
                ]
            )
    return Allotment(options, room)


def tail(
    ends: Sequence[tuple[Seconds, int]],
    free: int,
    demands: Sequence[int],
    durations: Sequence[Seconds],
) -> Seconds:
    """Completion times of those left waiting, if each starts on its least as soon as that fits.

    `ends` are the finish times, from now, and the units they free.
    """
    heap = list(ends)
    heapify(heap)
    now = total = 0.0
    for demand, duration in zip(demands, durations, strict=True):
        while free < demand and heap:
            now, units = heappop(heap)
            free += units
        if free < demand:
            break
        free -= demand
        total += now + duration
        heappush(heap, (now + duration, demand))
    return total


def _ends(view: View, resource: str) -> list[tuple[Seconds, int]]:
    now, estimates = view.now, view.estimates
    ends = []
    for entry in view.running.values():
        elastic = entry.action.elastic
        if elastic is not None and elastic.resource == resource and entry.curve is not None:
            left = estimates.remaining(entry.action, entry.done_by(now))
            ends.append((left / entry.curve.speeds[entry.units], entry.units))
        elif (held := _least_units(entry)) and resource == CPU:
            ends.append((estimates.remaining(entry.action, entry.done_by(now)), held))
    return ends


def _least_units(entry: Entry) -> int:
    """Whole units of its key resource that it holds on its least.

    A part of a core counts as none: another part may share that core, so that putting one off
    would free nothing for others.
    """
    elastic = entry.action.elastic
    if elastic is not None:
        return elastic.least
    return entry.least.get(CPU, 0) // MILLI


def _uses(entry: Entry, resource: str) -> bool:
    elastic = entry.action.elastic
    return (elastic.resource if elastic else CPU) == resource


def _shortest_alone(view: View, entry: Entry) -> Seconds:
    work = view.estimates.work(entry.action)
    if entry.curve is None:
        return work
    least = entry.curve.units[0]
    return entry.curve.startup_s * least + work / entry.curve.speeds[least]
