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
InstanceId = NewType("InstanceId", str)
Seconds = float
"""A point or a span on the driver's clock; the core only compares and adds them."""

CPU = "cpu"
"""The resource name of processor time, counted in millicores."""
MEMORY = "memory"
"""The resource name of memory, counted in MiB."""
GPU = "gpu"
"""The resource name of whole GPUs that an action holds itself, in one aligned cell of a node."""
API = "api:"
"""What the resource names of quotas begin with; one unit is one token."""
MILLI = 1000
"""Millicores in one unit (one core) of CPU."""

MOST_UNITS = 65_536
"""The most cores one node may have: each is kept account of by itself."""

Bundle = Mapping[str, int]
"""Whole-number amounts of named resources, e.g. ``{"cpu": 2000, "memory": 512}``.

CPU is in millicores, memory in MiB, everything else in plain counts; whole numbers make
conservation an equality, not a tolerance.
"""
NOTHING: Bundle = MappingProxyType({})


_FASTEST = 1e9


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
    """A machine and what it can give; a missing topology means cores 0 to n - 1 in one domain.

    Attributes:
        gpus: how many devices it has, numbered from 0; `gpu_mib` is the memory of each.
        gpu_model: their model, for services that need a certain one.
    """

    id: NodeId
    capacity: Bundle
    topology: CpuTopology | None = None
    gpus: int = 0
    gpu_mib: int = 0
    gpu_model: str = ""

    def __post_init__(self) -> None:
        _check_amounts("capacity", self.capacity)
        if self.capacity.get(CPU, 0) > MOST_UNITS * MILLI:
            raise ValueError(
                f"capacity[{CPU!r}]={self.capacity[CPU]!r}: at most {MOST_UNITS * MILLI} millicores"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a lease holds: amounts, units of the key elastic resource, and concrete cores.

    Attributes:
        units: of a call to a service, the devices of the instance that serves it.
        cores: one id for every whole core, then one for the part of a shared core, if any.
        devices: the GPUs it holds itself, as a lease of devices does and a call does not.
    """

    amounts: Bundle = field(default_factory=_nothing)
    units: int = 0
    cores: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()

    @property
    def cpu_milli(self) -> int:
        return self.amounts.get(CPU, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to run one attempt of an action on a node until it exits.

    `instance` is the one that serves it, if it is a call to a service.
    """

    action: ActionId
    attempt: int
    node: NodeId
    grant: Grant
    environment: EnvironmentId | None = None
    instance: InstanceId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Degree:
    """One width a service can run at.

    Attributes:
        gpus: devices of one instance: 1, 2, 4 or 8, an aligned cell of one node.
        speedup: how much faster than on one device it answers.
        device_mib: memory it takes on each of them.
        restore_s: time from the host copy to ready, alone on the node; None means learn it.
    """

    gpus: int
    speedup: float
    device_mib: int = 0
    restore_s: Seconds | None = None

    def __post_init__(self) -> None:
        if self.gpus not in {1, 2, 4, 8}:
            raise ValueError(f"gpus={self.gpus!r}: a cell has 1, 2, 4 or 8 devices")
        if not 0 < self.speedup <= _FASTEST:
            raise ValueError(f"speedup={self.speedup!r}: a speed-up is above zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A model served on GPUs.

    Attributes:
        degrees: the widths it supports, ascending.
        host_mib: host memory of the copy it is restored from, on every node it has been on.
        slots: how many calls one instance takes at once.
        movable: whether a copy can be restored to another cell than the one it left.
        load_s: time to make the first copy on a node; None means learn it.
        gpu_model: the only GPU model it runs on; empty means any.
        pinned: degrees of instances that are placed at once and stay for ever, and no others;
            empty means that instances come and go.
    """

    name: str
    degrees: tuple[Degree, ...]
    host_mib: int = 0
    slots: int = 1
    movable: bool = True
    load_s: Seconds | None = None
    gpu_model: str = ""
    pinned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        widths = [degree.gpus for degree in self.degrees]
        if not widths or widths != sorted(set(widths)):
            raise ValueError(f"degrees={widths!r}: give at least one, each once, ascending")
        if self.slots < 1:
            raise ValueError(f"slots={self.slots!r}: an instance takes at least one call")
        if unknown := set(self.pinned) - set(widths):
            raise ValueError(f"pinned={sorted(unknown)!r}: use degrees of the service, {widths}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """At most so many tokens in any span of `per_s` seconds, e.g. 10,000 a day."""

    tokens: int
    per_s: Seconds

    def __post_init__(self) -> None:
        if self.tokens < 1 or not self.per_s > 0:
            raise ValueError(f"window={self.tokens!r} per {self.per_s!r} s: both are above zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What an API allows, shared by everyone who calls it.

    An action holds tokens of it by the resource name ``api:NAME`` in its needs.

    Attributes:
        rate_per_s: tokens that come back each second; None means no limit on the rate.
        burst: how many may be taken at once after a rest.
        concurrency: calls at once; None means no limit.
        windows: further limits over longer spans, all in force at once.
        adaptive: find the real limit, below the given one, from what the other side refuses.
    """

    name: str
    rate_per_s: float | None = None
    burst: int = 1
    concurrency: int | None = None
    windows: tuple[Window, ...] = ()
    adaptive: bool = False

    def __post_init__(self) -> None:
        if self.rate_per_s is not None and not self.rate_per_s > 0:
            raise ValueError(f"rate_per_s={self.rate_per_s!r}: a rate is above zero")
        if self.burst < 1:
            raise ValueError(f"burst={self.burst!r}: a burst is at least 1")
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError(f"concurrency={self.concurrency!r}: calls at once are at least 1")

    @property
    def resource(self) -> str:
        """The name its tokens have in an action's needs."""
        return API + self.name


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
