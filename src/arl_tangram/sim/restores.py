"""Restores on virtual hosts: what moves to the devices shares the node's bandwidth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from ..core.commands import RestoreService
from ..core.model import InstanceId, NodeId, Seconds
from .workload import ServedModel

DEFAULT_HOST_GB_PER_S = 100.0
"""What a node's host can send to its devices in a second, all together: four links at full speed."""


class Restore:
    """One instance on its way to its devices.

    Attributes:
        version: grows with every change of speed, so that an end foreseen before is void.
    """

    __slots__ = (
        "_fixed_left_s",
        "_gb_left",
        "_since",
        "command",
        "link_gb_per_s",
        "speed",
        "version",
    )

    def __init__(self, command: RestoreService, model: ServedModel, *, now: Seconds) -> None:
        self.command = command
        self.version = 0
        self.link_gb_per_s = model.link_gb_per_s * len(command.devices)
        self.speed = self.link_gb_per_s
        self._fixed_left_s = model.fixed_s
        self._gb_left = model.gigabytes
        self._since = now

    def slow_down(self, share: float, *, now: Seconds) -> None:
        """Move at this share of the link's speed from now on."""
        elapsed = now - self._since
        fixed = min(elapsed, self._fixed_left_s)
        self._fixed_left_s -= fixed
        self._gb_left = max(self._gb_left - (elapsed - fixed) * self.speed, 0.0)
        self._since = now
        self.speed = self.link_gb_per_s * share
        self.version += 1

    def ends_at(self) -> Seconds:
        """When it is done if nothing changes."""
        moving = self._gb_left / self.speed if self._gb_left else 0.0
        return self._since + self._fixed_left_s + moving


class Host:
    """The restores under way on one node."""

    def __init__(self, gb_per_s: float) -> None:
        self._gb_per_s = gb_per_s
        self._restores: list[Restore] = []

    def begin(self, restore: Restore, *, now: Seconds) -> list[Restore]:
        """Let one begin; returns all of them, whose ends are to be foreseen anew."""
        self._restores.append(restore)
        return self._share(now)

    def end(self, restore: Restore, *, now: Seconds) -> list[Restore]:
        """One is done; returns the others."""
        self._restores.remove(restore)
        return self._share(now)

    def _share(self, now: Seconds) -> list[Restore]:
        wanted = sum(restore.link_gb_per_s for restore in self._restores)
        share = min(1.0, self._gb_per_s / wanted) if wanted else 1.0
        for restore in self._restores:
            restore.slow_down(share, now=now)
        return list(self._restores)


class Restores:
    """All restores of a step, by node.

    Attributes:
        spans: when each instance began to be restored, and when it was ready.
    """

    def __init__(self, models: Iterable[ServedModel], *, host_gb_per_s: float) -> None:
        self.spans: dict[InstanceId, tuple[Seconds, Seconds]] = {}
        self._models = {model.service.name: model for model in models}
        self._under_way: dict[InstanceId, Restore] = {}
        self._hosts: dict[NodeId, Host] = defaultdict(partial(Host, host_gb_per_s))

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self.spans)

    def begin(self, command: RestoreService, *, now: Seconds) -> list[Restore]:
        """Let one begin; returns those whose ends are to be foreseen anew."""
        self.spans[command.instance] = (now, now)
        restore = Restore(command, self._models[command.service.name], now=now)
        self._under_way[command.instance] = restore
        return self._hosts[command.node].begin(restore, now=now)

    def give_up(self, instance: InstanceId, *, now: Seconds) -> list[Restore]:
        """One is not to be done, if it was under way; returns those whose ends are to be foreseen."""
        restore = self._under_way.get(instance)
        if restore is None:
            return []
        restore.version += 1
        return self.end(restore, now=now)

    def end(self, restore: Restore, *, now: Seconds) -> list[Restore]:
        """One is done; returns those whose ends are to be foreseen anew."""
        command = restore.command
        del self._under_way[command.instance]
        self.spans[command.instance] = (self.spans[command.instance][0], now)
        return self._hosts[command.node].end(restore, now=now)
