"""Calls to services: who is answered where, and which instances come and go for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from .arrivals import Together
from .cluster import Cluster, NodeState
from .commands import EvictService, RestoreService
from .entries import Entry
from .estimates import Estimates
from .instances import HostCopy, Instance, InstancePhase
from .model import GPU, MEMORY, Action, Bundle, Degree, InstanceId, Outcome, Seconds, Service
from .moves import Move, Moves
from .pools.gpu import WIDTHS, Cell
from .pools.quota import NEVER
from .queue import Queue
from .services import ServiceState
from .starting import start
from .worth import Cost, Eviction

#: How many calls that cannot start are looked past for one that can.
LOOKAHEAD = 8
#: A call waits for a busy instance only if it ends there in this share of the time.
WAITING_PAYS = 0.9
#: What nobody waits for is considered this often.
LATER_S = 0.5
#: What calls wait for is considered this often, unless something came free.
LOOK_S = 0.1
#: Pause after an instance failed; it doubles each time.
RETRY_S = 1.0
LONGEST_RETRY_S = 60.0
#: So many failures with no answer between them put a service in quarantine, for so long.
FAILURES = 5
QUARANTINE_S = 300.0


class Serving:
    """Answers calls on instances, and moves instances to where calls need them."""

    def __init__(
        self, cluster: Cluster, estimates: Estimates, *, eviction: Eviction | None
    ) -> None:
        self._cluster = cluster
        self._estimates = estimates
        self._moves = Moves(cluster, estimates, Cost() if eviction is None else eviction)
        self._together = Together()
        self._planned: dict[InstanceId, Instance] = {}
        self._speculative: set[InstanceId] = set()
        self._forgetting: dict[InstanceId, tuple[NodeState, HostCopy]] = {}
        self._numbers = 0
        self._freed = False
        self._later_at: Seconds = float("-inf")

    # -- events ---------------------------------------------------------------

    def declare(self, service: Service) -> None:
        """A new service: its calls are accepted from now on."""
        cluster = self._cluster
        state = ServiceState.of(service, arrivals=self._together.arrivals(cluster.now))
        cluster.services[service.name] = state
        self._place_pinned(state)
        self._changed()

    def joined(self) -> None:
        """A node has come."""
        for state in self._cluster.services.values():
            self._place_pinned(state)
        self._changed()

    def lost(self, node: NodeState) -> None:
        """A node is gone, with its instances; the caller ends what ran there."""
        cluster = self._cluster
        for instance in [i for i in cluster.instances.values() if i.node == node.id]:
            self._forget_instance(instance)
        for name, (where, _) in list(self._forgetting.items()):
            if where is node:
                del self._forgetting[name]
        self._changed()

    def restored(self, instance_id: InstanceId) -> None:
        """An instance is ready."""
        cluster = self._cluster
        instance = cluster.instances.get(instance_id)
        if instance is None or instance.phase is not InstancePhase.RESTORING:
            return
        self._node_of(instance).restoring -= instance.degree.gpus
        instance.step(InstancePhase.RESIDENT)
        instance.used_at = instance.ready_at = cluster.now
        state = cluster.services[instance.service]
        state.restored(instance, cluster.now)
        cluster.stirred[state.name] = None
        self._speculative.discard(instance.id)
        self._freed = True

    def evicted(self, instance_id: InstanceId) -> None:
        """An instance is off its devices, or a host copy is gone."""
        if (found := self._forgetting.pop(instance_id, None)) is not None:
            self._drop(*found)
            self._freed = True
            return
        instance = self._cluster.instances.get(instance_id)
        if instance is not None and instance.phase is InstancePhase.EVICTING:
            self._remove(instance)

    def failed(self, instance_id: InstanceId, reason: str) -> None:
        """An instance died, or could not come or go; its devices are free."""
        cluster = self._cluster
        if (found := self._forgetting.pop(instance_id, None)) is not None:
            self._drop(*found)
        instance = cluster.instances.get(instance_id)
        if instance is None:
            return
        state = cluster.services[instance.service]
        if instance.phase is InstancePhase.RESTORING:
            self._node_of(instance).restoring -= instance.degree.gpus
        lost = not state.service.movable or instance.cold
        self._remove(instance, with_copy=lost)
        state.failures += 1
        state.last_failure = reason
        pause_s = min(RETRY_S * 2.0 ** (state.failures - 1), LONGEST_RETRY_S)
        if state.failures >= FAILURES:
            pause_s = QUARANTINE_S
            state.quarantined = (
                f"service {state.name} is in quarantine: its instances failed {state.failures} "
                f"times in a row, the last time with: {reason}"
            )
            for entry in list(state.lines):
                cluster.dequeue(entry)
                cluster.resolve(entry, Outcome.LOST, state.quarantined)
        state.rest_until = cluster.now + pause_s
        cluster.stirred[state.name] = None

    def answered(self, entry: Entry, outcome: Outcome) -> None:
        """A call ended by itself: the service is in order."""
        state = self._cluster.service_of(entry)
        if state is not None and outcome in {Outcome.SUCCEEDED, Outcome.FAILED}:
            state.failures = 0

    # -- calls ----------------------------------------------------------------

    def route(self, action: Action) -> ServiceState | None:
        """The service that answers an action, plain leases of devices included; None if none is to."""
        cluster = self._cluster
        if action.service is not None:
            return cluster.services.get(action.service)
        gpus = action.needs.get(GPU, 0)
        if not gpus or not any(node.pool.gpus.owners for node in cluster.nodes.values()):
            return None
        width = next((w for w in WIDTHS if w >= gpus), 0)
        if not width:
            return None
        name = f"{GPU}:{width}"
        if (state := cluster.services.get(name)) is None:
            degree = Degree(gpus=width, speedup=1.0, restore_s=0.0)
            plain = Service(name=name, degrees=(degree,))
            state = ServiceState.of(plain, arrivals=Together().arrivals(cluster.now), bare=True)
            cluster.services[name] = state
        return state

    def called(self, entry: Entry) -> None:
        """Learn from a call that came."""
        state = self._cluster.service_of(entry)
        if state is not None:
            state.called(self._estimates.work(entry.action), self._cluster.now)

    def why_never(self, state: ServiceState, needs: Bundle) -> str:
        """Why a call can never be served; empty if it can be."""
        cluster = self._cluster
        service = state.service
        if not cluster.nodes:
            return ""
        able = [
            node
            for node in cluster.nodes.values()
            if any(state.could_run_on(node.pool, degree) for degree in service.degrees)
        ]
        if not able:
            if state.bare:
                return f"it needs {service.degrees[0].gpus} GPUs in one cell, and no node has them"
            widths = " or ".join(str(degree.gpus) for degree in service.degrees)
            model = f" of model {service.gpu_model}" if service.gpu_model else ""
            mib = ", ".join(f"{d.device_mib} MiB on {d.gpus}" for d in service.degrees)
            return (
                f"service {service.name} needs {widths} GPUs{model} in one aligned cell of a node "
                f"({mib}, and {service.host_mib} MiB of the host), and no node has them"
            )
        rest = own_needs(needs)
        if not any(node.pool.could_ever_fit(rest) for node in able):
            return f"it needs {dict(rest)} beside service {service.name}, and no node has both"
        return ""

    # -- decisions --------------------------------------------------------------

    def settle(self) -> None:
        """Answer calls, and let instances come and go."""
        cluster = self._cluster
        if not cluster.services:
            return
        for state in cluster.services.values():
            if state.wake_at <= cluster.now:
                cluster.stirred[state.name] = None
        stirred = [cluster.services[name] for name in cluster.stirred]
        cluster.stirred.clear()
        for state in self._in_order(stirred):
            self._dispatch(state)
        for state in stirred:
            if state.bare:
                self._return_devices(state)
        self._advance()
        self._moves.changed()
        freed, self._freed = self._freed, False
        waiting = [s for s in cluster.services.values() if s.mixes]
        for state in self._in_order(waiting):
            if freed or state in stirred or (
                not state.instances and cluster.now >= state.looked_at + LOOK_S
            ):
                self._consider(state)
        if freed or cluster.now >= self._later_at:
            self._later_at = cluster.now + LATER_S
            self._speculate()
        self._advance()

    def next_at(self) -> Seconds:
        """When it has to be woken, if nothing else happens before."""
        services = self._cluster.services.values()
        return min((s.wake_at for s in services if s.mixes), default=NEVER)

    def _in_order(self, states: Sequence[ServiceState]) -> list[ServiceState]:
        """By priority, fair share and arrival of the first call of each."""
        if len(states) < 2:
            return list(states)
        held = self._cluster.held
        rows = []
        for state in states:
            first = next(iter(state.lines), None)
            if first is not None:
                row = (-first.priority, held.get(first.task, 0), first.number)
                rows.append((row, state))
        rows.sort(key=lambda row: row[0])
        return [state for _, state in rows]

    def _dispatch(self, state: ServiceState) -> None:
        """Answer waiting calls, each where it ends first."""
        cluster = self._cluster
        state.wake_at = NEVER
        if not state.mixes:
            return
        slots = state.service.slots
        free = {
            i: slots - len(i.calls)
            for i in state.instances.values()
            if i.phase is InstancePhase.RESIDENT and not i.claimed and len(i.calls) < slots
        }
        if not free:
            return
        lines = state.lines.open(cluster.has_tokens)
        most = sum(free.values()) + LOOKAHEAD
        busy = self._busy(state, free)
        for entry in list(islice(Queue.served(lines, cluster.held), most)):
            able = [i for i in free if self._fits(entry, i)]
            if not able:
                continue
            best = max(able, key=lambda i: (i.degree.speedup, i.used_at))
            if busy:
                work = self._estimates.work(entry.action)
                end, j = min((at + work / speed, j) for j, (at, speed) in enumerate(busy))
                if end < WAITING_PAYS * work / best.degree.speedup:
                    state.wake_at = min(state.wake_at, cluster.now + busy[j][0] + LOOK_S)
                    busy[j] = (end, busy[j][1])
                    continue
            self._start(entry, best)
            free[best] -= 1
            if not free[best]:
                del free[best]
                if not free:
                    return

    def _return_devices(self, state: ServiceState) -> None:
        """A lease of devices has ended, so its cell is free."""
        for instance in list(state.instances.values()):
            if instance.idle:
                instance.step(InstancePhase.EVICTING)
                self._remove(instance)

    def _busy(
        self, state: ServiceState, free: dict[Instance, int]
    ) -> list[tuple[Seconds, float]]:
        """In how many seconds each slot that is not free will be, if it is faster than one that is."""
        slowest = min(i.degree.speedup for i in free)
        rows: list[tuple[Seconds, float]] = []
        for instance in state.instances.values():
            if instance.staying and instance.degree.speedup > slowest:
                speed = instance.degree.speedup
                rows += [(at, speed) for at in self._moves.free_in(instance) if at > 0.0]
        return rows

    def _fits(self, entry: Entry, instance: Instance) -> bool:
        cluster = self._cluster
        if not entry.least:
            return True
        for name in entry.quotas:
            if cluster.quotas[name].available(cluster.now) < entry.least[name]:
                return False
        return self._node_of(instance).pool.draft().take(own_needs(entry.least))

    def _start(self, entry: Entry, instance: Instance) -> None:
        cluster = self._cluster
        bare = cluster.services[instance.service].bare
        elastic = entry.action.elastic
        units = instance.degree.gpus
        if bare:
            units = elastic.least if elastic else 0
        start(
            cluster,
            entry,
            units,
            node=self._node_of(instance),
            instance=instance,
            devices=instance.cell if bare else (),
        )
        instance.used_at = cluster.now

    def _consider(self, state: ServiceState) -> None:
        """See whether another instance would help those who wait."""
        now = self._cluster.now
        if state.pinned or not state.mixes:
            return
        if state.resting(now):
            state.wake_at = min(state.wake_at, state.rest_until)
            return
        if state.quarantined:
            state.quarantined = ""
            state.failures = FAILURES - 1
        if not state.lines.open(self._cluster.has_tokens):
            return
        state.looked_at = now
        if state.bare:
            coming = sum(i.staying and not i.calls for i in state.instances.values())
            for _ in range(sum(m.count for m in state.mixes.values()) - coming):
                if (move := self._moves.for_waiting(state)) is None:
                    return
                self._plan(move)
            return
        if (move := self._moves.for_waiting(state)) is not None:
            self._plan(move)

    def _speculate(self) -> None:
        cluster = self._cluster
        states = [
            state
            for state in cluster.services.values()
            if not (state.pinned or state.bare or state.resting(cluster.now))
        ]
        if not states:
            return
        move = self._moves.for_later(states, displacing=not self._speculative)
        if move is not None:
            instance = self._plan(move)
            if move.owners:
                self._speculative.add(instance.id)

    # -- instances --------------------------------------------------------------

    def _plan(self, move: Move) -> Instance:
        """Claim a cell; the instance goes there as soon as its present owners are gone."""
        cluster = self._cluster
        self._numbers += 1
        instance = Instance(
            id=InstanceId(f"{move.state.name}#{self._numbers}"),
            service=move.state.name,
            degree=move.degree,
            node=move.node.id,
            cell=move.cell,
            ready_at=cluster.now + move.ready_s,
        )
        cluster.instances[instance.id] = instance
        move.state.instances[instance.id] = instance
        move.node.pool.gpus.claim(move.cell, instance.id)
        for owner in move.owners:
            owner.claimed = True
        self._planned[instance.id] = instance
        self._moves.changed()
        return instance

    def _advance(self) -> None:
        """Let planned instances go to their cells: owners that are idle leave, then they begin."""
        for instance in list(self._planned.values()):
            owners = self._owners(instance)
            waits = False
            for owner in owners:
                if owner.idle:
                    self._evict(owner)
                waits = waits or owner.phase is not InstancePhase.GONE
            if not waits:
                self._begin(instance)
            elif not any(o.phase is InstancePhase.EVICTING for o in owners):
                state = self._cluster.services[instance.service]
                if not state.mixes and instance.id not in self._speculative:
                    self._remove(instance)  # all who waited for it were answered elsewhere

    def _owners(self, instance: Instance) -> list[Instance]:
        owners = self._node_of(instance).pool.gpus.owners
        ids = dict.fromkeys(owners[device] for device in instance.cell)
        return [self._cluster.instances[i] for i in ids if i is not None]

    def _evict(self, owner: Instance, *, forget: bool = False) -> None:
        cluster = self._cluster
        owner.step(InstancePhase.EVICTING)
        cluster.out.append(EvictService(owner.service, owner.id, owner.node, forget))

    def _begin(self, instance: Instance) -> None:
        """The cell is free: restore the instance, once the host has room for its copy."""
        cluster = self._cluster
        state = cluster.services[instance.service]
        node = self._node_of(instance)
        copy = cluster.copy_of(state, node, instance.cell)
        instance.cold = copy is None
        if copy is None and not state.bare:
            mib = state.service.host_mib
            if mib > node.pool.counts.get(MEMORY, 0):
                if not self._make_room(node, mib):
                    self._remove(instance)
                return
            if mib:
                node.pool.counts[MEMORY] -= mib
            cell = None if state.service.movable else instance.cell
            copy = HostCopy(service=state.name, cell=cell, mib=mib, instance=instance.id)
            node.copies.append(copy)
        if copy is not None:
            copy.used_by.add(instance.id)
            copy.instance = instance.id
            node.copies.remove(copy)
            node.copies.append(copy)
        node.pool.gpus.occupy(instance.cell, instance.id)
        del self._planned[instance.id]
        instance.step(InstancePhase.RESTORING)
        instance.began_at = cluster.now
        instance.crowd = node.restoring
        restore_s = state.restore_s(instance.degree, cold=instance.cold, crowd=node.restoring)
        instance.ready_at = cluster.now + restore_s
        node.restoring += instance.degree.gpus
        if state.bare:
            self.restored(instance.id)
            self._dispatch(state)
            self._return_devices(state)
            return
        cluster.out.append(
            RestoreService(state.service, instance.id, node.id, instance.cell, instance.cold)
        )

    def _make_room(self, node: NodeState, mib: int) -> bool:
        """Forget copies that nobody uses, the least recently used first; False if that is no use."""
        cluster = self._cluster
        coming = sum(c.mib for where, c in self._forgetting.values() if where is node)
        coming += node.pool.counts.get(MEMORY, 0)
        for copy in list(node.copies):
            if coming >= mib:
                break
            if copy.used_by or copy.leaving or not copy.mib:
                continue
            copy.leaving = True
            coming += copy.mib
            self._forgetting[copy.instance] = (node, copy)
            cluster.out.append(EvictService(copy.service, copy.instance, node.id, forget=True))
        return coming >= mib

    def _drop(self, node: NodeState, copy: HostCopy) -> None:
        node.copies.remove(copy)
        if copy.mib:
            node.pool.counts[MEMORY] += copy.mib
        self._cluster.dirty[node.id] = None

    def _remove(self, instance: Instance, *, with_copy: bool = False) -> None:
        """It is gone from its devices, or gives up its claim to them."""
        node = self._node_of(instance)
        gpus = node.pool.gpus
        if instance.phase is InstancePhase.PLANNED:
            gpus.unclaim(instance.cell, instance.id)
            for owner in self._owners(instance):
                owner.claimed = any(gpus.claims[device] for device in owner.cell)
                self._cluster.stirred[owner.service] = None
        else:
            gpus.vacate(instance.cell, instance.id)
        for copy in list(node.copies):
            if instance.id in copy.used_by:
                copy.used_by.discard(instance.id)
                if with_copy and not copy.used_by:
                    self._drop(node, copy)
        self._forget_instance(instance)
        self._freed = True

    def _forget_instance(self, instance: Instance) -> None:
        instance.step(InstancePhase.GONE)
        del self._cluster.instances[instance.id]
        del self._cluster.services[instance.service].instances[instance.id]
        self._planned.pop(instance.id, None)
        self._speculative.discard(instance.id)

    def _place_pinned(self, state: ServiceState) -> None:
        """Put the instances that a service has for ever on cells that are free."""
        service = state.service
        missing = list(service.pinned)
        for instance in state.instances.values():
            if instance.degree.gpus in missing:
                missing.remove(instance.degree.gpus)
        for gpus in sorted(missing, reverse=True):
            place = self._free_cell(state, state.degrees[gpus])
            if place is not None:
                node, cell = place
                self._plan(
                    Move(
                        state=state,
                        degree=state.degrees[gpus],
                        node=node,
                        cell=cell,
                        owners=(),
                        ready_s=state.restore_s(state.degrees[gpus], cold=True),
                    )
                )

    def _free_cell(self, state: ServiceState, degree: Degree) -> tuple[NodeState, Cell] | None:
        """The free cell whose use breaks up least."""
        found = [
            (node.pool.gpus.neighbours_free(cell), i, cell[0], node, cell)
            for i, node in enumerate(self._cluster.nodes.values())
            if state.could_run_on(node.pool, degree)
            for cell in node.pool.gpus.cells(degree.gpus)
            if node.pool.gpus.is_free(cell)
        ]
        if not found:
            return None
        *_, node, cell = min(found, key=lambda row: row[:3])
        return node, cell

    def _node_of(self, instance: Instance) -> NodeState:
        return self._cluster.nodes[instance.node]

    def _changed(self) -> None:
        self._freed = True
        self._cluster.stirred.update(dict.fromkeys(self._cluster.services))


def own_needs(needs: Bundle) -> Bundle:
    """What of an action's needs its node's books hold: all but quotas and devices."""
    return {n: amount for n, amount in needs.items() if n != GPU and not n.startswith("api:")}
