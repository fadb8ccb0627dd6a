"""What `Tangram.local` is told of this machine, as a node with units and a policy over them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ..core.model import CPU, MEMORY, MILLI, MOST_UNITS, Node, NodeId
from ..core.policy import Policy
from ..errors import ConfigError
from ..policies.registry import policy_named
from . import units
from .checks import shown
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


def chosen_policy(given: str | Policy) -> tuple[str, Policy]:
    """A policy with its name; raises `ConfigError` for what is none."""
    if isinstance(given, str):
        return given, policy_named(given)
    if isinstance(given, type) or not callable(getattr(given, "decide", None)):
        raise ConfigError(f"policy={shown(given)}: give the name of a policy, or a policy")
    return type(given).__name__, given


def _units(machine: Machine, *, cpus: float | None, unit: float | None) -> tuple[float, float]:
    """How many units there are, and how many cores each is."""
    usable = machine.usable_milli / MILLI
    most: Mapping[str, int] = {"cpus": MOST_UNITS, "unit": 1}
    given: Mapping[str, object] = {"cpus": cpus, "unit": unit}
    for name, value in given.items():
        if value is None:
            continue
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 < value <= most[name]
        ):
            raise ConfigError(
                f"{name}={shown(value)}: give a number above 0, at most {most[name]}, or leave it out"
            )
    if unit is None:
        unit = 1.0 if cpus is None or cpus <= usable else usable / cpus
    if cpus is None:
        cpus = usable / unit
    if cpus * unit > usable * 1.000001:
        raise ConfigError(
            f"cpus={cpus:g} of unit={unit:g} are {cpus * unit:g} cores, and there are {usable:g}"
        )
    if cpus > MOST_UNITS:
        raise ConfigError(f"unit={unit!r}: that makes {cpus:g} units, and {MOST_UNITS} is the most")
    if cpus * MILLI < units.LEAST_MILLI:
        raise ConfigError(f"cpus={cpus!r}: at least {units.LEAST_MILLI / MILLI} of a unit")
    return cpus, unit
