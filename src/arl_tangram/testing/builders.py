"""Short ways to say which node, action or environment a test is about; CPU is in cores."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.model import (
    CPU,
    MEMORY,
    MILLI,
    Action,
    ActionId,
    Bundle,
    CpuTopology,
    Elastic,
    Environment,
    EnvironmentId,
    Node,
    NodeId,
    Seconds,
    TaskId,
)
from ..core.speedup import Speedup


def bundle(*, cpu: float = 0, memory: int = 0, **counts: int) -> Bundle:
    """Amounts of resources, the zeros left out; CPU in cores, memory in MiB."""
    amounts = {CPU: round(cpu * MILLI), MEMORY: memory, **counts}
    return {name: amount for name, amount in amounts.items() if amount}


def node(
    name: str = "n0",
    *,
    cpu: float = 4,
    memory: int = 4096,
    domains: Sequence[Sequence[int]] | None = None,
    siblings: Sequence[Sequence[int]] = (),
    **counts: int,
) -> Node:
    """A machine of `cpu` cores, in these NUMA domains if any are given."""
    topology = None
    if domains is not None:
        topology = CpuTopology(
            domains=tuple(tuple(d) for d in domains), siblings=tuple(tuple(s) for s in siblings)
        )
    capacity = bundle(cpu=cpu, memory=memory, **counts)
    return Node(id=NodeId(name), capacity=capacity, topology=topology)


def action(
    name: str,
    *,
    cpu: float = 0,
    memory: int = 0,
    units: Sequence[int] = (),
    speedup: Speedup | None = None,
    resizable: bool = True,
    resource: str = CPU,
    environment: str | None = None,
    task: str = "default",
    kind: str = "default",
    priority: int = 0,
    timeout_s: Seconds | None = None,
    max_attempts: int = 3,
    **counts: int,
) -> Action:
    """An action; with `units` it is elastic in `resource`."""
    elastic = None
    if units:
        elastic = Elastic(
            units=tuple(units), speedup=speedup, resizable=resizable, resource=resource
        )
    return Action(
        id=ActionId(name),
        task=TaskId(task),
        kind=kind,
        needs=bundle(cpu=cpu, memory=memory, **counts),
        elastic=elastic,
        environment=None if environment is None else EnvironmentId(environment),
        priority=priority,
        timeout_s=timeout_s,
        max_attempts=max_attempts,
    )


def environment(
    name: str,
    *,
    cpu: float = 0,
    memory: int = 0,
    task: str = "default",
    priority: int = 0,
    **counts: int,
) -> Environment:
    """An environment that holds these amounts for life."""
    return Environment(
        id=EnvironmentId(name),
        task=TaskId(task),
        needs=bundle(cpu=cpu, memory=memory, **counts),
        priority=priority,
    )
