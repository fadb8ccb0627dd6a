"""What no scheduler can beat on a cluster: the denominator of every claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..core.model import Node, Seconds
from ..core.speedup import duration
from .cluster import cores_of, gpus_of, widest
from .workload import Turn, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Lower bounds of a step.

    Attributes:
        critical_path_s: the longest trajectory, with every action at its best speed.
        work_s: the least unit-seconds of all actions over the size of the cluster, of cores or of
            GPUs.
        act_mean_s: of the mean action completion time.
    """

    critical_path_s: Seconds
    work_s: Seconds
    act_mean_s: Seconds

    @property
    def step_s(self) -> Seconds:
        """Of the step time."""
        return max(self.critical_path_s, self.work_s)


def bounds_of(workload: Workload, nodes: Sequence[Node]) -> Bounds:
    """The bounds that hold for every policy, `static` included, on this workload and cluster."""
    most, cores, gpus = widest(nodes), cores_of(nodes), gpus_of(nodes)
    widest_cell = max((node.gpus for node in nodes), default=0)
    first_at = min((t.start_s for t in workload.trajectories), default=0.0)
    critical_path_s = work_s = gpu_work_s = best_s = 0.0
    count = 0
    slots = {model.service.name: model.service.slots for model in workload.models}
    for trajectory in workload.trajectories:
        path_s = trajectory.start_s - first_at
        for turn in trajectory.turns:
            service = turn.action.service
            best = best_run_s(turn, most=most if service is None else widest_cell)
            path_s += turn.think_s + best
            best_s += best
            if service is None:
                work_s += least_work_s(turn)
            else:
                gpu_work_s += least_work_s(turn) / slots[service]
            count += 1
        critical_path_s = max(critical_path_s, path_s)
    act_mean_s = best_s / count if count else 0.0
    if count and not workload.models and _present_together(workload):
        batch = batch_act_s(map(least_work_s, workload.turns()), cores)
        act_mean_s = max(act_mean_s, batch / count)
    return Bounds(
        critical_path_s=critical_path_s,
        work_s=max(work_s / cores if cores else 0.0, gpu_work_s / gpus if gpus else 0.0),
        act_mean_s=act_mean_s,
    )


def best_run_s(turn: Turn, *, most: int) -> Seconds:
    """The shortest time in which the action can run on a node of `most` cores."""
    fitting = [units for units in turn.allowed_units() if units <= most] or turn.allowed_units()[:1]
    best = min(duration(turn.speedup, turn.work_s, units) for units in fitting)
    return _cut(turn, best)


def least_work_s(turn: Turn) -> Seconds:
    """The least unit-seconds in which the action can be done, however its units change."""
    allowed = turn.allowed_units()
    speedup, work_s = turn.speedup, turn.work_s
    elastic = turn.action.elastic
    if elastic is not None and elastic.resizable:
        # Start-up on the least amount, then all the work at the best return on units.
        startup = speedup.startup_s * allowed[0] ** 2
        least = startup + work_s * min(units / speedup.at(units) for units in allowed)
    else:
        least = min(units * duration(speedup, work_s, units) for units in allowed)
    # A run that is cut off holds at least the least amount until then.
    timeout_s = turn.action.timeout_s
    return least if timeout_s is None else min(least, timeout_s * allowed[0])


def batch_act_s(works_s: Iterable[Seconds], cores: int) -> Seconds:
    """Least total ACT of actions that are present together, given their unit-seconds.

    With all cores on one action at a time, shortest first, the i-th largest is waited for by
    itself and the i - 1 larger ones.
    """
    largest_first = sorted(works_s, reverse=True)
    return sum(i * work_s for i, work_s in enumerate(largest_first, start=1)) / cores


def _present_together(workload: Workload) -> bool:
    arrivals = {
        trajectory.start_s + turn.think_s
        for trajectory in workload.trajectories
        for turn in trajectory.turns
    }
    return len(arrivals) == 1 and all(len(t.turns) == 1 for t in workload.trajectories)


def _cut(turn: Turn, run_s: Seconds) -> Seconds:
    timeout_s = turn.action.timeout_s
    return run_s if timeout_s is None else min(run_s, timeout_s)
