"""Counters for Prometheus, in a registry of their own."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ..core.commands import Command, Resize, Start
from ..core.events import ActionExited, Event
from ..core.model import MILLI, Action, ActionId, Outcome
from .observers import Observer
from .results import Timing
from .steps import Steps

BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""Upper bounds in seconds."""


class _Spread:
    """How often a span fell below each bound, and the sum of all."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(BUCKETS, seconds)] += 1
        self._sum += seconds

    def family(self, part: str) -> HistogramMetricFamily:
        below, total = [], 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._counts, strict=True):
            total += count
            below.append((bound, total))
        family = HistogramMetricFamily(
            f"arl_tangram_action_{part}_seconds", f"Seconds of an action's life: {part}"
        )
        family.add_metric([], below, self._sum)
        return family


class Metrics(Observer, Collector):
    """Counts actions by how they ended, where their time went, and what is granted now.

    It counts in plain numbers, and makes metrics of them when somebody asks: an action may take
    less time than to look a label up.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._actions: Counter[tuple[str, str, str]] = Counter()
        self._spreads = {part: _Spread() for part in Timing._fields}
        self._resizes = 0
        self._held: dict[ActionId, int] = {}
        self._granted = 0
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        actions = CounterMetricFamily(
            "arl_tangram_actions", "Actions that ended", labels=("outcome", "task", "kind")
        )
        for labels, count in tuple(self._actions.items()):
            actions.add_metric(labels, count)
        yield actions
        for part, spread in self._spreads.items():
            yield spread.family(part.removesuffix("_s"))
        yield GaugeMetricFamily(
            "arl_tangram_units_granted",
            "CPU units held by running actions",
            value=self._granted / MILLI,
        )
        yield CounterMetricFamily(
            "arl_tangram_resizes", "Changes of a running action's units", value=self._resizes
        )

    def happened(self, event: Event, commands: Sequence[Command]) -> None:
        if isinstance(event, ActionExited):
            self._hold(event.action, 0)
        for command in commands:
            if isinstance(command, Start):
                self._hold(command.lease.action, command.lease.grant.cpu_milli)
            elif isinstance(command, Resize):
                self._hold(command.lease.action, command.lease.grant.cpu_milli)
                self._resizes += 1

    def finished(self, action: Action, outcome: Outcome, timing: Timing) -> None:
        self._hold(action.id, 0)
        self._actions[outcome.value, action.task, action.kind] += 1
        for spread, seconds in zip(self._spreads.values(), timing, strict=True):
            spread.add(seconds)

    def _hold(self, action: ActionId, milli: int) -> None:
        self._granted += milli - self._held.pop(action, 0)
        if milli:
            self._held[action] = milli


def counters(registry: CollectorRegistry) -> list[Observer]:
    """All that count, in this registry."""
    return [Metrics(registry), Steps(registry)]
