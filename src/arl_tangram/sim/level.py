"""A quantity that changes in steps over time: its exact integral, and its shape in a few points."""

from __future__ import annotations

from array import array

from ..core.model import Seconds


class Level:
    """How much of something is held, from the first change to the last."""

    def __init__(self) -> None:
        self._value = 0.0
        self._integral = 0.0
        self._times = array("d")
        self._values = array("d")

    def add(self, amount: float, at: Seconds) -> None:
        """Change by `amount` at this time, which is not before the last change."""
        if self._times:
            self._integral += self._value * (at - self._times[-1])
        self._value += amount
        if self._times and self._times[-1] == at:
            self._values[-1] = self._value
        else:
            self._times.append(at)
            self._values.append(self._value)

    @property
    def integral(self) -> float:
        """Amount x seconds up to the last change."""
        return self._integral

    def curve(self, *, end: Seconds, points: int = 400) -> tuple[tuple[float, float], ...]:
        """(time, mean amount from then to the next point), evenly spaced from 0 to `end`."""
        width = end / points
        if not self._times or width <= 0:
            return ()
        sums = [0.0] * points
        ends = [*self._times[1:], max(end, self._times[-1])]
        for start, stop, value in zip(self._times, ends, self._values, strict=True):
            first, last = int(start / width), min(int(stop / width), points - 1)
            for i in range(first, last + 1):
                overlap = min(stop, (i + 1) * width) - max(start, i * width)
                sums[i] += value * max(overlap, 0.0)
        return tuple((i * width, total / width) for i, total in enumerate(sums))
