"""How many units this machine is cut into, and how big one is."""

from __future__ import annotations

from dataclasses import dataclass

from ..runtime.machine import Machine

STATIC_UNITS = 3
"""Units that an environment owns under `static`, as a container per trajectory would."""
FEWEST_UNITS = 12
KEPT_BACK = 0.04
"""The share of a small machine that is not granted: this program needs some, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What there is to share.

    Attributes:
        units: how many, a multiple of what an environment owns under `static`, so that it wastes
            none.
        unit_cores: cores in a unit; below 1, a unit is a quota of a core.
    """

    units: int
    unit_cores: float

    @property
    def core_units(self) -> int:
        """Units that make one core, which is what a step with one thread can use."""
        return max(1, int(1 / self.unit_cores))

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


def setting_for(machine: Machine) -> Setting:
    """Whole cores if there are enough of them, else quotas of a part of one."""
    usable = machine.usable_milli / 1000
    units = int(usable) // STATIC_UNITS * STATIC_UNITS
    if units >= FEWEST_UNITS:
        return Setting(units=units, unit_cores=1.0)
    return Setting(units=FEWEST_UNITS, unit_cores=usable * (1 - KEPT_BACK) / FEWEST_UNITS)
