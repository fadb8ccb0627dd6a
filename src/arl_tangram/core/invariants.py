"""Recomputes every sum and index of the scheduling state from scratch."""

from __future__ import annotations

from collections import Counter, defaultdict

from ..errors import InvariantError
from .cluster import Cluster, NodeState
from .model import CPU, MEMORY, MILLI, Grant, TaskId
from .phases import EnvironmentPhase, Phase
from .serving.invariants import check_devices, check_service
from .shares import Shares

_ON_A_NODE = frozenset(
    {
        EnvironmentPhase.PLACED,
        EnvironmentPhase.OPENING,
        EnvironmentPhase.OPEN,
        EnvironmentPhase.CLOSING,
    }
)


def check(cluster: Cluster) -> None:
    """Raises `InvariantError` at the first sum or index that is off."""
    _check_entries(cluster)
    _check_environments(cluster)
    for node in cluster.nodes.values():
        _check_node(cluster, node)
        check_devices(cluster, node)
    for service in cluster.services.values():
        check_service(cluster, service)
    for name, entry in cluster.spared.items():
        waits = entry.phase is Phase.QUEUED and name in entry.quotas
        _require(waits, f"tokens of {name} are left for {entry.id}, which does not wait for them")
    _require(not cluster.yielded, "services that let others go first were not looked at again")


def _require(condition: object, message: str) -> None:
    if not condition:
        raise InvariantError(message)


def _check_entries(cluster: Cluster) -> None:
    held: dict[Shares, Counter[TaskId]] = defaultdict(Counter)
    queued = [*cluster.anywhere, *(e for n in cluster.nodes.values() for e in n.queue)]
    queued += [e for service in cluster.services.values() for e in service.lines]
    waiting = [e for env in cluster.environments.values() for e in env.waiting.values()]
    everywhere = Counter(entry.id for entry in [*queued, *waiting])
    for entry in cluster.entries.values():
        name = f"action {entry.id}"
        leased = entry.phase in {Phase.RUNNING, Phase.STOPPING}
        _require((entry.lease is not None) == leased, f"{name}: lease and phase disagree")
        expected = int(entry.phase is Phase.QUEUED)
        _require(everywhere[entry.id] == expected, f"{name}: queue and phase disagree")
        _require(entry.id not in cluster.ended, f"{name} has ended and lives")
        if entry.lease is None:
            continue
        for shares, weight in cluster.shares_of(entry):
            held[shares][entry.task] += weight
        node = cluster.nodes[entry.lease.node]
        _require(node.running.get(entry.id) is entry, f"{name} is not known to its node")
        _require(entry.lease.grant.units == entry.units, f"{name}: units and grant disagree")
        _require(
            dict(entry.lease.grant.amounts) == dict(entry.amounts(entry.units or 1))
            if entry.action.elastic
            else entry.lease.grant.amounts == entry.action.needs,
            f"{name}: amounts and units disagree",
        )
    live = sum(n.queue.__len__() for n in cluster.nodes.values()) + len(cluster.anywhere)
    live += sum(len(service.lines) for service in cluster.services.values())
    _require(live == len(queued), "a queue's length is off")
    _require(set(everywhere) <= set(cluster.entries), "a queue holds an ended action")
    every = [cluster.shares, cluster.answering]
    every += [quota.shares for quota in cluster.quotas.values()]
    every += [service.shares for service in cluster.services.values()]
    for shares in every:
        have = dict(shares.held)
        _require(have == held[shares], f"fair shares are off: {have} != {dict(held[shares])}")


def _check_environments(cluster: Cluster) -> None:
    for entry in cluster.environments.values():
        name = f"environment {entry.id}"
        placed = entry.phase in _ON_A_NODE
        _require((entry.node is not None) == placed, f"{name}: node and phase disagree")
        _require((entry.grant is not None) == placed, f"{name}: grant and phase disagree")
        if entry.node is not None:
            node = cluster.nodes[entry.node]
            _require(node.environments.get(entry.id) is entry, f"{name} unknown to its node")
        if entry.phase is EnvironmentPhase.OPEN:
            _require(not entry.waiting, f"{name} is open and has actions that wait for it")
        for action in entry.queued.values():
            _require(action.phase is Phase.QUEUED, f"{name}: {action.id} is not queued")
            _require(action.bound_to == entry.node, f"{name}: {action.id} waits elsewhere")
        for action in entry.running.values():
            _require(action.lease is not None, f"{name}: {action.id} does not run")
    unplaced = {entry.id for entry in cluster.unplaced}
    waiting = {
        entry.id
        for entry in cluster.environments.values()
        if entry.phase is EnvironmentPhase.WAITING and entry.retry_at is None
    }
    _require(waiting == unplaced, f"environments forgotten or not: {waiting ^ unplaced}")


def _check_node(cluster: Cluster, node: NodeState) -> None:
    grants: list[Grant] = [e.lease.grant for e in node.running.values() if e.lease]
    grants += [e.grant for e in node.environments.values() if e.grant]
    total: Counter[str] = Counter()
    for grant in grants:
        total.update(grant.amounts)
    total[MEMORY] += sum(copy.mib for copy in node.copies)
    for name, capacity in node.pool.capacity.items():
        free = node.pool.cpu.free_milli if name == CPU else node.pool.counts[name]
        _require(free >= 0, f"{node.id}: {name} is over-committed by {-free}")
        _require(free + total[name] == capacity, f"{node.id}: {name} leaks: {free} + {total[name]}")
    _check_cores(node, grants)
    owned: Counter[str] = Counter()
    for environment in node.environments.values():
        owned.update(environment.grant.amounts if environment.grant else {})
    for copy in node.copies:
        if cluster.services[copy.service].pinned:
            owned[MEMORY] += copy.mib
    for name in {*owned, *node.owned}:
        _require(owned[name] == node.owned.get(name, 0), f"{node.id}: owned {name} is off")
    surplus: dict[str, int] = defaultdict(int)
    for entry in node.resizable.values():
        elastic = entry.action.elastic
        if elastic is None or not elastic.resizable:
            raise InvariantError(f"{entry.id} is not resizable")
        _require(entry.phase is Phase.RUNNING, f"{entry.id} does not run and is resizable")
        surplus[elastic.resource] += entry.units - elastic.least
    for name in {*surplus, *node.surplus}:
        _require(surplus[name] == node.surplus[name], f"{node.id}: surplus of {name} is off")
    reserved = node.reserved_for
    _require(
        reserved is None or reserved.phase is EnvironmentPhase.WAITING,
        f"{node.id}: room is kept for an environment that does not wait",
    )
    opening = [e for e in node.environments.values() if e.phase is EnvironmentPhase.OPENING]
    _require(node.opening == len(opening), f"{node.id}: the ramp counts wrong")


def _check_cores(node: NodeState, grants: list[Grant]) -> None:
    used: Counter[int] = Counter()
    for grant in grants:
        whole, part = divmod(grant.cpu_milli, MILLI)
        _require(len(grant.cores) == whole + bool(part), f"{node.id}: cores and CPU disagree")
        for core in grant.cores[:whole]:
            used[core] += MILLI
        if part:
            used[grant.cores[whole]] += part
    cpu = node.pool.cpu
    sizes, free = cpu.sizes(), set(cpu.untouched())
    for core, milli in used.items():
        _require(milli <= sizes.get(core, 0), f"{node.id}: core {core} is granted twice")
    for core, size in sizes.items():
        expected = size if core in free else cpu.rooms.get(core, 0)
        _require(used[core] + expected == size, f"{node.id}: core {core} has not what is left")
