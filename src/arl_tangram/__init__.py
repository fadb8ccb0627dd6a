"""Schedules every action of an agentic-RL rollout by itself, on as many units as serve the whole best.

``async with arl_tangram.Tangram.local() as tangram`` is the place to start; `arl_tangram.blocking`
has the same without ``await``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core.model import ActionId, Explanation, Outcome, Quota, Service
    from .core.speedup import Amdahl, PowerLaw, Roofline, Speedup, Table
    from .errors import (
        ActionCancelled,
        ActionError,
        ActionFailed,
        ActionLost,
        ActionOutOfMemory,
        ActionRejected,
        ActionTimedOut,
        ConfigError,
        InternalError,
        InvalidAction,
        InvariantError,
        PolicyError,
        RequestError,
        TangramError,
        Unavailable,
        UnknownAction,
        UnknownEnvironment,
    )
    from .executors.api import Request, Response
    from .executors.port import FileEntry
    from .runtime.call import Answer
    from .runtime.environment import Environment, Shell
    from .runtime.handle import Handle
    from .runtime.journal import Journal
    from .runtime.lease import Lease
    from .runtime.observers import Observer
    from .runtime.results import Held, Result, Timing, Usage
    from .runtime.tangram import Tangram

__all__ = [
    "ActionCancelled",
    "ActionError",
    "ActionFailed",
    "ActionId",
    "ActionLost",
    "ActionOutOfMemory",
    "ActionRejected",
    "ActionTimedOut",
    "Amdahl",
    "Answer",
    "ConfigError",
    "Environment",
    "Explanation",
    "FileEntry",
    "Handle",
    "Held",
    "InternalError",
    "InvalidAction",
    "InvariantError",
    "Journal",
    "Lease",
    "Observer",
    "Outcome",
    "PolicyError",
    "PowerLaw",
    "Quota",
    "Request",
    "RequestError",
    "Response",
    "Result",
    "Roofline",
    "Service",
    "Shell",
    "Speedup",
    "Table",
    "Tangram",
    "TangramError",
    "Timing",
    "Unavailable",
    "UnknownAction",
    "UnknownEnvironment",
    "Usage",
]

_HOMES = {
    "core.model": ("ActionId", "Explanation", "Outcome", "Quota", "Service"),
    "core.speedup": ("Amdahl", "PowerLaw", "Roofline", "Speedup", "Table"),
    "executors.api": ("Request", "Response"),
    "executors.port": ("FileEntry",),
    "runtime.call": ("Answer",),
    "runtime.environment": ("Environment", "Shell"),
    "runtime.handle": ("Handle",),
    "runtime.journal": ("Journal",),
    "runtime.lease": ("Lease",),
    "runtime.observers": ("Observer",),
    "runtime.results": ("Held", "Result", "Timing", "Usage"),
    "runtime.tangram": ("Tangram",),
}


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for, so that a short command starts fast."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "errors")
    value: object = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
