"""How an attempt of an action begins: its lease is written, and its start ordered."""

from __future__ import annotations

from .cluster import Cluster, NodeState
from .commands import Start
from .entries import Entry
from .model import Lease
from .phases import Phase
from .serving.instances import Instance


def start(
    cluster: Cluster,
    entry: Entry,
    units: int,
    *,
    node: NodeState,
    instance: Instance | None = None,
    devices: tuple[int, ...] = (),
) -> None:
    """Start a waiting action on this node; the caller has checked that all it needs is there.

    Args:
        cluster: the state to write to.
        entry: who starts.
        units: of its key elastic resource; for a call, the devices of its instance; else 0.
        node: where.
        instance: what serves it, if it is a call.
        devices: what it holds itself, if it leases devices.
    """
    cluster.dequeue(entry)
    cluster.step(entry, Phase.RUNNING)
    entry.attempt += 1
    entry.units = units
    entry.resized = False
    entry.started_at = entry.counted_at = cluster.now
    entry.work_done = 0.0
    entry.startup_left = entry.curve.startup_s * units if entry.curve else 0.0
    entry.lease = Lease(
        action=entry.id,
        attempt=entry.attempt,
        node=node.id,
        grant=node.pool.take(entry.amounts(units), units=units, devices=devices),
        environment=entry.action.environment,
        instance=instance.id if instance else None,
    )
    for name in entry.quotas:
        cluster.quotas[name].take(cluster.now, entry.least[name])
    if instance is not None:
        instance.calls[entry.id] = entry
    cluster.seat(entry, node)
    cluster.out.append(Start(entry.lease))
