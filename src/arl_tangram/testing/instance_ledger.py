"""Which devices and host memory instances of services hold, told from events and commands alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..core.commands import EvictService, RestoreService
from ..core.model import GPU, Action, ActionId, InstanceId, Lease, Node, NodeId, Service


@dataclass(slots=True, eq=False)
class Kept:
    """A copy on a host; `cell` is where it belongs, if it cannot go elsewhere."""

    service: Service
    node: NodeId
    cell: tuple[int, ...] | None
    last: InstanceId
    going: bool = False


@dataclass(slots=True, eq=False)
class Up:
    """An instance as its commands tell it: ``restoring``, ``ready`` or ``evicting``."""

    service: Service
    node: NodeId
    devices: tuple[int, ...]
    copy: Kept
    cold: bool
    state: str = "restoring"
    calls: set[ActionId] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class InstanceLedger:
    """Raises `AssertionError` at the first broken promise about instances.

    What it knows: no device is ever held twice, cells are aligned and of a width that the service
    supports, nothing in use is evicted, pinned instances stay, calls go to instances that are
    ready and have a slot, and what is restored without a copy makes one.
    """

    services: dict[str, Service] = field(default_factory=dict)
    up: dict[InstanceId, Up] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)
    forgetting: dict[InstanceId, Kept] = field(default_factory=dict)
    ever: set[InstanceId] = field(default_factory=set)

    # -- facts -------------------------------------------------------------------------------

    def restored(self, name: InstanceId) -> None:
        """An instance is ready, if that is news."""
        if (up := self.up.get(name)) and up.state == "restoring":
            up.state = "ready"

    def evicted(self, name: InstanceId) -> None:
        """An instance or a copy is gone, if it was told to go."""
        if name in self.forgetting:
            self.kept.remove(self.forgetting.pop(name))
        elif (up := self.up.get(name)) and up.state == "evicting":
            del self.up[name]
            if up.copy.going:
                self._drop(up.copy)

    def failed(self, name: InstanceId) -> None:
        """An instance is gone; a copy that depended on it too."""
        if name in self.forgetting:
            self.kept.remove(self.forgetting.pop(name))
        if (up := self.up.pop(name, None)) and (not up.service.movable or up.cold or up.copy.going):
            self._drop(up.copy)

    def lose(self, node: NodeId) -> None:
        """A node is gone with all of it."""
        self.up = {name: up for name, up in self.up.items() if up.node != node}
        self.kept = [kept for kept in self.kept if kept.node != node]
        self.forgetting = {n: kept for n, kept in self.forgetting.items() if kept.node != node}

    def left(self, action: ActionId) -> None:
        """A call has ended."""
        for up in self.up.values():
            up.calls.discard(action)

    # -- orders ------------------------------------------------------------------------------

    def restore(self, command: RestoreService, node: Node) -> None:
        """An instance is told to come up."""
        name, service, devices = command.instance, command.service, command.devices
        assert self.services[service.name] == service, f"another service: {command}"
        assert name not in self.ever, f"an instance comes twice: {command}"
        self.ever.add(name)
        degree = next((d for d in service.degrees if d.gpus == len(devices)), None)
        assert degree is not None, f"a width it does not support: {command}"
        assert devices[0] % degree.gpus == 0, f"not aligned: {command}"
        assert devices == tuple(range(devices[0], devices[0] + degree.gpus)), f"gaps: {command}"
        assert devices[-1] < node.gpus, f"no such device: {command}"
        assert degree.device_mib <= node.gpu_mib, f"too big for its devices: {command}"
        assert service.gpu_model in {"", node.gpu_model}, f"the wrong model: {command}"
        if service.pinned:
            here = [u for u in self.up.values() if u.service is service]
            widths = Counter(len(u.devices) for u in here)
            widths[degree.gpus] += 1
            assert widths <= Counter(service.pinned), f"more than are pinned: {command}"
        copy = next((kept for kept in self.kept if self._serves(kept, command)), None)
        assert command.cold == (copy is None), f"cold or not: {command}"
        if copy is None:
            cell = None if service.movable else devices
            copy = Kept(service, node.id, cell, name)
            self.kept.append(copy)
        copy.last = name
        self.up[name] = Up(service, node.id, devices, copy, command.cold)

    def evict(self, command: EvictService) -> None:
        """An instance, or a copy, is told to go."""
        name = command.instance
        if (up := self.up.get(name)) is None or up.state == "evicting":
            assert command.forget, f"evicts what is not ready: {command}"
            kept = next(k for k in self.kept if k.last == name and k.node == command.node)
            assert not kept.going, f"forgets twice: {command}"
            assert not self._users(kept), f"forgets a copy in use: {command}"
            kept.going = True
            self.forgetting[name] = kept
            return
        assert not up.calls, f"evicts an instance in use: {command}"
        assert not up.service.pinned, f"evicts a pinned instance: {command}"
        assert (up.service.name, up.node) == (command.service, command.node), f"wrong: {command}"
        if up.state == "restoring":
            alone = self._users(up.copy) == [up]
            assert command.forget == (alone and (up.cold or not up.service.movable)), f"{command}"
        up.state = "evicting"
        up.copy.going = up.copy.going or command.forget

    def call(self, action: Action, lease: Lease) -> None:
        """A call is told to start."""
        if action.service is None:
            return
        assert lease.instance in self.up, f"no such instance: {lease}"
        up = self.up[lease.instance]
        assert up.state == "ready", f"called while {up.state}: {lease}"
        assert up.service.name == action.service, f"another service's instance: {lease}"
        assert up.node == lease.node, f"the instance is on {up.node}: {lease}"
        assert lease.grant.units == len(up.devices), f"units are not its devices: {lease}"
        up.calls.add(action.id)
        assert len(up.calls) <= up.service.slots, f"more calls than slots: {lease}"

    # -- sums --------------------------------------------------------------------------------

    def host_mib(self, node: NodeId) -> int:
        """Memory that copies hold on a node."""
        return sum(kept.service.host_mib for kept in self.kept if kept.node == node)

    def check_devices(self, node: Node, leases: Iterator[Lease]) -> None:
        """No device is held twice, by instances and by leases of devices."""
        held: Counter[int] = Counter()
        for up in self.up.values():
            if up.node == node.id:
                held.update(up.devices)
        for lease in leases:
            devices = lease.grant.devices
            if GPU in lease.grant.amounts and node.gpus:
                wanted = lease.grant.amounts[GPU]
                assert len(devices) >= wanted, f"too few devices: {lease}"
                assert devices[0] % len(devices) == 0, f"not aligned: {lease}"
            held.update(devices)
        assert all(count == 1 for count in held.values()), f"devices held twice: {held}"
        assert not held or max(held) < node.gpus, f"no such device on {node.id}: {held}"

    def _serves(self, kept: Kept, command: RestoreService) -> bool:
        return (
            not kept.going
            and kept.service.name == command.service.name
            and kept.node == command.node
            and kept.cell in {None, command.devices}
        )

    def _users(self, kept: Kept) -> list[Up]:
        return [up for up in self.up.values() if up.copy is kept]

    def _drop(self, kept: Kept) -> None:
        if kept in self.kept and kept not in self.forgetting.values() and not self._users(kept):
            self.kept.remove(kept)
