"""Which instances each service would best have, if all devices were shared out anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..cluster import Cluster, NodeState
from ..model import MEMORY, Degree, InstanceId, NodeId, Seconds
from ..pools.gpu import WIDTHS, Cell
from .services import ServiceState
from .worth import cost

Widths = tuple[int, ...]
Deployment = Mapping[str, Widths]


def deploy(cluster: Cluster, states: Sequence[ServiceState], *, now: Seconds) -> dict[str, Widths]:
    """For each service the widths of its instances, widest first.

    Greedy: again and again, the one step that saves its calls most for each device it takes, be it
    a first instance, another one, or a wider one in place of one there is.
    """
    rooms = _rooms(cluster, states)
    chosen: dict[str, Widths] = {state.name: () for state in states}
    steps = {state.name: _steps(state, (), now) for state in states}
    while True:
        best: tuple[float, str, Widths] | None = None
        for name, options in steps.items():
            for worth, widths in options:
                if best is not None and worth <= best[0]:
                    break
                if all(room.has_place_for(name, widths) for room in rooms):
                    best = worth, name, widths
                    break
        if best is None:
            return chosen
        _, name, widths = best
        for room in rooms:
            room.place(name, widths)
        chosen[name] = widths
        steps[name] = _steps(cluster.services[name], widths, now)


@dataclass(frozen=True, slots=True)
class Seat:
    """The cell of one instance of a deployment; without an `instance`, it is still to come."""

    service: str
    node: NodeState
    cell: Cell
    instance: InstanceId | None


def seats_of(cluster: Cluster, deployment: Deployment) -> list[Seat]:
    """A cell for each instance of a deployment, with as few changes as can be.

    The widest come first. Among those of one width, instances that are there already stay; the
    others take cells with few owners. As cells nest, all find one if the deployment fits, and an
    instance on its seat never has to go for a narrower one, or for one as wide: going from seat to
    seat comes to an end.
    """
    taken: dict[NodeId, set[int]] = {node: set() for node in cluster.nodes}
    seats: list[Seat] = []
    for width in reversed(WIDTHS):
        missing: list[ServiceState] = []
        for name, widths in deployment.items():
            state = cluster.services[name]
            wanted = widths.count(width)
            there = [
                i
                for i in state.staying()
                if i.degree.gpus == width and taken[i.node].isdisjoint(i.cell)
            ]
            there.sort(key=lambda i: -i.used_at)
            for instance in there[:wanted]:
                taken[instance.node].update(instance.cell)
                node = cluster.nodes[instance.node]
                seats.append(Seat(name, node, instance.cell, instance.id))
            missing += [state] * (wanted - len(there[:wanted]))
        for state in missing:
            found = _best_cell(cluster, state, width, taken)
            if found is not None:
                node, cell = found
                taken[node.id].update(cell)
                seats.append(Seat(state.name, node, cell, None))
    return seats


def _best_cell(
    cluster: Cluster,
    state: ServiceState,
    width: int,
    taken: Mapping[NodeId, set[int]],
) -> tuple[NodeState, Cell] | None:
    """The cell of this width that is least of a loss: free, if it can be, and broken up already."""
    best: tuple[NodeState, Cell] | None = None
    best_key: tuple[int, bool, int] | None = None
    for node in cluster.nodes.values():
        if not state.could_run_on(node.pool, state.degrees[width]):
            continue
        gpus = node.pool.gpus
        for cell in gpus.cells(width):
            if not taken[node.id].isdisjoint(cell):
                continue
            owners = {o for d in cell for o in (gpus.owners[d], gpus.claims[d]) if o is not None}
            if any(_stays(cluster, owner) for owner in owners):
                continue
            cold = cluster.copy_of(state, node, cell) is None
            key = (len(owners), cold, gpus.neighbours_free(cell) if not owners else 0)
            if best_key is None or key < best_key:
                best, best_key = (node, cell), key
    return best


def _stays(cluster: Cluster, owner: InstanceId) -> bool:
    state = cluster.services[cluster.instances[owner].service]
    return state.pinned or state.bare


def lasting_cell(
    cluster: Cluster, state: ServiceState, degree: Degree
) -> tuple[NodeState, Cell] | None:
    """Where an instance would best stay for ever; others there that need not stay have to leave.

    Of the cells without any that stays, where the host has room, one in the smallest block of such cells, so that the
    larger blocks are kept for wider instances: all that fit together find a place in any order.
    """
    best: tuple[NodeState, Cell] | None = None
    best_key: tuple[bool, int, int, int, int] | None = None
    for node in cluster.nodes.values():
        if not state.could_run_on(node.pool, degree):
            continue
        gpus = node.pool.gpus
        for cell in gpus.cells(degree.gpus):
            if any(gpus.claims[device] is not None for device in cell):
                continue
            owners = {name: cluster.instances[name] for d in cell if (name := gpus.owners[d])}
            if any(cluster.services[o.service].pinned for o in owners.values()):
                continue
            leased = sum(cluster.services[o.service].bare for o in owners.values())
            block = gpus.widest_around(cell, partial(_is_for_anybody, cluster, node))
            crowded = not _has_memory(cluster, state, node, cell)
            key = (crowded, block, leased, sum(not o.idle for o in owners.values()), len(owners))
            if best_key is None or key < best_key:
                best, best_key = (node, cell), key
    return best


def _has_memory(cluster: Cluster, state: ServiceState, node: NodeState, cell: Cell) -> bool:
    """Whether a host has room for a copy, if need be in place of others."""
    if cluster.copy_of(state, node, cell) is not None:
        return True
    services = cluster.services
    others = sum(copy.mib for copy in node.copies if not services[copy.service].pinned)
    return node.pool.counts.get(MEMORY, 0) + others >= state.service.host_mib


def _is_for_anybody(cluster: Cluster, node: NodeState, cell: Cell) -> bool:
    """Whether none of these devices is, or is to be, an instance's for ever."""
    gpus = node.pool.gpus
    names = {name for d in cell for name in (gpus.owners[d], gpus.claims[d]) if name is not None}
    return not any(cluster.services[cluster.instances[name].service].pinned for name in names)


