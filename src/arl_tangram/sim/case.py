"""One simulation to do: which workload, on which cluster, under which policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..core.commands import Command
from ..core.estimates import Estimates, Learned, Oracle
from ..core.events import ActionExited, Event
from ..core.kernel import Kernel
from ..core.model import Node, Seconds
from ..core.serving.worth import Eviction
from ..errors import ConfigError
from ..policies.eviction import OF_POLICIES, Belady, eviction_named
from ..policies.registry import policy_named
from .bounds import Bounds, bounds_of
from .catalogue import workload_named
from .cluster import DEFAULT_MEMORY_MIB, cluster, gpu_nodes
from .engine import Observer, simulate
from .measure import Measures, measure
from .pinned import with_pinned_services
from .restores import DEFAULT_HOST_GB_PER_S
from .run import Run
from .workload import Workload, as_static, calls_of

STATIC = "static"
TOLD_EVERY = 200

EvictionName = Literal["cost", "lru", "on-demand", "belady"]
DEFAULT_EVICTION: EvictionName = "cost"
EstimatesName = Literal["learned", "oracle"]
Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A step on a cluster, without the policy.

    Attributes:
        workload: a built-in name or the path of a trace; several joined by `+` are one step.
        batch: trajectories in the step; None means the workload's own figure.
        nodes: the cluster, as `cluster` reads it.
        gpus: nodes with GPUs beside it, as `gpu_nodes` reads them; none if empty.
        host_gb_per_s: what all restores of a node share.
        eviction: which instances of services make room; None means as the policy has it, and
            "belady" is told when each service is called next.
        static_cores: what a container owns under the policy `static`.
        same_width: whether services have one width under the policy `static`, not each its best.
        open_s: how long it takes to open an environment.
        estimates: what policies know of durations; "oracle" tells them the truth.
    """

    workload: str
    seed: int = 0
    batch: int | None = None
    nodes: str = "15x256"
    gpus: str = ""
    host_gb_per_s: float = DEFAULT_HOST_GB_PER_S
    eviction: EvictionName | None = None
    node_memory_mib: int = DEFAULT_MEMORY_MIB
    static_cores: int = 3
    same_width: bool = False
    open_s: Seconds = 0.0
    estimates: EstimatesName = "learned"

    def build(self) -> tuple[Workload, tuple[Node, ...]]:
        """The workload and the cluster; raises `ConfigError` if one of them is wrong."""
        nodes = cluster(self.nodes, memory_mib=self.node_memory_mib)
        if self.gpus:
            nodes += gpu_nodes(self.gpus)
        workload = workload_named(self.workload, batch=self.batch, seed=self.seed)
        if workload.models and not self.gpus:
            raise ConfigError(
                f"gpus: {self.workload} calls {len(workload.models)} services; give nodes with "
                f"GPUs, as in --gpus 5x8"
            )
        return workload, nodes

    def bounds(self) -> Bounds:
        """What no policy can beat."""
        return bounds_of(*self.build())


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A scenario under one policy."""

    scenario: Scenario
    policy: str

    def run(
        self, *, progress: Progress | None = None, observers: Sequence[Observer] = ()
    ) -> Measures:
        """Simulate it.

        Args:
            progress: told the share of all actions that ended, now and then.
            observers: told every event and its commands.
        """
        return measure(self.simulate(progress=progress, observers=observers))

    def simulate(
        self, *, progress: Progress | None = None, observers: Sequence[Observer] = ()
    ) -> Run:
        """As `run`, with the fate of every action."""
        scenario = self.scenario
        workload, nodes = scenario.build()
        estimates: Estimates = (
            Oracle(workload.true_work()) if scenario.estimates == "oracle" else Learned()
        )
        if self.policy == STATIC:
            workload = as_static(workload, cores=scenario.static_cores)
            workload = with_pinned_services(workload, nodes, same=scenario.same_width)
        watching = list(observers)
        if progress is not None:
            watching.append(_counting(workload, progress))
        eviction = _eviction(eviction_of(scenario, self.policy), workload)
        kernel = Kernel(policy_named(self.policy), estimates, eviction=eviction)
        return simulate(
            kernel,
            workload,
            nodes=nodes,
            open_s=scenario.open_s,
            host_gb_per_s=scenario.host_gb_per_s,
            observe=_all_of(watching) if watching else None,
        )


def eviction_of(scenario: Scenario, policy: str) -> str:
    """Which instances of services make room under a policy."""
    return scenario.eviction or OF_POLICIES.get(policy, DEFAULT_EVICTION)


def _eviction(name: str, workload: Workload) -> Eviction:
    if name != "belady":
        return eviction_named(name)
    calls_at: dict[str, list[Seconds]] = {}
    for trajectory in workload.trajectories:
        for service, at, _ in calls_of(trajectory):
            calls_at.setdefault(service, []).append(at)
    return Belady({name: sorted(times) for name, times in calls_at.items()})


def _all_of(observers: Sequence[Observer]) -> Observer:
    def observe(event: Event, commands: Sequence[Command]) -> None:
        for observer in observers:
            observer(event, commands)

    return observe


def _counting(workload: Workload, progress: Progress) -> Observer:
    total = sum(len(trajectory.turns) for trajectory in workload.trajectories)
    ended = 0

    def count(event: Event, _commands: Sequence[Command]) -> None:
        nonlocal ended
        if isinstance(event, ActionExited):
            ended += 1
            if ended % TOLD_EVERY == 0 or ended == total:
                progress(ended / total)

    return count
