"""The books of one node: CPU cores, plain counts and GPU devices, all taken or none."""

from __future__ import annotations

from ..model import CPU, MILLI, Bundle, Grant, Node
from .cpu import CpuPool
from .draft import Draft
from .gpu import GpuPool


class NodePool:
    """What a node has, and what of it is free. The caller checks with a draft before it takes."""

    def __init__(self, node: Node) -> None:
        self.capacity = dict(node.capacity)
        self.cpu = CpuPool(self.capacity.get(CPU, 0), node.topology)
        self.counts = {name: n for name, n in self.capacity.items() if name != CPU}
        self.gpus = GpuPool(node.gpus)
        self.gpu_mib = node.gpu_mib
        self.gpu_model = node.gpu_model

    def draft(self) -> Draft:
        """A scratch copy of what is free."""
        cpu = self.cpu
        return Draft(
            whole=cpu.whole,
            rooms=list(cpu.rooms.values()),
            counts=self.counts.copy(),
            ragged=cpu.ragged,
        )

    def could_ever_fit(self, bundle: Bundle) -> bool:
        """Whether the bundle would fit if the node were empty."""
        return all(amount <= self.capacity.get(name, 0) for name, amount in bundle.items())

    def take(self, bundle: Bundle, *, units: int = 0, devices: tuple[int, ...] = ()) -> Grant:
        """Hold what the bundle has of this node's own resources; it must fit."""
        cores: tuple[int, ...] = ()
        for name, amount in bundle.items():
            if name == CPU:
                cores = self.cpu.take(amount)
            elif name in self.counts:
                self.counts[name] -= amount
        return Grant(amounts=bundle, units=units, cores=cores, devices=devices)

    def give_back(self, grant: Grant) -> None:
        """Free what a grant holds of this node."""
        for name, amount in grant.amounts.items():
            if name == CPU:
                self.cpu.give_back(amount, grant.cores)
            elif name in self.counts:
                self.counts[name] += amount

    def resize(self, grant: Grant, bundle: Bundle, *, units: int, resource: str) -> Grant:
        """Change a grant to another `units` of one resource; `bundle` is what it then holds."""
        more = units - grant.units
        if resource != CPU:
            self.counts[resource] -= more
            return Grant(amounts=bundle, units=units, cores=grant.cores, devices=grant.devices)
        whole = grant.amounts[CPU] // MILLI
        cores, part = grant.cores[:whole], grant.cores[whole:]
        if more > 0:
            cores = (*cores, *self.cpu.take(more * MILLI, near=cores))
        else:
            spare = self.cpu.surplus_of(cores, -more)
            self.cpu.give_back(-more * MILLI, spare)
            cores = tuple(core for core in cores if core not in spare)
        return Grant(amounts=bundle, units=units, cores=(*cores, *part), devices=grant.devices)
