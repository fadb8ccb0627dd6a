"""How far the latest steps are: counted from the environments that name them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..core.commands import Command, ResolveEnvironment
from ..core.events import EnvironmentClosed, EnvironmentRequested, Event
from ..core.model import EnvironmentId
from .observers import Observer

KEPT = 16
"""How many steps are told; a step's number is a new label, and those add up."""


@dataclass(slots=True)
class _Step:
    began: float
    last: float
    wanted: int = 0
    ended: int = 0


class Steps(Observer, Collector):
    """A step lasts from when its first environment is asked for until its last one is gone."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._steps: OrderedDict[tuple[str, str], _Step] = OrderedDict()
        self._of: dict[EnvironmentId, _Step] = {}
        self._now = 0.0
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        labels = ("task", "step")
        lasted = GaugeMetricFamily(
            "arl_tangram_step_seconds",
            "From the first environment of a step asked for to the last one gone, so far",
            labels=labels,
        )
        environments = GaugeMetricFamily(
            "arl_tangram_step_environments",
            "Environments of a step that are wanted or open, and that are gone",
            labels=(*labels, "state"),
        )
        for key, step in tuple(self._steps.items()):
            live = step.wanted - step.ended
            lasted.add_metric(key, (self._now if live else step.last) - step.began)
            environments.add_metric((*key, "live"), live)
            environments.add_metric((*key, "gone"), step.ended)
        yield lasted
        yield environments

    def happened(self, event: Event, commands: Sequence[Command]) -> None:
        self._now = event.at
        if isinstance(event, EnvironmentRequested) and event.environment.step:
            key = (event.environment.task, event.environment.step)
            step = self._steps.setdefault(key, _Step(event.at, event.at))
            step.wanted += 1
            self._of[event.environment.id] = step
            if len(self._steps) > KEPT:
                self._steps.popitem(last=False)
        if self._of:
            if isinstance(event, EnvironmentClosed):
                self._gone(event.environment, event.at)
            for command in commands:
                if isinstance(command, ResolveEnvironment):
                    self._gone(command.environment, event.at)

    def _gone(self, environment: EnvironmentId, at: float) -> None:
        if step := self._of.pop(environment, None):
            step.ended += 1
            step.last = at
