"""What an action waits for, in words for people."""

from __future__ import annotations

from itertools import takewhile

from .cluster import Cluster, NodeState
from .entries import Entry, EnvironmentEntry
from .model import CPU, MILLI, Explanation
from .phases import EnvironmentPhase, Phase
from .queue import Queue
from .wording import all_wanted

#: How many of those before it are named.
NAMED = 10


def explain(cluster: Cluster, entry: Entry) -> Explanation:
    """Why a live action is where it is."""
    environment_id = entry.action.environment
    environment = None if environment_id is None else cluster.environments.get(environment_id)
    if entry.phase is not Phase.QUEUED:
        node_id = entry.lease.node if entry.lease else None
        return Explanation(
            action=entry.id, phase=entry.phase.value, since_s=entry.submitted_at, node=node_id
        )
    if environment is not None and environment.phase is not EnvironmentPhase.OPEN:
        return Explanation(
            action=entry.id,
            phase=entry.phase.value,
            waits_for=_opening(cluster, environment),
            since_s=entry.submitted_at,
            node=environment.node,
        )
    node = cluster.nodes.get(entry.bound_to) if entry.bound_to else None
    served = Queue.served([node.queue if node else cluster.anywhere], cluster.held)
    before = list(takewhile(lambda other: other is not entry, served))
    return Explanation(
        action=entry.id,
        phase=entry.phase.value,
        waits_for=_missing(cluster, entry, node),
        behind=tuple(other.id for other in before[: -NAMED - 1 : -1]),
        ahead=len(before),
        since_s=entry.submitted_at,
        node=entry.bound_to,
    )


def _opening(cluster: Cluster, environment: EnvironmentEntry) -> str:
    match environment.phase:
        case EnvironmentPhase.OPENING:
            return f"environment {environment.id} to open"
        case EnvironmentPhase.PLACED if environment.node is not None:
            line = cluster.nodes[environment.node].to_open
            ahead = line.index(environment)
            return f"environment {environment.id} to open on {environment.node}, {ahead} before it"
        case _:
            needs = all_wanted(environment.environment.needs)
            return f"room for environment {environment.id}, which needs {needs or 'nothing'}"


def _missing(cluster: Cluster, entry: Entry, node: NodeState | None) -> str:
    if node is None:
        if not cluster.nodes:
            return "a node to join"
        lacks = [_lacks(entry, each) for each in cluster.nodes.values()]
        return f"any node to have room: {lacks[0]}" if all(lacks) else "its turn"
    return _lacks(entry, node) or "its turn"


def _lacks(entry: Entry, node: NodeState) -> str:
    draft = node.pool.draft()
    if draft.take(entry.least):
        return ""
    for name, amount in entry.least.items():
        have = node.pool.cpu.free_milli if name == CPU else node.pool.counts.get(name, 0)
        if amount > have:
            if name == CPU:
                return f"{amount / MILLI:g} cores on {node.id}, {have / MILLI:g} free"
            return f"{amount} of {name} on {node.id}, {have} free"
    return f"{entry.least[CPU] / MILLI:g} cores on {node.id} in one piece"
