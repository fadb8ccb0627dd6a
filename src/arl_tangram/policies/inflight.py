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

from collections.abc import Sequence

from ..core.entries import Entry
from ..core.model import Seconds
from ..core.policy import Plan, View
from .admission import admit_reclaiming

INFINITY = float("inf")


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
        for resource in view.surplus:
            elastic.setdefault(resource, [])
        for resource, starting in elastic.items():
            spare = view.free.units(resource) - debts.get(resource, 0)
            if not (spare or starting or view.surplus.get(resource)):
                continue  # all hold their least, and nothing is left
            running = [
                entry
                for entry in view.resizable.values()
                if entry.action.elastic is not None and entry.action.elastic.resource == resource
            ]
            shares = _Shares(view, running, starting)
            shares.shed(spare)
            shares.grow(self._least_saving_s)
            shares.exchange(self._least_saving_s, self._margin, self._most_moves)
            units.update(shares.starts())
            plan.resizes.extend(shares.resizes())
        plan.starts = [(entry, units.get(entry.id, 0)) for entry in newcomers]
        return plan


class _Shares:
    """How many units each elastic action of one resource gets: a place on each one's curve.

    What the next step up would save and the last one down would lose is kept in two plain lists:
    finding the best in them is quicker than keeping heaps, up to several hundred actions.
    """

    def __init__(self, view: View, running: Sequence[Entry], starting: Sequence[Entry]) -> None:
        estimates = view.estimates
        self._entries = [*running, *starting]
        self._running = len(running)
        self._spare = 0
        self._work = [
            *estimates.left(running, view.now),
            *(estimates.work(entry.action) for entry in starting),
        ]
        self._curves = [curve for entry in self._entries if (curve := entry.curve) is not None]
        self._places = [
            curve.position(entry.units) if entry.units else 0
            for entry, curve in zip(self._entries, self._curves, strict=True)
        ]
        self._gains = [0.0] * len(self._entries)
        self._losses = [0.0] * len(self._entries)
        for i in range(len(self._entries)):
            self._weigh(i)

    def shed(self, spare: int) -> None:
        """Take units where they are missed least until no more are given out than there are."""
        self._spare = spare
        while self._spare < 0:
            self._step(self._losses.index(min(self._losses)), -1)

    def grow(self, least_saving_s: Seconds) -> None:
        """Give what is left, a step at a time, to where it saves most."""
        if not self._entries:
            return
        too_wide = []
        while self._spare > 0 and (gain := max(self._gains)) > least_saving_s:
            i = self._gains.index(gain)
            if self._width(i) > self._spare:
                self._gains[i] = 0.0
                too_wide.append(i)
            else:
                self._step(i, +1)
        for i in too_wide:
            self._weigh(i)

    def exchange(self, least_saving_s: Seconds, margin: float, most_moves: int) -> None:
        """Move units from where they are missed least to where they save much more."""
        gains, losses = self._gains, self._losses
        for _ in range(most_moves if gains else 0):
            gain, loss = max(gains), min(losses)
            if gain <= loss * margin + least_saving_s:
                return
            giver, taker = losses.index(loss), gains.index(gain)
            self._step(giver, -1)
            if self._width(taker) > self._spare:
                self._step(giver, +1)
                return
            self._step(taker, +1)

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

    def _width(self, i: int) -> int:
        """How many units the next step up takes."""
        units, place = self._curves[i].units, self._places[i]
        return units[place + 1] - units[place]

    def _step(self, i: int, by: int) -> None:
        units, place = self._curves[i].units, self._places[i]
        self._spare -= units[place + by] - units[place]
        self._places[i] = place + by
        self._weigh(i)

    def _weigh(self, i: int) -> None:
        curve, place, work = self._curves[i], self._places[i], self._work[i]
        saving = curve.savings[place]
        self._gains[i] = work * saving - curve.startup_s if saving else 0.0
        self._losses[i] = work * curve.savings[place - 1] if place else INFINITY
