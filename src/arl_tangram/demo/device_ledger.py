"""Writes down which instance of a service was on which devices from when to when, and when it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.commands import Command, RestoreService, Start
from ..core.events import ActionExited, Event, InstanceFailed, ServiceEvicted, ServiceRestored
from ..core.model import ActionId, InstanceId, Seconds
from ..runtime.observers import Observer
from .ledger import Span

RESTORING, RESIDENT = "restoring", "resident"


@dataclass(slots=True)
class _Stay:
    """Devices from `lane` on, held for one purpose until `ended_at`, if that has come."""

    name: str
    kind: str
    lane: int
    devices: int
    began_at: Seconds
    ended_at: Seconds | None = None


class DeviceLedger(Observer):
    """Watches a driver.

    Attributes:
        restores: when each restore was begun.
    """

    def __init__(self) -> None:
        self.restores: list[Seconds] = []
        self._stays: list[_Stay] = []
        self._instances: dict[InstanceId, _Stay] = {}
        self._calls: dict[ActionId, _Stay] = {}

    def happened(self, event: Event, commands: Sequence[Command]) -> None:
        match event:
            case ServiceRestored(at=at, instance=name):
                restoring = self._instances[name]
                restoring.ended_at = at
                self._instances[name] = self._begin(restoring, RESIDENT, at)
            case ServiceEvicted(at=at, instance=name) | InstanceFailed(at=at, instance=name):
                if (stay := self._instances.pop(name, None)) is not None:
                    stay.ended_at = at
            case ActionExited(at=at, action=action):
                if (call := self._calls.pop(action, None)) is not None:
                    call.ended_at = at
            case _:
                pass
        for command in commands:
            match command:
                case RestoreService(service, name, _, devices):
                    stay = _Stay(service.name, RESTORING, devices[0], len(devices), event.at)
                    self._stays.append(stay)
                    self._instances[name] = stay
                    self.restores.append(event.at)
                case Start(lease) if lease.instance is not None:
                    stay = self._instances[lease.instance]
                    self._calls[lease.action] = self._begin(stay, stay.name, event.at)
                case _:
                    pass

    def spans(self, began: Seconds, ended: Seconds) -> tuple[Span, ...]:
        """All of them between two times, counted from the first; calls have their service's name."""
        found = []
        for stay in self._stays:
            begin = max(stay.began_at, began)
            end = ended if stay.ended_at is None else min(stay.ended_at, ended)
            if begin < end:
                held = [(begin - began, float(stay.devices))]
                span = Span(stay.name, stay.kind, held=held, ended_at=end - began, lane=stay.lane)
                found.append(span)
        return tuple(found)

    def _begin(self, stay: _Stay, kind: str, at: Seconds) -> _Stay:
        begun = _Stay(stay.name, kind, stay.lane, stay.devices, at)
        self._stays.append(begun)
        return begun
