"""Writes down who held how many units from when to when, as the scheduler decides it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..core.commands import Command, OpenEnvironment, Resize, Start
from ..core.events import (
    ActionExited,
    ActionSubmitted,
    EnvironmentClosed,
    EnvironmentFailed,
    Event,
)
from ..core.model import CPU, MILLI, Action, ActionId, EnvironmentId, Seconds
from ..runtime.observers import Observer

ENVIRONMENT = "environment"


@dataclass(slots=True)
class Span:
    """Units held by one action, or by an environment that owns them.

    Attributes:
        kind: the action's, or `ENVIRONMENT`.
        held: every amount, with the time it was held from.
        ended_at: when they were given back; None if that was never seen.
        lane: the first of its units, where units have numbers and neighbours.
    """

    trajectory: str
    kind: str
    held: list[tuple[Seconds, float]] = field(default_factory=list)
    ended_at: Seconds | None = None
    lane: int | None = None

    @property
    def unit_s(self) -> float:
        """Units times the seconds they were held."""
        if self.ended_at is None:
            return 0.0
        ends = [at for at, _ in self.held[1:]] + [self.ended_at]
        return sum((end - at) * units for (at, units), end in zip(self.held, ends, strict=True))


class Ledger(Observer):
    """Watches a driver.

    Attributes:
        spans: everything that held units, in the order it began.
        placed_at: when each environment was last given its place.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.placed_at: dict[str, Seconds] = {}
        self._actions: dict[ActionId, Action] = {}
        self._of_action: dict[ActionId, Span] = {}
        self._of_environment: dict[EnvironmentId, Span] = {}

    def happened(self, event: Event, commands: Sequence[Command]) -> None:
        match event:
            case ActionSubmitted(action=action):
                self._actions[action.id] = action
            case ActionExited(action=identity):
                _end(self._of_action.pop(identity, None), event.at)
            case EnvironmentClosed(environment=name) | EnvironmentFailed(environment=name):
                _end(self._of_environment.pop(name, None), event.at)
            case _:
                pass
        for command in commands:
            match command:
                case Start(lease):
                    action = self._actions[lease.action]
                    span = Span(action.trajectory, action.kind)
                    span.held.append((event.at, lease.grant.cpu_milli / MILLI))
                    self._of_action[lease.action] = span
                    self.spans.append(span)
                case Resize(lease):
                    units = lease.grant.cpu_milli / MILLI
                    self._of_action[lease.action].held.append((event.at, units))
                case OpenEnvironment(environment):
                    self.placed_at[environment.id] = event.at
                    if milli := environment.needs.get(CPU, 0):
                        span = Span(environment.trajectory, ENVIRONMENT)
                        span.held.append((event.at, milli / MILLI))
                        self._of_environment[environment.id] = span
                        self.spans.append(span)
                case _:
                    pass


def _end(span: Span | None, at: Seconds) -> None:
    if span is not None:
        span.ended_at = at
