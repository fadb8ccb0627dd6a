"""Where an action and an environment can be, and every step they may take from there."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from ..errors import InvariantError


class Phase(Enum):
    """Where an action is."""

    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"  #: told to stop, still holding its lease
    DONE = "done"


class EnvironmentPhase(Enum):
    """Where an environment is."""

    WAITING = "waiting"  #: no node has room for it yet
    PLACED = "placed"  #: holds its needs, waits for its turn on the node's ramp
    OPENING = "opening"
    OPEN = "open"
    CLOSING = "closing"  #: no longer wanted, or broken; still holds its needs
    CLOSED = "closed"


TRANSITIONS: Mapping[Phase, frozenset[Phase]] = MappingProxyType(
    {
        Phase.QUEUED: frozenset({Phase.RUNNING, Phase.DONE}),
        Phase.RUNNING: frozenset({Phase.STOPPING, Phase.QUEUED, Phase.DONE}),
        Phase.STOPPING: frozenset({Phase.DONE}),
        Phase.DONE: frozenset(),
    }
)
"""RUNNING to QUEUED is the retry of a lost attempt."""

ENVIRONMENT_TRANSITIONS: Mapping[EnvironmentPhase, frozenset[EnvironmentPhase]] = MappingProxyType(
    {
        EnvironmentPhase.WAITING: frozenset({EnvironmentPhase.PLACED, EnvironmentPhase.CLOSED}),
        EnvironmentPhase.PLACED: frozenset(
            {EnvironmentPhase.OPENING, EnvironmentPhase.WAITING, EnvironmentPhase.CLOSED}
        ),
        EnvironmentPhase.OPENING: frozenset(
            {
                EnvironmentPhase.OPEN,
                EnvironmentPhase.WAITING,
                EnvironmentPhase.CLOSING,
                EnvironmentPhase.CLOSED,
            }
        ),
        EnvironmentPhase.OPEN: frozenset({EnvironmentPhase.CLOSING, EnvironmentPhase.CLOSED}),
        EnvironmentPhase.CLOSING: frozenset({EnvironmentPhase.CLOSED}),
        EnvironmentPhase.CLOSED: frozenset(),
    }
)
"""Back to WAITING: an opening failed, or the node was lost; to CLOSED from OPENING: given up."""


def check_step(old: Phase, new: Phase, *, of: str) -> None:
    """Raises `InvariantError` if an action may not go from `old` to `new`."""
    if new not in TRANSITIONS[old]:
        raise InvariantError(f"action {of} cannot go from {old.value} to {new.value}")


def check_environment_step(old: EnvironmentPhase, new: EnvironmentPhase, *, of: str) -> None:
    """Raises `InvariantError` if an environment may not go from `old` to `new`."""
    if new not in ENVIRONMENT_TRANSITIONS[old]:
        raise InvariantError(f"environment {of} cannot go from {old.value} to {new.value}")
