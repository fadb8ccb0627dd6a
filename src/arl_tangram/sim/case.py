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
from ..policies.registry import policy_named
from .bounds import Bounds, bounds_of
from .catalogue import workload_named
from .cluster import DEFAULT_MEMORY_MIB, cluster
from .engine import Observer, Run, simulate
from .measure import Measures, measure
from .workload import Workload, as_static

STATIC = "static"
TOLD_EVERY = 200

EstimatesName = Literal["learned", "oracle"]
Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A step on a cluster, without the policy.

    Attributes:
        workload: a built-in name or the path of a trace.
        batch: trajectories in the step; None means the workload's own figure.
        nodes: the cluster, as `cluster` reads it.
        static_cores: what a container owns under the policy `static`.
        open_s: how long it takes to open an environment.
        estimates: what policies know of durations; "oracle" tells them the truth.
    """

    workload: str
    seed: int = 0
    batch: int | None = None
    nodes: str = "15x256"
    node_memory_mib: int = DEFAULT_MEMORY_MIB
    static_cores: int = 3
    open_s: Seconds = 0.0
    estimates: EstimatesName = "learned"

    def build(self) -> tuple[Workload, tuple[Node, ...]]:
        """The workload and the cluster; raises `ConfigError` if one of them is wrong."""
        nodes = cluster(self.nodes, memory_mib=self.node_memory_mib)
        return workload_named(self.workload, batch=self.batch, seed=self.seed), nodes

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
        watching = list(observers)
        if progress is not None:
            watching.append(_counting(workload, progress))
        kernel = Kernel(policy_named(self.policy), estimates)
        return simulate(
            kernel,
            workload,
            nodes=nodes,
            open_s=scenario.open_s,
            observe=_all_of(watching) if watching else None,
        )


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
