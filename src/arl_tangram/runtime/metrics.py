"""Counters for Prometheus, in a registry of their own."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ..core.commands import Command, Resize, Start
from ..core.events import ActionExited, Event
from ..core.model import MILLI, Action, ActionId, Outcome
from .observers import Observer
from .results import Timing

_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, float("inf"))


class Metrics(Observer):
    """Counts actions by how they ended, where their time went, and what is granted now."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._actions = Counter(
            "arl_tangram_actions",
            "Actions that ended",
            ("outcome", "task", "kind"),
            registry=registry,
        )
        parts = ("queued", "overhead", "run")
        self._seconds = {
            part: Histogram(
                f"arl_tangram_action_{part}_seconds",
                f"Seconds of an action's life: {part}",
                buckets=_BUCKETS,
                registry=registry,
            )
            for part in parts
        }
        self._granted = Gauge(
            "arl_tangram_units_granted", "CPU units held by running actions", registry=registry
        )
        self._resizes = Counter(
            "arl_tangram_resizes", "Changes of a running action's units", registry=registry
        )
        self._held: dict[ActionId, int] = {}
        self._total = 0
        self._granted.set_function(lambda: self._total / MILLI)

    def happened(self, event: Event, commands: Sequence[Command]) -> None:
        if isinstance(event, ActionExited):
            self._hold(event.action, 0)
        for command in commands:
            if isinstance(command, Start | Resize):
                self._hold(command.lease.action, command.lease.grant.cpu_milli)
                if isinstance(command, Resize):
                    self._resizes.inc()

    def finished(self, action: Action, outcome: Outcome, timing: Timing) -> None:
        self._hold(action.id, 0)
        self._actions.labels(outcome.value, action.task, action.kind).inc()
        self._seconds["queued"].observe(timing.queued_s)
        self._seconds["overhead"].observe(timing.overhead_s)
        self._seconds["run"].observe(timing.run_s)

    def _hold(self, action: ActionId, milli: int) -> None:
        self._total += milli - self._held.pop(action, 0)
        if milli:
            self._held[action] = milli
