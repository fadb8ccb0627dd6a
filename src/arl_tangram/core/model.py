"""The nouns: what is asked for, what is granted, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NewType

from .speedup import Speedup

ActionId = NewType("ActionId", str)
EnvironmentId = NewType("EnvironmentId", str)
TaskId = NewType("TaskId", str)
TrajectoryId = NewType("TrajectoryId", str)
NodeId = NewType("NodeId", str)
Seconds = float
"""A point or a span on the driver's clock; the core only compares and adds them."""

CPU = "cpu"
"""The resource name of processor time, counted in millicores."""
MEMORY = "memory"
"""The resource name of memory, counted in MiB."""
MILLI = 1000
"""Millicores in one unit (one core) of CPU."""

Bundle = Mapping[str, int]
"""Whole-number amounts of named resources, e.g. ``{"cpu": 2000, "memory": 512}``.

CPU is in millicores, memory in MiB, everything else in plain counts; whole numbers make
conservation an equality, not a tolerance.
"""
NOTHING: Bundle = MappingProxyType({})


def _nothing() -> Bundle:
    return NOTHING


def _check_amounts(field_name: str, amounts: Mapping[str, object]) -> None:
    for name, amount in amounts.items():
        if not isinstance(amount, int) or amount < 0:
            raise ValueError(f"{field_name}[{name!r}]={amount!r}: give a whole number from 0 up")


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """The key elastic resource of an action: how many units it may get, and what they bring.

    Attributes:
        units: the allowed amounts in whole units (cores), strictly ascending, all at least 1.
        speedup: how much faster it gets; None means "learn it from what finishes".
        resizable: whether units may be added and taken away while it runs.
        resource: the resource the units are of; a CPU unit is one core, 1,000 millicores.
    """

    units: tuple[int, ...]
    speedup: Speedup | None = None
    resizable: bool = True
    resource: str = CPU

    def __post_init__(self) -> None:
        if not self.units or self.units[0] < 1 or list(self.units) != sorted(set(self.units)):
            raise ValueError(f"units={self.units!r}: give whole numbers from 1 up, ascending")

    @property
    def least(self) -> int:
        return self.units[0]

    @property
    def most(self) -> int:
        return self.units[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A schedulable request. The payload (command line, prompt) never enters the core.

    Attributes:
        needs: what it holds while it runs, besides its elastic units.
        elastic: its key elastic resource; None means rigid.
        environment: where it must run; None means on any node.
        priority: higher goes first; equal priorities share fairly between tasks.
        timeout_s: the limit on its run time, if the caller set one; enforced by the executor.
        max_attempts: how often it may be started when nodes are lost under it.
    """

    id: ActionId
    task: TaskId = TaskId("default")
    trajectory: TrajectoryId = TrajectoryId("default")
    kind: str = "default"
    needs: Bundle = field(default_factory=_nothing)
    elastic: Elastic | None = None
    environment: EnvironmentId | None = None
    service: str | None = None
    priority: int = 0
    timeout_s: Seconds | None = None
    max_attempts: int = 3

    def __post_init__(self) -> None:
        _check_amounts("needs", self.needs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A place that lives for a trajectory; it holds `needs` from placement until it is closed.

    `step` names the batch that the trajectory belongs to; empty if nobody said.
    """

    id: EnvironmentId
    task: TaskId = TaskId("default")
    trajectory: TrajectoryId = TrajectoryId("default")
    step: str = ""
    needs: Bundle = field(default_factory=_nothing)
    priority: int = 0

    def __post_init__(self) -> None:
        _check_amounts("needs", self.needs)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTopology:
    """The cores of a node, as the operating system numbers them.

    Attributes:
        domains: NUMA domains, each the ids of its cores.
        siblings: groups of core ids that are hardware threads of one physical core.
    """

    domains: tuple[tuple[int, ...], ...]
    siblings: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine and what it can give; a missing topology means cores 0 to n - 1 in one domain."""

    id: NodeId
    capacity: Bundle
    topology: CpuTopology | None = None

    def __post_init__(self) -> None:
        _check_amounts("capacity", self.capacity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a lease holds: amounts, units of the key elastic resource, and concrete cores.

    `cores` has one id for every whole core, then one for the part of a shared core, if any.
    """

    amounts: Bundle = field(default_factory=_nothing)
    units: int = 0
    cores: tuple[int, ...] = ()

    @property
    def cpu_milli(self) -> int:
        return self.amounts.get(CPU, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to run one attempt of an action on a node until it exits."""

    action: ActionId
    attempt: int
    node: NodeId
    grant: Grant
    environment: EnvironmentId | None = None


class Outcome(Enum):
    """How an action ended. Every submitted id ends in exactly one."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  #: the command's own doing: a non-zero exit, or killed by a signal
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    CANCELLED = "cancelled"
    REJECTED = "rejected"  #: could never run
    LOST = "lost"  #: the infrastructure's doing


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why an action is where it is, for people.

    Attributes:
        phase: the value of its `Phase`.
        waits_for: what is missing, in one sentence; empty once it runs.
        behind: actions that will be served before it, nearest first, at most ten of them.
        ahead: how many are before it in its queue.
        since_s: when it was submitted, on the driver's clock.
        node: where it runs or will run, if that is known.
    """

    action: ActionId
    phase: str
    waits_for: str = ""
    behind: tuple[ActionId, ...] = field(default=())
    ahead: int = 0
    since_s: Seconds = 0.0
    node: NodeId | None = None
