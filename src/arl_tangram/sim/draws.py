"""What the parameter files of workloads say about chance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Seconds (or counts) whose logarithm is normal with mean `mu` and deviation `sigma`."""

    mu: float
    sigma: float

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> LogNormal:
        """From a table with `sigma` and either `mu` or `median`."""
        mu = table["mu"] if "mu" in table else math.log(table["median"])
        return cls(mu, table["sigma"])

    def draw(self, random: Random) -> float:
        """One value."""
        return random.lognormvariate(self.mu, self.sigma)


@dataclass(frozen=True, slots=True)
class Count:
    """A whole number near one that is log-normal, neither below nor above two limits."""

    of: LogNormal
    least: int
    most: int

    def draw(self, random: Random) -> int:
        """One value."""
        return min(max(round(self.of.draw(random)), self.least), self.most)
