"""What an action waits for, in words for people."""

from __future__ import annotations

from itertools import takewhile

from .cluster import Cluster, NodeState
from .entries import Entry, EnvironmentEntry
from .model import CPU, GPU, MILLI, Bundle, Explanation
from .phases import EnvironmentPhase, Phase
from .pools.quota import NEVER
from .queue import Queue
from .serving.instances import Instance, InstancePhase
from .serving.services import ServiceState, own_needs
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
    service = cluster.service_of(entry)
    lines = service.lines if service else node.queue if node else cluster.anywhere
    served = Queue.served([lines.line_of(entry)], cluster.standing)
    before = list(takewhile(lambda other: other is not entry, served))
    return Explanation(
        action=entry.id,
        phase=entry.phase.value,
        waits_for=_tokens(cluster, entry)
        or (_served(cluster, entry, service) if service else _missing(cluster, entry, node)),
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
        lacks = [_lacks(cluster, entry, each) for each in cluster.nodes.values()]
        return f"any node to have room: {lacks[0]}" if all(lacks) else "its turn"
    return _lacks(cluster, entry, node) or "its turn"


def _tokens(cluster: Cluster, entry: Entry) -> str:
    for name in entry.quotas:
        quota = cluster.quotas[name]
        if (have := quota.available(cluster.now)) < entry.least[name]:
            paused_s = quota.paused_until - cluster.now
            why = (
                f"paused for {paused_s:.1f} s"
                if paused_s > 0
                else f"{have} free, {quota.held} held"
            )
            if paused_s <= 0 and (at := quota.next_change(cluster.now, entry.least[name])) < NEVER:
                why += f", the next in {at - cluster.now:,.1f} s"
            return f"{entry.least[name]} tokens of {name} ({why})"
    return ""


def _served(cluster: Cluster, entry: Entry, state: ServiceState) -> str:
    if state.bare:
        return f"{entry.least[GPU]} free GPUs in one cell of a node"
    staying = state.staying()
    coming = [i for i in staying if i.phase is not InstancePhase.RESIDENT]
    if coming:
        first = min(coming, key=lambda i: i.ready_at)
        if first.phase is InstancePhase.PLANNED:
            return f"an instance of {state.name}, and that for others to leave its devices on {first.node}"
        in_s = first.ready_at - cluster.now
        when = f"to be ready in about {in_s:.1f} s" if in_s >= 0 else f"{-in_s:.1f} s overdue"
        return f"an instance of {state.name} that is being restored on {first.node}, {when}"
    for instance in staying:
        if len(instance.calls) < state.service.slots:
            node = cluster.nodes[instance.node]
            if missing := _short(node, own_needs(entry.least)):
                return f"{missing}, beside an instance of {state.name}"
    if staying:
        return f"one of {len(staying)} instances of {state.name} to be free for it"
    if state.resting(cluster.now):
        in_s = state.rest_until - cluster.now
        return (
            f"another try to restore {state.name} in {in_s:.1f} s; "
            f"the last one failed: {state.last_failure}"
        )
    return f"devices for an instance of {state.name}" + _in_the_way(cluster, state)


def _in_the_way(cluster: Cluster, state: ServiceState) -> str:
    """Who is on the devices that a service could be on, in brackets; empty if nobody is."""
    there = [
        _doing(cluster, instance)
        for instance in cluster.instances.values()
        if instance.service != state.name
        and any(
            state.could_run_on(cluster.nodes[instance.node].pool, d) for d in state.service.degrees
        )
    ]
    more = [f"and {len(there) - NAMED} more"] if len(there) > NAMED else []
    return f" ({', '.join(there[:NAMED] + more)})" if there else ""


def _doing(cluster: Cluster, instance: Instance) -> str:
    match instance.phase:
        case InstancePhase.PLANNED:
            doing = "is to come"
        case InstancePhase.RESTORING:
            doing = f"being restored for {cluster.now - instance.began_at:.1f} s"
        case InstancePhase.RESIDENT if instance.calls:
            doing = f"answers {len(instance.calls)} calls"
        case InstancePhase.RESIDENT:
            doing = "is idle"
        case _:
            doing = "is leaving"
    return f"{instance.id} {doing}"


def _lacks(cluster: Cluster, entry: Entry, node: NodeState) -> str:
    return _tokens(cluster, entry) or _short(node, entry.own)


def _short(node: NodeState, needs: Bundle) -> str:
    """What a node has too little of; empty if it has all of it."""
    if node.pool.draft().take(needs):
        return ""
    for name, amount in needs.items():
        have = node.pool.cpu.free_milli if name == CPU else node.pool.counts.get(name, 0)
        if amount > have:
            if name == CPU:
                return f"{amount / MILLI:g} cores on {node.id}, {have / MILLI:g} free"
            return f"{amount} of {name} on {node.id}, {have} free"
    return f"{needs[CPU] / MILLI:g} cores on {node.id} in one piece"
