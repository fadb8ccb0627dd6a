"""First come, first served, on a fixed number of units each."""

from __future__ import annotations

from ..core.entries import Entry
from ..core.model import Bundle
from ..core.policy import Plan, View
from .admission import admit


class Fixed:
    """Every elastic action gets `units`, or the nearest amount it allows, and keeps them."""

    def __init__(self, units: int) -> None:
        self._units = units

    def decide(self, view: View) -> Plan:
        """Start whoever fits on that amount, in service order."""
        plan = Plan()
        admitted = admit(view, plan, amounts=self._amounts)
        plan.starts = [(entry, self._nearest(entry)) for entry in admitted]
        return plan

    def _nearest(self, entry: Entry) -> int:
        elastic = entry.action.elastic
        if elastic is None:
            return 0
        return min(elastic.units, key=lambda k: (abs(k - self._units), k))

    def _amounts(self, entry: Entry) -> Bundle:
        return entry.amounts(self._nearest(entry))
