"""Recomputes what is known of services, instances and devices from scratch."""

from __future__ import annotations

from collections import Counter

from ...errors import InvariantError
from ..cluster import Cluster, NodeState
from ..phases import Phase
from .instances import InstancePhase
from .services import ServiceState, own_needs

_ON_DEVICES = frozenset({InstancePhase.RESTORING, InstancePhase.RESIDENT, InstancePhase.EVICTING})


def check_devices(cluster: Cluster, node: NodeState) -> None:
    """Raises `InvariantError` if the devices or host copies of a node are off."""
    gpus = node.pool.gpus
    here = [i for i in cluster.instances.values() if i.node == node.id]
    for device, (owner, claim) in enumerate(zip(gpus.owners, gpus.claims, strict=True)):
        on = [i.id for i in here if device in i.cell and i.phase in _ON_DEVICES]
        to_come = [i.id for i in here if device in i.cell and i.phase is InstancePhase.PLANNED]
        _require([] if owner is None else [owner], on, f"{node.id}: owners of device {device}")
        _require([] if claim is None else [claim], to_come, f"{node.id}: claims to {device}")
    for instance in here:
        width = instance.degree.gpus
        _require(True, instance.cell in gpus.cells(width), f"the cell of {instance.id}")
        claimed = instance.phase in _ON_DEVICES and any(gpus.claims[d] for d in instance.cell)
        _require(claimed, instance.claimed, f"claims to {instance.id}")
    restoring = [i.degree.gpus for i in here if i.phase is InstancePhase.RESTORING]
    _require(sum(restoring), node.restoring, f"{node.id}: devices being restored")
    kept: Counter[str] = Counter()
    for instance in here:
        if instance.phase is InstancePhase.PLANNED:
            kept.update(instance.needs)
    for state in cluster.services.values():
        if state.keeps is not None and state.keeps[0] == node.id:
            kept.update(state.keeps[1])
    _require(dict(kept), dict(node.kept), f"{node.id}: what is kept")
    for copy in node.copies:
        users = {
            i.id
            for i in here
            if i.service == copy.service and i.phase in _ON_DEVICES and copy.cell in {None, i.cell}
        }
        _require(True, copy.used_by <= users, f"users of the copy of {copy.service}")
        going = all(cluster.instances[name].forget for name in copy.used_by)
        _require(True, going or not copy.leaving, f"the copy of {copy.service} leaves in use")


def check_service(cluster: Cluster, state: ServiceState) -> None:
    """Raises `InvariantError` if the calls or instances of a service are off."""
    name = f"service {state.name}"
    mixes = Counter((entry.task, entry.action.kind) for entry in state.lines)
    _require(mixes, Counter({k: m.count for k, m in state.mixes.items()}), f"{name}: waiting calls")
    _require(len(state.lines), state.calls, f"{name}: the number of waiting calls")
    needy = sum(bool(own_needs(entry.least)) for entry in state.lines)
    _require(needy, state.needy, f"{name}: calls that need more of a node")
    live = {i.id: i for i in cluster.instances.values() if i.service == state.name}
    _require(live, state.instances, f"{name}: instances")
    for entry in state.lines:
        _require(Phase.QUEUED, entry.phase, f"{name}: the phase of {entry.id}")
    for instance in live.values():
        _require(
            True, len(instance.calls) <= state.service.slots, f"{name}: calls of {instance.id}"
        )
        for entry in instance.calls.values():
            held = entry.lease.instance if entry.lease else None
            _require(instance.id, held, f"{name}: the instance of {entry.id}")
        if instance.calls:
            _require(InstancePhase.RESIDENT, instance.phase, f"{name}: phase of {instance.id}")
        if state.pinned:
            _require(False, instance.claimed, f"{name}: claims to {instance.id}")


def _require(expected: object, actual: object, what: str) -> None:
    if expected != actual:
        raise InvariantError(f"{what}: {actual} instead of {expected}")
