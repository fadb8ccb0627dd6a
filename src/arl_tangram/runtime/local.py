"""This machine as a node: how many units it has, and how big a unit is."""

from __future__ import annotations

import logging

from ..core.model import CPU, MEMORY, MILLI, Node, NodeId
from ..errors import ConfigError
from . import units
from .machine import Machine
from .units import Size

log = logging.getLogger(__name__)


def node_of(
    machine: Machine, *, cpus: float | None, memory: Size | None, unit: float | None
) -> tuple[Node, float]:
    """The node that a machine is, and how many cores a unit of it is.

    More units than cores make each a quota of a part of a core. Raises `ConfigError` for what the
    machine does not have.
    """
    amount, size = _units(machine, cpus=cpus, unit=unit)
    if size != 1:
        log.warning("a unit is a quota of %.3g of a core: %g units", size, amount)
    return Node(
        id=NodeId(machine.name),
        capacity={
            CPU: round(amount * MILLI),
            MEMORY: machine.memory_mib if memory is None else units.size_mib(memory, "memory"),
        },
        # A part of a core is nowhere in particular, so there is nothing to pin.
        topology=machine.topology if size == 1 else None,
    ), size


def _units(machine: Machine, *, cpus: float | None, unit: float | None) -> tuple[float, float]:
    """How many units there are, and how many cores each is."""
    usable = machine.usable_milli / MILLI
    for name, value in (("cpus", cpus), ("unit", unit)):
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"{name}={value!r}: give a number above 0, or leave it out")
    if unit is None:
        unit = 1.0 if cpus is None or cpus <= usable else usable / cpus
    if cpus is None:
        cpus = usable / unit
    if cpus * unit > usable * 1.000001:
        raise ConfigError(
            f"cpus={cpus:g} of unit={unit:g} are {cpus * unit:g} cores, and there are {usable:g}"
        )
    return cpus, unit
