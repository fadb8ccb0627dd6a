"""A watched kernel with GPU services, driven by short sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.commands import Command, EvictService, RestoreService
from ..core.events import (
    InstanceFailed,
    QuotaDeclared,
    ServiceDeclared,
    ServiceEvicted,
    ServiceRestored,
)
from ..core.model import (
    Action,
    ActionId,
    Bundle,
    Degree,
    InstanceId,
    Node,
    NodeId,
    Quota,
    Seconds,
    Service,
    TaskId,
)
from .builders import bundle
from .watched import Watched


def gpu_node(
    name: str = "g0",
    *,
    gpus: int = 8,
    gpu_mib: int = 1000,
    model: str = "",
    cpu: float = 4,
    memory: int = 10_000,
) -> Node:
    """A machine with GPUs."""
    capacity = bundle(cpu=cpu, memory=memory)
    return Node(id=NodeId(name), capacity=capacity, gpus=gpus, gpu_mib=gpu_mib, gpu_model=model)


def service(
    name: str,
    *widths: int,
    restore_s: Seconds | None = 2.0,
    device_mib: int = 0,
    host_mib: int = 0,
    slots: int = 1,
    movable: bool = True,
    load_s: Seconds | None = None,
    model: str = "",
    pinned: Sequence[int] = (),
) -> Service:
    """A service of these widths (1 if none are given), as fast as it has devices."""
    degrees = tuple(
        Degree(gpus=gpus, speedup=float(gpus), device_mib=device_mib // gpus, restore_s=restore_s)
        for gpus in widths or (1,)
    )
    return Service(
        name=name,
        degrees=degrees,
        host_mib=host_mib,
        slots=slots,
        movable=movable,
        load_s=load_s,
        gpu_model=model,
        pinned=tuple(pinned),
    )


def call(
    name: str,
    to: str,
    *,
    task: str = "default",
    kind: str = "score",
    priority: int = 0,
    needs: Bundle | None = None,
    max_attempts: int = 3,
) -> Action:
    """A call to a service."""
    return Action(
        id=ActionId(name),
        task=TaskId(task),
        kind=kind,
        service=to,
        needs=needs or {},
        priority=priority,
        max_attempts=max_attempts,
    )


class Served(Watched):
    """Feeds a kernel events of services too."""

    def declare(self, service: Service) -> list[Command]:
        return self.feed(ServiceDeclared(at=self.now, service=service))

    def quota(self, quota: Quota) -> list[Command]:
        return self.feed(QuotaDeclared(at=self.now, quota=quota))

    def restored(self, instance: InstanceId) -> list[Command]:
        return self.feed(ServiceRestored(at=self.now, instance=instance))

    def evicted(self, instance: InstanceId) -> list[Command]:
        return self.feed(ServiceEvicted(at=self.now, instance=instance))

    def failed(self, instance: InstanceId, reason: str = "it crashed") -> list[Command]:
        return self.feed(InstanceFailed(at=self.now, instance=instance, reason=reason))

    def up(self, service: Service) -> list[InstanceId]:
        """Declare a service and let all that is to come for it come; its instances."""
        self.declare(service)
        self.settle()
        return self.instances(service.name)

    def settle(self, *, restore_s: Seconds = 2.0) -> None:
        """Let every restore and eviction under way, and those that follow, come to an end."""
        for _ in range(100):
            if not self.coming() and not self.leaving():
                return
            for name in self.leaving():
                self.evicted(name)
            if self.coming():
                self.now += restore_s
            for name in self.coming():
                self.restored(name)
        raise AssertionError("instances come and go without end")

    def coming(self) -> list[InstanceId]:
        """Instances being restored."""
        return [n for n, up in self.ledger.instances.up.items() if up.state == "restoring"]

    def leaving(self) -> list[InstanceId]:
        """Instances being evicted, and copies being forgotten."""
        up = self.ledger.instances.up.items()
        return [*(n for n, u in up if u.state == "evicting"), *self.ledger.instances.forgetting]

    def instances(self, service: str) -> list[InstanceId]:
        """Those of a service that have devices."""
        up = self.ledger.instances.up.items()
        return [name for name, u in up if u.service.name == service]

    def widths(self, service: str) -> list[int]:
        """How many devices each of them has, the most first."""
        up = self.ledger.instances.up
        return sorted((len(up[name].devices) for name in self.instances(service)), reverse=True)


def restores(commands: Sequence[Command]) -> list[tuple[str, tuple[int, ...], bool]]:
    """What is told to come up: the service, on which devices, and whether from scratch."""
    found = [command for command in commands if isinstance(command, RestoreService)]
    return [(command.service.name, command.devices, command.cold) for command in found]


def evictions(commands: Sequence[Command]) -> list[tuple[str, bool]]:
    """What is told to go: the service, and whether its copy on the host goes too."""
    found = [command for command in commands if isinstance(command, EvictService)]
    return [(command.service, command.forget) for command in found]
