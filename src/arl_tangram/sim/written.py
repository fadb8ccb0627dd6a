"""Workloads written as JSON Lines, in the format that `trace` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..core.model import API, CPU, MEMORY, Quota
from ..core.speedup import Amdahl, PowerLaw, Roofline, Speedup, Table
from .trace import CALL, LIMITS
from .workload import RIGID, Trajectory, Turn, Workload


def write_trace(workload: Workload) -> Iterator[str]:
    """The lines (with their line ends) that `read_trace` turns into this workload again.

    Raises:
        ValueError: an action allows two amounts that are no neighbours, which no line can say.
    """
    weights = {model.service.name: model.gigabytes for model in workload.models}
    quotas = {quota.resource: quota for quota in workload.quotas}
    for trajectory in workload.trajectories:
        for seq, turn in enumerate(trajectory.turns):
            line = _line_of(trajectory, seq, turn)
            if turn.action.service is not None:
                line["weights_gb"] = weights[turn.action.service]
            elif (quota := quotas.get(line["resource"])) is not None:
                line["quota"] = _limits_of(quota)
            yield json.dumps(line) + "\n"


def _line_of(trajectory: Trajectory, seq: int, turn: Turn) -> dict[str, Any]:
    action = turn.action
    line: dict[str, Any] = {
        "task": str(trajectory.task),
        "trajectory": str(trajectory.id),
        "seq": seq,
        "kind": action.kind,
    }
    if seq == 0:
        line["start_s"] = trajectory.start_s
    line |= {"think_s": turn.think_s, "resource": _resource_of(turn), "units": _units_of(turn)}
    line["work_s"] = turn.work_s
    if turn.speedup != RIGID or action.elastic is not None:
        line["speedup"] = _curve_of(turn.speedup)
    if action.elastic is not None:
        line["resizable"] = action.elastic.resizable
    if action.timeout_s is not None:
        line["timeout_s"] = action.timeout_s
    if trajectory.environment is not None:
        line["environment_mib"] = trajectory.environment.needs.get(MEMORY, 0)
    return line


def _resource_of(turn: Turn) -> str:
    action = turn.action
    if action.service is not None:
        return f"{CALL}{action.service}"
    return next((name for name in action.needs if name.startswith(API)), CPU)


def _limits_of(quota: Quota) -> dict[str, Any]:
    limits = {name: getattr(quota, name) for name in LIMITS}
    return {name: limit for name, limit in limits.items() if limit is not None}


def _units_of(turn: Turn) -> int | list[int]:
    tokens = turn.action.needs.get(_resource_of(turn), 0)
    if _resource_of(turn).startswith(API):
        return tokens
    units = turn.allowed_units()
    if turn.degrees:
        return list(units)
    if len(units) == 1:
        return units[0]
    if units == tuple(range(units[0], units[-1] + 1)):
        return [units[0], units[-1]]
    if len(units) == 2:
        raise ValueError(f"units={units!r} of {turn.action.id}: a trace reads a pair as a range")
    return list(units)


def _curve_of(speedup: Speedup) -> dict[str, Any]:
    match speedup:
        case Roofline(cap=cap):
            curve: dict[str, Any] = {"roofline": cap}
        case Amdahl(serial=serial):
            curve = {"amdahl": serial}
        case PowerLaw(p=p):
            curve = {"power": p}
        case Table(points=points):
            curve = {"table": {str(units): speed for units, speed in points}}
    if speedup.startup_s:
        curve["startup_s"] = speedup.startup_s
    return curve
