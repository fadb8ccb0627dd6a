"""An elastic action's worthwhile amounts of units, and what each step up saves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from .speedup import Speedup


@dataclass(frozen=True, slots=True)
class Curve:
    """The lower convex hull of time per work over units.

    On the hull each further unit saves less than the one before, so a greedy choice, a unit at a
    time, is optimal; an amount off the hull is never better than a mix of its neighbours.

    Attributes:
        units: worthwhile amounts, ascending; the first is the least allowed.
        slowness: seconds per second of work at each amount, 1 / s(k).
        savings: seconds saved per second of work and unit on the step up from each amount.
        startup_s: start-up cost of each unit.
        index: where an amount stands in `units`.
        speeds: s(k) for every allowed amount, on the hull or not.
    """

    units: tuple[int, ...]
    slowness: tuple[float, ...]
    savings: tuple[float, ...]
    startup_s: float
    index: dict[int, int]
    speeds: dict[int, float]

    def position(self, units: int) -> int:
        """The place of the last worthwhile amount that is at most `units`."""
        found = self.index.get(units)
        if found is not None:
            return found
        return max(i for i, amount in enumerate(self.units) if amount <= units)


@lru_cache(maxsize=4096)
def curve_of(units: tuple[int, ...], speedup: Speedup) -> Curve:
    """The curve of an action that may hold any of these amounts."""
    speeds = {k: speedup.at(k) for k in units}
    hull: list[tuple[int, float]] = []
    for k in units:
        point = (k, 1.0 / speeds[k])
        while len(hull) > 1 and _saving(hull[-2], hull[-1]) <= _saving(hull[-1], point):
            hull.pop()
        hull.append(point)
    while len(hull) > 1 and _saving(hull[-2], hull[-1]) <= _NEGLIGIBLE:
        hull.pop()
    amounts = tuple(k for k, _ in hull)
    return Curve(
        units=amounts,
        slowness=tuple(slow for _, slow in hull),
        savings=(*(_saving(a, b) for a, b in pairwise(hull)), 0.0),
        startup_s=speedup.startup_s,
        index={k: i for i, k in enumerate(amounts)},
        speeds=speeds,
    )


_NEGLIGIBLE = 1e-12


def _saving(low: tuple[int, float], high: tuple[int, float]) -> float:
    return (low[1] - high[1]) / (high[0] - low[0])
