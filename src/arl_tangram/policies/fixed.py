"""First come, first served, on a fixed number of units each."""

from __future__ import annotations

from ..core.entries import Entry
from ..core.model import ActionId, Bundle
from ..core.policy import Plan, View
from .admission import admit


class Fixed:
    """Every elastic action gets `units`, or the nearest amount it allows, and keeps them."""

    def __init__(self, units: int) -> None:
        self._units = units

    def decide(self, view: View) -> Plan:
        """Start whoever fits on that amount, in service order."""
        plan = Plan()
        units: dict[ActionId, int] = {}

        def amounts(entry: Entry) -> Bundle:
            units[entry.id] = self._nearest(entry, view)
            return entry.amounts(units[entry.id])

        admitted = admit(view, plan, amounts=amounts)
        plan.starts = [(entry, units[entry.id]) for entry in admitted]
        return plan

    def _nearest(self, entry: Entry, view: View) -> int:
        """The allowed amount nearest to `units` that this node could ever give."""
        elastic = entry.action.elastic
        if elastic is None:
            return 0
        name = elastic.resource
        room = view.capacity.get(name, 0) - view.owned.get(name, 0)
        fitting = [k for k in elastic.units if entry.amounts(k)[name] <= room]
        return min(fitting, key=lambda k: (abs(k - self._units), k), default=elastic.least)
