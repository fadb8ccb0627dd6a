"""Onlookers of the driver: they see everything and can break nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..core.commands import Command
from ..core.events import Event
from ..core.model import Action, Outcome
from ..errors import ConfigError
from .checks import shown
from .results import Timing

log = logging.getLogger(__name__)

_REMOVED = "observer %r raised and is removed"


class Observer:
    """Overrides what it wants to see. One that raises is logged once and not called again.

    The calls come from inside the driver: they must be quick and must not wait.
    """

    def happened(self, event: Event, commands: Sequence[Command]) -> None:
        """The kernel answered this event with these commands."""

    def finished(self, action: Action, outcome: Outcome, timing: Timing) -> None:
        """An action ended for good."""

    def close(self) -> None:
        """Nothing more will come."""


def onlookers(given: object) -> Sequence[Observer]:
    """What was given as observers; raises `ConfigError` for what is none."""
    if not isinstance(given, Sequence) or not all(isinstance(each, Observer) for each in given):
        raise ConfigError(f"observers={shown(given)}: give a list of objects of class Observer")
    return given


class Observers:
    """All onlookers of one driver; only the methods that they override are called."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._all = list(observers)
        self._select()

    def happened(self, event: Event, commands: Sequence[Command]) -> None:
        for observer in self._happened:
            try:
                observer.happened(event, commands)
            except Exception:
                log.exception(_REMOVED, observer)
                self._remove(observer)

    def finished(self, action: Action, outcome: Outcome, timing: Timing) -> None:
        for observer in self._finished:
            try:
                observer.finished(action, outcome, timing)
            except Exception:
                log.exception(_REMOVED, observer)
                self._remove(observer)

    def close(self) -> None:
        for observer in tuple(self._all):
            try:
                observer.close()
            except Exception:
                log.exception(_REMOVED, observer)
                self._remove(observer)

    def _remove(self, observer: Observer) -> None:
        self._all.remove(observer)
        self._select()

    def _select(self) -> None:
        # New lists, not changed ones: this happens while the old ones are walked.
        self._happened = [o for o in self._all if type(o).happened is not Observer.happened]
        self._finished = [o for o in self._all if type(o).finished is not Observer.finished]
