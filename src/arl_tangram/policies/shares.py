"""Comparators from theory: an equal split, and high-efficiency shortest-remaining-first."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..core.entries import Entry
from ..core.model import Seconds
from ..core.policy import Plan, View
from .admission import admit_reclaiming


class Shared(ABC):
    """Splits all units among the elastic actions present by a rule; a subclass is the rule."""

    def decide(self, view: View) -> Plan:
        """Admit who fits on the least, then set everyone's units by the rule."""
        plan = Plan()
        newcomers, debts = admit_reclaiming(view, plan)
        units: dict[str, int] = {}
        groups: dict[str, list[Entry]] = {}
        for entry in [*view.resizable.values(), *newcomers]:
            if entry.action.elastic is not None:
                groups.setdefault(entry.action.elastic.resource, []).append(entry)
        for resource, group in groups.items():
            held = sum(entry.units or _least(entry) for entry in group)
            room = held + view.free.units(resource) - debts.get(resource, 0)
            for entry, amount in zip(group, self._split(view, group, room), strict=True):
                units[entry.id] = amount
        for entry in view.resizable.values():
            if entry.id in units and units[entry.id] != entry.units:
                plan.resizes.append((entry, units[entry.id]))
        plan.starts = [(entry, units.get(entry.id, 0)) for entry in newcomers]
        return plan

    def _split(self, view: View, group: Sequence[Entry], room: int) -> list[int]:
        return whole_shares(group, self._weights(view, group), room)

    @abstractmethod
    def _weights(self, view: View, group: Sequence[Entry]) -> list[float]:
        """How much each of the group weighs in the split."""


class Equi(Shared):
    """An equal share for everyone: optimal for unknown exponential sizes with one curve."""

    def _weights(self, view: View, group: Sequence[Entry]) -> list[float]:
        return [1.0] * len(group)


class HeSrpt(Shared):
    """The optimal shares for ``s(k) = k ** p`` and known sizes (heSRPT, arXiv 1903.09346).

    With m actions present, the i-th largest gets ``(i / m) ** c - ((i - 1) / m) ** c`` of the
    units, c = 1 / (1 - p). For other curves p is fitted between the least and the most units.
    """

    def _weights(self, view: View, group: Sequence[Entry]) -> list[float]:
        now, estimates = view.now, view.estimates
        left: list[Seconds] = [
            estimates.remaining(entry.action, entry.done_by(now))
            if entry.units
            else estimates.work(entry.action)
            for entry in group
        ]
        order = sorted(range(len(group)), key=lambda i: (-left[i], group[i].number))
        weights = [0.0] * len(group)
        count = len(group)
        for rank, i in enumerate(order, start=1):
            c = 1.0 / (1.0 - min(_exponent(group[i]), 0.99))
            weights[i] = (rank / count) ** c - ((rank - 1) / count) ** c
        return weights


def whole_shares(group: Sequence[Entry], weights: Sequence[float], room: int) -> list[int]:
    """Allowed amounts in proportion to the weights, nobody below the least, in all at most `room`.

    What is beyond an action's most goes to the others. Shares are rounded down to what is
    allowed; what that leaves goes to the largest shortfalls.
    """
    options = [entry.curve.units if entry.curve else (1,) for entry in group]
    ideal = _capped(weights, [allowed[-1] for allowed in options], room)
    places = [
        max((i for i, k in enumerate(allowed) if k <= share), default=0)
        for allowed, share in zip(options, ideal, strict=True)
    ]
    spare = room - sum(allowed[place] for allowed, place in zip(options, places, strict=True))
    while spare < 0:  # the least amounts of some took more than their share
        over = [i for i, place in enumerate(places) if place]
        i = max(over, key=lambda i: options[i][places[i]] - ideal[i])
        spare += options[i][places[i]] - options[i][places[i] - 1]
        places[i] -= 1
    for i in sorted(range(len(group)), key=lambda i: options[i][places[i]] - ideal[i]):
        if places[i] + 1 < len(options[i]):
            step = options[i][places[i] + 1] - options[i][places[i]]
            if step <= spare:
                spare -= step
                places[i] += 1
    return [allowed[place] for allowed, place in zip(options, places, strict=True)]


def _capped(weights: Sequence[float], most: Sequence[int], room: int) -> list[float]:
    """Shares of `room` in proportion to the weights, none above its most."""
    shares = [0.0] * len(weights)
    sharing, left = list(range(len(weights))), float(room)
    while sharing:
        total = sum(weights[i] for i in sharing) or 1.0
        for i in sharing:
            shares[i] = left * weights[i] / total
        full = [i for i in sharing if shares[i] >= most[i]]
        if not full:
            break
        for i in full:
            shares[i] = most[i]
            left -= most[i]
        sharing = [i for i in sharing if i not in full]
    return shares


def _least(entry: Entry) -> int:
    return entry.action.elastic.least if entry.action.elastic else 0


def _exponent(entry: Entry) -> float:
    curve = entry.curve
    if curve is None or len(curve.units) == 1:
        return 0.0
    low, high = curve.units[0], curve.units[-1]
    return math.log(curve.speeds[high] / curve.speeds[low]) / math.log(high / low)
