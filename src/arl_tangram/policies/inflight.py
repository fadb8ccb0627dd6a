"""In-flight elasticity: units follow the load, also those of actions that already run.

At each change on a node:

1. actions that cannot be resized keep what they have;
2. every other one, running or waiting, is entitled to its least, in service order; a newcomer may
   take units from a running action above its least;
3. what is left goes, a unit at a time, to where it saves most expected remaining time, from the
   speed-up curve and the expected remaining work;
4. a change that saves too little is not made.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace

from ..core.curve import Curve
from ..core.entries import Entry
from ..core.model import Seconds
from ..core.policy import Plan, View
from .admission import admit_reclaiming


class Inflight:
    """The default policy.

    Args:
        least_saving_s: a unit is given only if it is expected to save more than this.
        margin: a unit moves from one running action to another only if it saves so many times
            more there.
        most_moves: at most so many units move between running actions at one event.
    """

    def __init__(
        self, *, least_saving_s: Seconds = 0.005, margin: float = 1.5, most_moves: int = 32
    ) -> None:
        self._least_saving_s = least_saving_s
        self._margin = margin
        self._most_moves = most_moves

    def decide(self, view: View) -> Plan:
        """Admit who fits on the least, then share out what is left."""
        plan = Plan()
        newcomers, debts = admit_reclaiming(view, plan)
        units: dict[str, int] = {}
        elastic: dict[str, list[Entry]] = {}
        for entry in newcomers:
            if entry.action.elastic is not None:
                elastic.setdefault(entry.action.elastic.resource, []).append(entry)
        for entry in view.resizable.values():
            if entry.action.elastic is not None:
                elastic.setdefault(entry.action.elastic.resource, [])
        for resource, starting in elastic.items():
            running = [
                entry
                for entry in view.resizable.values()
                if entry.action.elastic is not None and entry.action.elastic.resource == resource
            ]
            spare = view.free.units(resource) - debts.get(resource, 0)
            shares = _Shares(view, running, starting)
            shares.shed(spare)
            shares.grow(self._least_saving_s)
            shares.exchange(self._least_saving_s, self._margin, self._most_moves)
            units.update(shares.starts())
            plan.resizes.extend(shares.resizes())
        plan.starts = [(entry, units.get(entry.id, 0)) for entry in newcomers]
        return plan


class _Shares:
    """How many units each elastic action of one resource gets: a place on each one's curve."""

    def __init__(self, view: View, running: Iterable[Entry], starting: Iterable[Entry]) -> None:
        now, estimates = view.now, view.estimates
        self._spare = 0
        self._entries: list[Entry] = []
        self._curves: list[Curve] = []
        self._work: list[Seconds] = []
        self._places: list[int] = []
        for entry in running:
            if (curve := entry.curve) is not None:
                self._entries.append(entry)
                self._curves.append(curve)
                self._work.append(estimates.remaining(entry.action, entry.done_by(now)))
                self._places.append(curve.position(entry.units))
        self._running = len(self._entries)
        for entry in starting:
            if (curve := entry.curve) is not None:
                self._entries.append(entry)
                self._curves.append(curve)
                self._work.append(estimates.work(entry.action))
                self._places.append(0)

    def shed(self, spare: int) -> None:
        """Take units where they are missed least until no more are given out than there are."""
        self._spare = spare
        if spare >= 0:
            return
        losses = [(self._loss(i), i) for i, place in enumerate(self._places) if place]
        heapify(losses)
        while self._spare < 0:
            _, i = losses[0]
            self._step(i, -1)
            if self._places[i]:
                heapreplace(losses, (self._loss(i), i))
            else:
                heappop(losses)

    def grow(self, least_saving_s: Seconds) -> None:
        """Give what is left, a step at a time, to where it saves most."""
        if self._spare <= 0:
            return
        gains = [(-gain, i) for i in range(len(self._work)) if (gain := self._gain(i)) > 0]
        heapify(gains)
        while gains and self._spare > 0:
            gain, i = gains[0]
            if -gain <= least_saving_s:
                return
            curve, place = self._curves[i], self._places[i]
            if curve.units[place + 1] - curve.units[place] > self._spare:
                heappop(gains)
                continue
            self._step(i, +1)
            heapreplace(gains, (-self._gain(i), i))

    def exchange(self, least_saving_s: Seconds, margin: float, most_moves: int) -> None:
        """Move units from where they are missed least to where they save much more."""
        for _ in range(most_moves):
            best = max(range(len(self._work)), key=self._gain, default=None)
            givers = [i for i, place in enumerate(self._places) if place and i != best]
            if best is None or not givers:
                return
            worst = min(givers, key=self._loss)
            if self._gain(best) <= self._loss(worst) * margin + least_saving_s:
                return
            self._step(worst, -1)
            curve, place = self._curves[best], self._places[best]
            if curve.units[place + 1] - curve.units[place] > self._spare:
                self._step(worst, +1)
                return
            self._step(best, +1)

    def starts(self) -> dict[str, int]:
        """Units for those who start."""
        chosen = range(self._running, len(self._entries))
        return {self._entries[i].id: self._curves[i].units[self._places[i]] for i in chosen}

    def resizes(self) -> list[tuple[Entry, int]]:
        """Those running whose units change."""
        changed = []
        for i in range(self._running):
            units = self._curves[i].units[self._places[i]]
            if units != self._entries[i].units:
                changed.append((self._entries[i], units))
        return changed

    def _step(self, i: int, by: int) -> None:
        units = self._curves[i].units
        self._spare -= units[self._places[i] + by] - units[self._places[i]]
        self._places[i] += by

    def _gain(self, i: int) -> Seconds:
        curve = self._curves[i]
        saving = curve.savings[self._places[i]]
        return self._work[i] * saving - curve.startup_s if saving else 0.0

    def _loss(self, i: int) -> Seconds:
        return self._work[i] * self._curves[i].savings[self._places[i] - 1]
