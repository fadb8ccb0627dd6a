"""Policies by name."""

from __future__ import annotations

from ..core.policy import Policy
from ..errors import ConfigError
from .fixed import Fixed
from .inflight import Inflight
from .shares import Equi, HeSrpt
from .tangram import Tangram

DEFAULT = "inflight"
NAMES = ("inflight", "tangram", "fixed:K", "equi", "hesrpt", "static")


def policy_named(name: str) -> Policy:
    """A fresh policy. Raises `ConfigError` naming the policies there are.

    `static` is first come, first served on the least units: the workload's environments hold the
    cores, and its actions need none.
    """
    match name.split(":"):
        case ["inflight"]:
            return Inflight()
        case ["tangram"]:
            return Tangram()
        case ["fixed", units] if units.isdecimal() and int(units) >= 1:
            return Fixed(int(units))
        case ["equi"]:
            return Equi()
        case ["hesrpt"]:
            return HeSrpt()
        case ["static"]:
            return Fixed(1)
        case _:
            raise ConfigError(f"policy={name!r}: use one of {', '.join(NAMES)} (as in fixed:4)")
