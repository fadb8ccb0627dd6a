"""How much faster an action gets with more units: ``t(k) = startup_s * k + work / s(k)``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Linear up to `cap`, flat from there: a test suite, with cap = total / longest test."""

    cap: float
    startup_s: float = 0.0

    def __post_init__(self) -> None:
        if not _within(1, self.cap, _FASTEST):
            raise ValueError(f"cap={self.cap!r}: a speed-up cap is at least 1")
        _check_startup(self.startup_s)

    def at(self, units: int) -> float:
        """The speed-up on this many units."""
        return min(float(units), self.cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amdahl:
    """A share `serial` of the work cannot be split: ``s(k) = 1 / (serial + (1 - serial) / k)``."""

    serial: float
    startup_s: float = 0.0

    def __post_init__(self) -> None:
        if not _within(0, self.serial, 1):
            raise ValueError(f"serial={self.serial!r}: a share is between 0 and 1")
        _check_startup(self.startup_s)

    def at(self, units: int) -> float:
        """The speed-up on this many units."""
        return 1.0 / (self.serial + (1.0 - self.serial) / units)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """``s(k) = k ** p`` with p in [0, 1]."""

    p: float
    startup_s: float = 0.0

    def __post_init__(self) -> None:
        if not _within(0, self.p, 1):
            raise ValueError(f"p={self.p!r}: an exponent is between 0 and 1")
        _check_startup(self.startup_s)

    def at(self, units: int) -> float:
        """The speed-up on this many units."""
        return float(units**self.p)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Measured speed-ups, linear between the points and flat beyond the last; s(1) = 1."""

    points: tuple[tuple[int, float], ...]
    startup_s: float = 0.0

    _units: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            points = tuple(sorted({1: 1.0, **dict(self.points)}.items()))
        except (TypeError, ValueError):
            raise ValueError(f"points={self.points!r}: pairs of units and a speed-up") from None
        speeds = [speed for _, speed in points]
        known = all(type(n) is int and n >= 1 and _within(0, s, _FASTEST) for n, s in points)
        if not known or speeds != sorted(speeds) or speeds[0] <= 0:
            raise ValueError(
                f"points={dict(self.points)!r}: more units are never slower, and units are at least 1"
            )
        _check_startup(self.startup_s)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "_units", tuple(units for units, _ in points))

    @classmethod
    def of(cls, points: Mapping[int, float], *, startup_s: float = 0.0) -> Table:
        """A table from a mapping of units to speed-up."""
        return cls(points=tuple(points.items()), startup_s=startup_s)

    def at(self, units: int) -> float:
        """The speed-up on this many units."""
        i = bisect_right(self._units, units)
        low_units, low = self.points[i - 1]
        if i == len(self.points):
            return low
        high_units, high = self.points[i]
        return low + (high - low) * (units - low_units) / (high_units - low_units)


_FASTEST = 1e9
_LONGEST_S = 1e9

Speedup = Roofline | Amdahl | PowerLaw | Table


def duration(speedup: Speedup, work_s: float, units: int) -> float:
    """Seconds that `work_s` seconds of one-unit work take on `units` units from start to end."""
    return speedup.startup_s * units + work_s / speedup.at(units)


def _check_startup(startup_s: float) -> None:
    if not _within(0, startup_s, _LONGEST_S):
        raise ValueError(f"startup_s={startup_s!r}: a start-up cost is at least 0")


def _within(least: float, value: object, most: float) -> bool:
    """Whether it is a number, and in these limits; no NaN is."""
    return isinstance(value, int | float) and least <= value <= most
