"""What no scheduler can beat on a cluster: the denominator of every claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..core.model import CPU, Node, Quota, Seconds
from ..core.speedup import duration
from .cluster import cores_of, gpus_of, widest
from .workload import Turn, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Lower bounds of a step.

    Attributes:
        critical_path_s: the longest trajectory, with every action at its best speed.
        work_s: the least unit-seconds of all actions over the size of the cluster, of cores or of
            GPUs; or, if that is more, the least time in which a quota lets all calls by.
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
            if needs_cores(turn):
                work_s += least_work_s(turn)
            elif service is not None:
                gpu_work_s += least_work_s(turn) / slots[service]
            count += 1
        critical_path_s = max(critical_path_s, path_s)
    act_mean_s = best_s / count if count else 0.0
    if count and not workload.models and _present_together(workload):
        works = [least_work_s(turn) for turn in workload.turns() if needs_cores(turn)]
        batch = batch_act_s(works, cores)
        act_mean_s = max(act_mean_s, batch / count)
    return Bounds(
        critical_path_s=critical_path_s,
        work_s=max(
            work_s / cores if cores else 0.0,
            gpu_work_s / gpus if gpus else 0.0,
            *(quota_s(workload, quota) for quota in workload.quotas),
        ),
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


def needs_cores(turn: Turn) -> bool:
    """Whether it is cores that do its work, not a service or the other side of an API."""
    action = turn.action
    if action.elastic is not None or action.environment is not None:
        return action.service is None
    return CPU in action.needs and action.service is None


def quota_s(workload: Workload, quota: Quota) -> Seconds:
    """The least time from the first call to an API until the last one is over, by its quota alone."""
    tokens, held_s = 0, 0.0
    for turn in workload.turns():
        needed = turn.action.needs.get(quota.resource, 0)
        tokens += needed
        held_s += needed * best_run_s(turn, most=turn.units)
    least = [0.0]
    if quota.rate_per_s is not None:
        least.append((tokens - quota.burst) / quota.rate_per_s)
    if quota.concurrency is not None:
        least.append(held_s / quota.concurrency)
    return max(least)


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
