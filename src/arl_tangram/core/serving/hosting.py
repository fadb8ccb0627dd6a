"""Instances come and go: they claim a cell, its owners leave, they are restored there."""

from __future__ import annotations

from ..cluster import Cluster, NodeState
from ..commands import EvictService, RestoreService
from ..model import MEMORY, Bundle, Degree, InstanceId, Seconds
from ..pools.gpu import Cell
from ..pools.quota import NEVER
from .instances import HostCopy, Instance, InstancePhase
from .services import ServiceState


class Hosting:
    """Takes instances through their phases, and keeps the books of devices and host copies."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._planned: dict[InstanceId, Instance] = {}
        self._restoring: dict[InstanceId, Instance] = {}
        self._abandoned: set[InstanceId] = set()
        self._displacing: set[InstanceId] = set()
        self._forgetting: dict[InstanceId, tuple[NodeState, HostCopy]] = {}
        self._numbers = 0
        self.freed = False
        """Whether devices have come free for anybody since this was last set to False."""
        self.changed = False
        """Whether an instance has come or gone since this was last set to False."""

    @property
    def displaces(self) -> bool:
        """Whether an instance that nobody waits for is just taking the place of others."""
        return bool(self._displacing)

    def plan(
        self,
        state: ServiceState,
        degree: Degree,
        node: NodeState,
        cell: Cell,
        *,
        ready_s: float,
        needs: Bundle | None = None,
        called_for: bool = True,
    ) -> Instance:
        """Claim a cell; the instance goes there as soon as its present owners are gone.

        Args:
            state: the service.
            degree: its width.
            node: where.
            cell: the devices.
            ready_s: when it is expected to answer.
            needs: what of the node's other resources is kept for whoever waits for it.
            called_for: whether calls wait for it; if not any more, it gives up its claim.
        """
        cluster = self._cluster
        self._numbers += 1
        instance = Instance(
            id=InstanceId(f"{state.name}#{self._numbers}"),
            service=state.name,
            degree=degree,
            node=node.id,
            cell=cell,
            ready_at=cluster.now + ready_s,
            needs=needs or {},
            called_for=called_for,
        )
        cluster.instances[instance.id] = instance
        cluster.moves += 1
        state.instances[instance.id] = instance
        node.pool.gpus.claim(cell, instance.id)
        owners = self._owners(instance)
        for owner in owners:
            owner.claimed = True
        if owners and not called_for:
            self._displacing.add(instance.id)
        node.keep(instance.needs)
        self._planned[instance.id] = instance
        return instance

    def look_for_abandoned(self) -> None:
        """If nobody waits any more for one on its way, its devices are as good as free."""
        services, now = self._cluster.services, self._cluster.now
        before = self._abandoned
        self._abandoned = {
            name for name, i in self._restoring.items() if services[i.service].gives_up(i, now)
        }
        self.freed = self.freed or not self._abandoned <= before

    def next_abandoned(self) -> Seconds:
        """When that is next to be looked for, if nothing else happens before."""
        services, now = self._cluster.services, self._cluster.now
        times = (services[i.service].given_up_at(i) for i in self._restoring.values())
        return min((at for at in times if at > now), default=NEVER)

    def advance(self) -> None:
        """Let planned instances go to their cells: owners that are idle leave, then they begin."""
        for instance in list(self._planned.values()):
            owners = self._owners(instance)
            for owner in owners:
                if owner.idle:
                    self._evict(owner)
                elif self._cluster.services[owner.service].gives_up(owner, self._cluster.now):
                    self._give_up(owner)
            if not owners:
                self._begin(instance)
            elif self._is_needless(instance) and not any(
                owner.phase is InstancePhase.EVICTING for owner in owners
            ):
                self.remove(instance)

    def restored(self, instance: Instance) -> None:
        """It is ready."""
        now = self._cluster.now
        self.node_of(instance).restoring -= instance.degree.gpus
        instance.step(InstancePhase.RESIDENT)
        del self._restoring[instance.id]
        instance.used_at = instance.ready_at = now
        state = self._cluster.services[instance.service]
        if not state.bare:
            state.restored(instance, now)
        self._cluster.stirred[state.name] = None
        for other in self._cluster.services.values():
            if other.bare and other.calls:  # leases do not look again by themselves
                self._cluster.stirred[other.name] = None
        self._displacing.discard(instance.id)
        self.changed = True

    def forgotten(self, instance_id: InstanceId) -> bool:
        """A host copy is gone, if one was told to go by this name."""
        found = self._forgetting.pop(instance_id, None)
        if found is None:
            return False
        self._drop(*found)
        self.freed = True
        return True

    def remove(self, instance: Instance, *, with_copy: bool = False) -> None:
        """It is gone from its devices, or gives up its claim to them."""
        node = self.node_of(instance)
        gpus = node.pool.gpus
        if instance.phase is InstancePhase.PLANNED:
            gpus.unclaim(instance.cell, instance.id)
            if instance.needs:
                self._cluster.dirty[node.id] = None
            for owner in self._owners(instance):
                owner.claimed = any(gpus.claims[device] for device in owner.cell)
                self._cluster.stirred[owner.service] = None
        else:
            gpus.vacate(instance.cell, instance.id)
        if instance.phase is InstancePhase.RESTORING:
            node.restoring -= instance.degree.gpus
        for copy in list(node.copies):
            if instance.id in copy.used_by:
                copy.used_by.discard(instance.id)
                if with_copy and not copy.used_by:
                    self._drop(node, copy)
        self._forget(instance)
        self.changed = True
        self.freed = self.freed or any(gpus.claims[device] is None for device in instance.cell)

    def lost(self, node: NodeState) -> None:
        """A node is gone, with its instances and copies."""
        for instance in [i for i in self._cluster.instances.values() if i.node == node.id]:
            self._forget(instance)
        for name, (where, _) in list(self._forgetting.items()):
            if where is node:
                del self._forgetting[name]
        self.freed = self.changed = True

    def node_of(self, instance: Instance) -> NodeState:
        """The node it is on, or is to be."""
        return self._cluster.nodes[instance.node]

    def make_room(self, node: NodeState, mib: int) -> bool:
        """Forget copies, the least recently used first; False if that would not be enough.

        First those that nobody uses, then those of idle instances, which leave their devices.
        """
        coming = sum(copy.mib for copy in node.copies if copy.leaving)
        coming += node.pool.counts.get(MEMORY, 0)
        chosen: list[HostCopy] = []
        for copy in sorted(node.copies, key=lambda copy: bool(copy.used_by)):
            if coming >= mib:
                break
            if copy.mib and not copy.leaving and self._may_go(copy):
                chosen.append(copy)
                coming += copy.mib
        if coming < mib:
            return False
        for copy in chosen:
            copy.leaving = True
            if not copy.used_by:
                self._forgetting[copy.instance] = (node, copy)
                out = EvictService(copy.service, copy.instance, node.id, forget=True)
                self._cluster.out.append(out)
            for name in copy.used_by:
                self._evict(self._cluster.instances[name], forget=True)
        return True

    def _may_go(self, copy: HostCopy) -> bool:
        """Whether nobody is restored from a copy, and all that were are idle."""
        users = [self._cluster.instances[name] for name in copy.used_by]
        pinned = self._cluster.services[copy.service].pinned
        return not users or (not pinned and all(i.idle and not i.claimed for i in users))

    def _evict(self, instance: Instance, *, forget: bool = False) -> None:
        instance.step(InstancePhase.EVICTING)
        instance.forget = forget
        self._cluster.moves += 1
        out = EvictService(instance.service, instance.id, instance.node, forget)
        self._cluster.out.append(out)

    def _give_up(self, instance: Instance) -> None:
        """End one on its way; a copy that only it had, and that is not whole, goes with it."""
        node = self.node_of(instance)
        node.restoring -= instance.degree.gpus
        del self._restoring[instance.id]
        movable = self._cluster.services[instance.service].service.movable
        forget = False
        for copy in node.copies:
            if copy.used_by == {instance.id} and (instance.cold or not movable):
                copy.leaving = forget = True
        self._evict(instance, forget=forget)

    def _is_needless(self, instance: Instance) -> bool:
        """Whether all who waited for it were answered elsewhere."""
        return instance.called_for and not self._cluster.services[instance.service].calls

    def _owners(self, instance: Instance) -> list[Instance]:
        owners = self.node_of(instance).pool.gpus.owners
        ids = dict.fromkeys(owners[device] for device in instance.cell)
        return [self._cluster.instances[i] for i in ids if i is not None]

    def _begin(self, instance: Instance) -> None:
        """The cell is free: restore the instance, once the host has room for its copy."""
        cluster = self._cluster
        state = cluster.services[instance.service]
        node = self.node_of(instance)
        if not state.bare and not self._take_copy(state, node, instance):
            return
        node.keep(instance.needs, sign=-1)
        node.pool.gpus.occupy(instance.cell, instance.id)
        del self._planned[instance.id]
        instance.step(InstancePhase.RESTORING)
        instance.began_at = cluster.now
        instance.crowd = node.restoring
        restore_s = state.restore_s(instance.degree, cold=instance.cold, crowd=node.restoring)
        instance.ready_at = cluster.now + restore_s
        node.restoring += instance.degree.gpus
        self._restoring[instance.id] = instance
        if state.bare:
            self.restored(instance)
        else:
            cluster.out.append(
                RestoreService(state.service, instance.id, node.id, instance.cell, instance.cold)
            )

    def _take_copy(self, state: ServiceState, node: NodeState, instance: Instance) -> bool:
        """Use the host's copy, or hold the memory for a new one; False if that must wait."""
        copy = self._cluster.copy_of(state, node, instance.cell)
        instance.cold = copy is None
        if copy is None:
            mib = state.service.host_mib
            if mib > node.pool.counts.get(MEMORY, 0):
                if not self.make_room(node, mib):
                    self.remove(instance)
                return False
            self._hold_memory(state, node, mib)
            cell = None if state.service.movable else instance.cell
            copy = HostCopy(service=state.name, cell=cell, mib=mib, instance=instance.id)
        else:
            node.copies.remove(copy)
        copy.used_by.add(instance.id)
        copy.instance = instance.id
        node.copies.append(copy)
        return True

    def _drop(self, node: NodeState, copy: HostCopy) -> None:
        node.copies.remove(copy)
        self._hold_memory(self._cluster.services[copy.service], node, -copy.mib)
        self._cluster.dirty[node.id] = None
        self._cluster.memory_changed = True

    def _hold_memory(self, state: ServiceState, node: NodeState, mib: int) -> None:
        """Hold so much of a host for a copy; less if negative. That of a pinned service stays."""
        if mib:
            node.pool.counts[MEMORY] -= mib
        if mib and state.pinned:
            node.own({MEMORY: mib}, 1)
            self._cluster.memory_changed = True

    def _forget(self, instance: Instance) -> None:
        if instance.phase is InstancePhase.PLANNED:
            self.node_of(instance).keep(instance.needs, sign=-1)
        instance.step(InstancePhase.GONE)
        self._cluster.moves += 1
        del self._cluster.instances[instance.id]
        del self._cluster.services[instance.service].instances[instance.id]
        self._planned.pop(instance.id, None)
        self._restoring.pop(instance.id, None)
        self._displacing.discard(instance.id)
