"""Workloads as JSON Lines, one action a line: the format in which a recorded run can be simulated.

A line holds, with the defaults in brackets:

- `task` ["default"], `trajectory`: which rollout the action belongs to; `seq` [next]: its place in it;
- `kind` ["default"]: the label under which durations are learned;
- `start_s` [0]: when the trajectory arrives, read from its first action only;
- `think_s` [0]: model time before the action;
- `resource` ["cpu"]: `cpu`, `gpu:SERVICE` for a call to a service, or `api:NAME` for a call to an API;
- `units` [1]: `[min, max]`, a list of allowed amounts, or one number; of a call, the degrees of its
  service, each 1, 2, 4 or 8, a pair being just these two; of a call to an API, the tokens it takes;
- `quota` [no limit], of a call to an API: what that allows to all together, an object of `rate_per_s`,
  `burst` and `concurrency`, each optional;
- `weights_gb` [60], of a call: what its service takes on its devices and on hosts, and a restore
  moves;
- `work_s`: duration on one unit;
- `speedup` [none: rigid, on the least amount]: `{"roofline": cap}`, `{"amdahl": serial}`,
  `{"power": p}` or `{"table": {"2": 1.9}}`, each with an optional `"startup_s"` per unit;
- `resizable` [true]: whether units may come and go while it runs;
- `timeout_s` [none]: when a run is cut off, and ends as timed out;
- `environment_mib` [no environment]: memory its trajectory's environment holds for life, the
  largest of its actions' figures.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.model import (
    API,
    CPU,
    MEMORY,
    MILLI,
    Action,
    ActionId,
    Bundle,
    Elastic,
    Environment,
    EnvironmentId,
    Quota,
    TaskId,
    TrajectoryId,
)
from ..core.speedup import Amdahl, PowerLaw, Roofline, Speedup, Table
from ..errors import ConfigError
from .models import served_model
from .workload import RIGID, ServedModel, Trajectory, Turn, Workload

FIELDS = (
    "task",
    "trajectory",
    "seq",
    "kind",
    "start_s",
    "think_s",
    "resource",
    "units",
    "work_s",
    "speedup",
    "resizable",
    "timeout_s",
    "environment_mib",
    "weights_gb",
    "quota",
)
CALL = "gpu:"
LIMITS = ("rate_per_s", "burst", "concurrency")
DEFAULT_WEIGHTS_GB = 60.0
CURVES = ("roofline", "amdahl", "power", "table")
MOST_UNITS = 4096  # a wider range is surely a slip, and would be spelled out in memory


def read_trace(lines: Iterable[str], *, name: str) -> Workload:
    """The workload that these lines describe; blank lines are skipped.

    Args:
        lines: the text of the trace.
        name: what to call it, in messages and as the workload's name.

    Raises:
        ConfigError: a line is wrong; the message has its number, the field, the value and the mend.
    """
    rows: dict[tuple[str, str], _Rows] = {}
    models: dict[str, ServedModel] = {}
    quotas: dict[str, Quota] = {}
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            line = _parse(text)
            rows.setdefault((line.task, line.trajectory), _Rows(line)).add(line)
            if line.model is not None:
                _check_model(models.setdefault(line.model.service.name, line.model), line.model)
            if line.quota is not None:
                _check_quota(quotas.setdefault(line.quota.name, line.quota), line.quota)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{name}, line {number}: {error}") from None
    if not rows:
        raise ConfigError(f"{name}: it holds no actions; a trace has one JSON object a line")
    return Workload(
        name=name,
        trajectories=tuple(each.trajectory() for each in rows.values()),
        models=tuple(models.values()),
        quotas=tuple(quotas.values()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    task: str
    trajectory: str
    seq: int | None
    start_s: float
    turn: Turn
    environment_mib: int | None
    model: ServedModel | None
    quota: Quota | None


@dataclass(slots=True)
class _Rows:
    """The lines of one trajectory so far."""

    first: _Line
    turns: list[Turn] = field(default_factory=list)
    last_seq: int = -1
    environment_mib: int | None = None

    def add(self, line: _Line) -> None:
        seq = self.last_seq + 1 if line.seq is None else line.seq
        if seq <= self.last_seq:
            raise ValueError(
                f"seq={seq}: trajectory {line.trajectory!r} is at {self.last_seq} already; "
                f"give its actions in order"
            )
        self.last_seq = seq
        if line.environment_mib is not None:
            self.environment_mib = max(line.environment_mib, self.environment_mib or 0)
        action = replace(line.turn.action, id=ActionId(f"{line.task}/{line.trajectory}/{seq}"))
        self.turns.append(replace(line.turn, action=action))

    def trajectory(self) -> Trajectory:
        task, trajectory = TaskId(self.first.task), TrajectoryId(self.first.trajectory)
        environment = None
        turns = tuple(self.turns)
        if self.environment_mib is not None:
            environment = Environment(
                id=EnvironmentId(f"{task}/{trajectory}"),
                task=task,
                trajectory=trajectory,
                needs={MEMORY: self.environment_mib},
            )
            turns = tuple(
                replace(turn, action=replace(turn.action, environment=environment.id))
                for turn in turns
            )
        return Trajectory(
            id=trajectory,
            task=task,
            start_s=self.first.start_s,
            environment=environment,
            turns=turns,
        )


def _parse(text: str) -> _Line:
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error}); give one object a line") from None
    if not isinstance(row, dict):
        raise TypeError(f"{text.strip()[:40]!r} is not a JSON object; give one object a line")
    for key in row:
        if key not in FIELDS:
            raise ValueError(f"{key!r} is not a field{_nearest(key, FIELDS)}")
    resource = _text(row, "resource", default=CPU)
    service = resource.removeprefix(CALL) if resource.startswith(CALL) else None
    api = resource.removeprefix(API) if resource.startswith(API) else None
    if resource != CPU and not service and not api:
        raise ValueError(f"resource={resource!r}: give 'cpu', 'gpu:SERVICE' or 'api:NAME'")
    speedup = _speedup(row["speedup"]) if row.get("speedup") is not None else None
    units = _units(row.get("units", 1), pair_is_range=service is None)
    if api and (speedup is not None or len(units) > 1):
        raise ValueError(
            f"resource={resource!r}: a call to an API takes one number of tokens as its units, and "
            f"no speedup"
        )
    resizable = row.get("resizable", True)
    if not isinstance(resizable, bool):
        raise TypeError(f"resizable={resizable!r}: give true or false")
    task, trajectory = _text(row, "task", default="default"), _text(row, "trajectory")
    elastic = speedup is not None and len(units) > 1 and service is None
    action = Action(
        id=ActionId(""),  # named when its place in the trajectory is known
        task=TaskId(task),
        trajectory=TrajectoryId(trajectory),
        kind=_text(row, "kind", default="default"),
        needs=_needs(resource, units[0]) if not elastic else {},
        elastic=Elastic(units=units, speedup=speedup, resizable=resizable) if elastic else None,
        service=service,
        timeout_s=_seconds(row, "timeout_s", default=None),
    )
    turn = Turn(
        think_s=_seconds(row, "think_s", default=0.0) or 0.0,
        action=action,
        work_s=_required_seconds(row, "work_s"),
        speedup=speedup or RIGID,
        units=1 if api else units[0],
        degrees=units if service else (),
    )
    return _Line(
        task=task,
        trajectory=trajectory,
        seq=_whole(row, "seq"),
        start_s=_seconds(row, "start_s", default=0.0) or 0.0,
        turn=turn,
        environment_mib=_whole(row, "environment_mib"),
        model=_model(row, service, units, speedup or RIGID) if service else None,
        quota=_quota(row, api) if api else None,
    )


def _needs(resource: str, units: int) -> Bundle:
    if resource.startswith(CALL):
        return {}
    return {CPU: units * MILLI} if resource == CPU else {resource: units}


def _check_model(known: ServedModel, now: ServedModel) -> None:
    if known != now:
        raise ValueError(
            f"resource='gpu:{now.service.name}': units, speedup and weights_gb differ from those "
            f"of an earlier line; a service has one set of them"
        )


def _check_quota(known: Quota, now: Quota) -> None:
    if known != now:
        raise ValueError(
            f"resource='{now.resource}': quota differs from that of an earlier line; an API has "
            f"one set of limits"
        )


def _quota(row: Mapping[str, Any], api: str) -> Quota:
    limits = row.get("quota") or {}
    if not isinstance(limits, dict) or not limits.keys() <= set(LIMITS):
        raise ValueError(f"quota={limits!r}: give an object of {', '.join(LIMITS)}")
    return Quota(
        name=api,
        rate_per_s=_seconds(limits, "rate_per_s", default=None),
        burst=_whole(limits, "burst") or 1,
        concurrency=_whole(limits, "concurrency"),
    )


def _model(
    row: Mapping[str, Any], service: str, units: Sequence[int], speedup: Speedup
) -> ServedModel:
    weights_gb = _number(row.get("weights_gb", DEFAULT_WEIGHTS_GB))
    if not weights_gb >= 0:
        raise ValueError(f"weights_gb={weights_gb!r}: give gigabytes, at least 0")
    return served_model(service, degrees=units, speedup=speedup, weights_gb=weights_gb)


def _units(value: Any, *, pair_is_range: bool) -> tuple[int, ...]:
    """One number, or more than two, are the allowed amounts themselves; two may be a range."""
    given = value if isinstance(value, list) else [value]
    whole = all(isinstance(u, int) and not isinstance(u, bool) for u in given)
    if not given or not whole or given != sorted(set(given)) or given[0] < 1:
        raise ValueError(
            f"units={value!r}: give one whole number from 1 up, [min, max], or an ascending list"
        )
    if given[-1] > MOST_UNITS:
        raise ValueError(f"units={value!r}: at most {MOST_UNITS} units can be simulated")
    if pair_is_range and len(given) == 2:
        return tuple(range(given[0], given[1] + 1))
    return tuple(given)


def _speedup(value: Any) -> Speedup:
    known = "{'roofline': cap}, {'amdahl': serial}, {'power': p} or {'table': {'2': 1.9}}"
    if not isinstance(value, dict):
        raise TypeError(f"speedup={value!r}: give one of {known}")
    names = [key for key in value if key != "startup_s"]
    if len(names) != 1 or names[0] not in CURVES:
        raise ValueError(f"speedup={value!r}: give one of {known}, and startup_s if need be")
    startup_s = _seconds(value, "startup_s", default=0.0) or 0.0
    curve = value[names[0]]
    try:
        if names[0] == "table":
            points = {int(units): float(speed) for units, speed in dict(curve).items()}
            return Table.of(points, startup_s=startup_s)
        parameter = _number(curve)
        if names[0] == "roofline":
            return Roofline(cap=parameter, startup_s=startup_s)
        if names[0] == "amdahl":
            return Amdahl(serial=parameter, startup_s=startup_s)
        return PowerLaw(p=parameter, startup_s=startup_s)
    except (TypeError, ValueError) as error:
        raise ValueError(f"speedup={value!r}: {error}") from None


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _seconds(row: Mapping[str, Any], key: str, *, default: float | None) -> float | None:
    value = row.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise ValueError(f"{key}={value!r}: give seconds, at least 0")
    return float(value)


def _required_seconds(row: Mapping[str, Any], key: str) -> float:
    value = _seconds(row, key, default=None)
    if value is None:
        raise ValueError(f"{key} is missing: give seconds, at least 0")
    return value


def _whole(row: Mapping[str, Any], key: str) -> int | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{key}={value!r}: give a whole number, at least 0")
    return value


def _text(row: Mapping[str, Any], key: str, *, default: str | None = None) -> str:
    value = row.get(key, default)
    if value is None:
        raise ValueError(f"{key} is missing: give a name")
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key}={value!r}: give a name, in quotes")
    return value


def _nearest(key: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; the fields are {', '.join(known)}"
