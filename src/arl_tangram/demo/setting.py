"""How big a unit is on this machine, and how fast one core of it is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from random import Random

from ..core.model import Seconds
from ..runtime.machine import Machine

STATIC_UNITS = 3
"""Units that an environment owns under `static`, as a container per trajectory would."""
FEWEST_UNITS = 12
KEPT_BACK = 0.04
"""The share of a small machine that is not granted: this program needs some, too."""
YARDSTICK_S = 0.0063
"""How long `yardstick` takes on the machine where the projects' suites take a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What there is to share.

    Attributes:
        units: how many, a multiple of what an environment owns under `static`, so that it wastes
            none.
        unit_cores: cores in a unit; below 1, a unit is a quota of a core.
        speed: of one core, where 1 runs a project's suite in a second.
    """

    units: int
    unit_cores: float
    speed: float

    @property
    def containers(self) -> int:
        """How many environments fit at once under `static`."""
        return self.units // STATIC_UNITS

    def __str__(self) -> str:
        if self.unit_cores == 1:
            return f"{self.units} units of one whole core"
        return (
            f"{self.units} units; on this small machine a unit is a quota of "
            f"{self.unit_cores:.2f} of a core"
        )


def setting_for(machine: Machine, *, speed: float | None = None) -> Setting:
    """Whole cores if there are enough of them, else quotas of a part of one.

    Args:
        machine: what there is.
        speed: of one core; measured now if it is not given.
    """
    usable = machine.usable_milli / 1000
    units = int(usable) // STATIC_UNITS * STATIC_UNITS
    cores = 1.0
    if units < FEWEST_UNITS:
        units, cores = FEWEST_UNITS, usable * (1 - KEPT_BACK) / FEWEST_UNITS
    return Setting(
        units=units, unit_cores=cores, speed=YARDSTICK_S / yardstick() if speed is None else speed
    )


def yardstick(rounds: int = 60) -> Seconds:
    """Core seconds that a fixed piece of plain Python takes, the best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        rng, table = Random(0), dict[int, int]()  # the sort of work that the projects' tests do
        began = time.process_time()
        for i in range(20_000):
            key = rng.randrange(1000)
            table[key] = table.get(key, 0) + i
        sorted(table.items())
        best = min(best, time.process_time() - began)
    return best
