"""What a simulated step was: the fate of every action, and who held what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core.model import ActionId, Outcome, Seconds, TaskId
from .level import Level
from .meters import QuotaFigures


@dataclass(slots=True, kw_only=True)
class ActionRecord:
    """What became of one action; times on the simulation's clock, in seconds.

    Attributes:
        started_at: when its last attempt started; None if it never ran.
        overhead_s: how much of its wait its environment was being opened, or the instance that
            served it restored.
    """

    id: ActionId
    kind: str
    submitted_at: Seconds
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    outcome: Outcome | None = None
    overhead_s: Seconds = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A simulated step.

    Attributes:
        actions: in order of submission.
        trajectories: how many there were.
        aborted: trajectories whose environment or action could never be placed.
        step_s: from the first arrival to the end of the last trajectory.
        cores: the size of the cluster.
        held: units held by running actions, or owned by environments.
        used: units that were at work; what is held and idle, or beyond what a curve can use, is not.
        units_used_s: unit-seconds of work and start-up that were done.
        gpus: how many the cluster has.
        gpus_held: devices of the instances that answered a call.
        gpus_used: devices that were at work; what a curve cannot use is not.
        gpus_used_s: the same over time.
        restores: how many instances were restored.
        quotas: what was made of each quota.
        ends: when the last trajectory of each task ended, from the first arrival of all.
        events: how many events the kernel handled.
    """

    actions: Sequence[ActionRecord]
    trajectories: int
    aborted: int
    step_s: Seconds
    cores: int
    held: Level
    used: Level
    units_used_s: Seconds
    gpus: int
    gpus_held: Level
    gpus_used: Level
    gpus_used_s: Seconds
    restores: int
    quotas: Mapping[str, QuotaFigures]
    ends: Mapping[TaskId, Seconds]
    events: int