def cost_of(state: ServiceState, widths: Sequence[int], *, now: Seconds) -> float:
    """What a service costs with instances of these widths."""
    speeds = [state.degrees[w].speedup for w in widths for _ in range(state.service.slots)]
    return cost(state, sorted(speeds, reverse=True), now=now)


def _steps(state: ServiceState, widths: Widths, now: Seconds) -> list[tuple[float, Widths]]:
    """What could come next for a service, the best first, with what a device saves there."""
    before = cost_of(state, widths, now=now)
    found: list[tuple[float, Widths]] = []
    for gpus in state.degrees:
        options = [(*widths, gpus)]
        for other in dict.fromkeys(widths):
            if other < gpus:
                rest = list(widths)
                rest.remove(other)
                options.append((*rest, gpus))
        for option in options:
            saved = before - cost_of(state, option, now=now)
            worth = saved / (sum(option) - sum(widths))
            if worth > LEAST_WORTH:
                found.append((worth, tuple(sorted(option, reverse=True))))
    found.sort(reverse=True)
    return found


class _Room:
    """Nodes that some services share, none of which could go elsewhere.

    Attributes:
        cells: how many aligned cells of each width there are.
        users: the services.
    """

    def __init__(self, cells: Mapping[int, int], users: set[str]) -> None:
        self.cells = cells
        self.users = users
        self._taken: Counter[int] = Counter()
        self._widths: dict[str, Counter[int]] = {}

    def has_place_for(self, name: str, widths: Widths) -> bool:
        """Whether a service could have instances of these widths instead of those it has.

        As cells nest, all fit if they do so from the widest on.
        """
        if name not in self.users:
            return True
        taken = self._taken - self._widths.get(name, Counter()) + Counter(widths)
        above = 0
        for width in reversed(WIDTHS):
            above += width * taken[width]
            if above > width * self.cells[width]:
                return False
        return True

    def place(self, name: str, widths: Widths) -> None:
        """Let a service have instances of these widths."""
        if name in self.users:
            now = Counter(widths)
            self._taken = self._taken - self._widths.get(name, Counter()) + now
            self._widths[name] = now


def _rooms(cluster: Cluster, states: Sequence[ServiceState]) -> list[_Room]:
    """The nodes that each of these services could be on, and with whom it shares them.

    What services need that can only be on some nodes must fit there. (If sets of nodes overlap
    without one being in the other, more may be promised than there is room for.)
    """
    names = {state.name for state in states}
    where = {
        state.name: frozenset(
            node.id
            for node in cluster.nodes.values()
            if any(state.could_run_on(node.pool, degree) for degree in state.service.degrees)
        )
        for state in states
    }
    return [
        _Room(
            _cells(cluster, nodes, names),
            {name for name, others in where.items() if others <= nodes},
        )
        for nodes in dict.fromkeys(where.values())
    ]


def _cells(cluster: Cluster, nodes: Collection[NodeId], names: set[str]) -> dict[int, int]:
    """How many aligned cells of each width these services could share on these nodes."""
    counts = dict.fromkeys(WIDTHS, 0)
    for node in nodes:
        gpus = cluster.nodes[node].pool.gpus
        kept = {
            device
            for device, owner in enumerate(gpus.owners)
            if owner is not None and cluster.instances[owner].service not in names
        }
        for width in WIDTHS:
            counts[width] += sum(kept.isdisjoint(cell) for cell in gpus.cells(width))
    return counts


#: A device must save at least so many seconds of completion time in a second.
LEAST_WORTH = 1e-4
