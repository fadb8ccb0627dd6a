"""What the kernel knows about one action and one environment, mutated by the kernel alone."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from .curve import Curve
from .model import (
    API,
    CPU,
    GPU,
    MEMORY,
    MILLI,
    Action,
    ActionId,
    Bundle,
    Environment,
    EnvironmentId,
    Grant,
    Lease,
    NodeId,
    Outcome,
    Seconds,
    TaskId,
)
from .phases import EnvironmentPhase, Phase


@dataclass(slots=True, eq=False)
class Entry:
    """One action. Policies read it, and read it only.

    Attributes:
        number: its place in the order of arrival.
        least: what it holds on its fewest units.
        weight: what it counts for in the fair share between tasks.
        quotas: the resource names of the quotas it needs tokens of, sorted.
        curve: its worthwhile amounts; None if it is rigid.
        units: units of its elastic resource it holds now; 0 if rigid or not running.
        passed_at: when somebody was first served before it although its turn had come.
        was_next: whether its turn came and it did not fit.
        blocks: whether it was looked at and did not fit, so that it may keep others waiting.
        bound_to: the node whose queue it is in, if any.
        served_by: the name of the service that it is a call to, if it is one.
        work_done: seconds of one-unit work behind it in this attempt, as of `counted_at`.
        startup_left: seconds of start-up still before it, as of `counted_at`.
    """

    action: Action
    id: ActionId
    task: TaskId
    priority: int
    number: int
    submitted_at: Seconds
    least: Bundle
    own: Bundle
    weight: int
    quotas: tuple[str, ...]
    curve: Curve | None
    phase: Phase = Phase.QUEUED
    attempt: int = 0
    lease: Lease | None = None
    units: int = 0
    started_at: Seconds = 0.0
    counted_at: Seconds = 0.0
    work_done: Seconds = 0.0
    startup_left: Seconds = 0.0
    passed_at: Seconds | None = None
    was_next: bool = False
    blocks: bool = False
    bound_to: NodeId | None = None
    served_by: str | None = None
    resized: bool = False
    stop_reason: str = ""
    stop_outcome: Outcome = Outcome.CANCELLED

    @classmethod
    def of(cls, action: Action, *, number: int, at: Seconds, curve: Curve | None) -> Entry:
        """The entry of an action that was just submitted."""
        least = least_of(action)
        quotas = tuple(sorted(name for name in least if name.startswith(API)))
        own = {n: k for n, k in least.items() if n not in quotas} if quotas else least
        return cls(
            action=action,
            id=action.id,
            task=action.task,
            priority=action.priority,
            number=number,
            submitted_at=at,
            least=least,
            own=own,
            weight=_weight(least, own),
            quotas=quotas,
            curve=curve,
        )

    def amounts(self, units: int) -> Bundle:
        """What it holds on this many units."""
        elastic = self.action.elastic
        if elastic is None or units == elastic.least:
            return self.least
        size = MILLI if elastic.resource == CPU else 1
        more = (units - elastic.least) * size
        return {**self.least, elastic.resource: self.least[elastic.resource] + more}

    def count(self, now: Seconds) -> None:
        """Bring `work_done` up to now."""
        elapsed = now - self.counted_at
        self.counted_at = now
        if self.startup_left > 0:
            used = min(elapsed, self.startup_left)
            self.startup_left -= used
            elapsed -= used
        speed = self.curve.speeds[self.units] if self.curve else 1.0
        self.work_done += elapsed * speed

    def done_by(self, now: Seconds) -> Seconds:
        """Work done by now, without writing it down."""
        elapsed = max(now - self.counted_at - self.startup_left, 0.0)
        return self.work_done + elapsed * (self.curve.speeds[self.units] if self.curve else 1.0)


def _weight(least: Bundle, own: Bundle) -> int:
    """What holds nothing of a node counts like what holds a core."""
    return max(least.get(CPU, 0) + least.get(GPU, 0) * MILLI, 1) if own else MILLI


def least_of(action: Action) -> Bundle:
    """What an action holds on its fewest units."""
    elastic = action.elastic
    if elastic is None:
        return action.needs
    size = MILLI if elastic.resource == CPU else 1
    amount = action.needs.get(elastic.resource, 0) + elastic.least * size
    return {**action.needs, elastic.resource: amount}


@dataclass(slots=True, eq=False)
class EnvironmentEntry:
    """One environment.

    Attributes:
        grant: what it holds on its node, from placement until it is closed.
        waiting: actions that wait for it to open.
        running: attempts that run in it.
        queued: actions of it in its node's queue.
        avoid: nodes on which it failed to open.
        retry_at: not to be placed before this time, if its last opening failed.
    """

    environment: Environment
    id: EnvironmentId
    task: TaskId
    priority: int
    number: int
    weight: int
    phase: EnvironmentPhase = EnvironmentPhase.WAITING
    node: NodeId | None = None
    grant: Grant | None = None
    attempt: int = 0
    requested_at: Seconds = 0.0
    waiting: OrderedDict[ActionId, Entry] = field(default_factory=OrderedDict)
    queued: OrderedDict[ActionId, Entry] = field(default_factory=OrderedDict)
    running: dict[ActionId, Entry] = field(default_factory=dict)
    avoid: set[NodeId] = field(default_factory=set)
    passed_at: Seconds | None = None
    retry_at: Seconds | None = None

    @classmethod
    def of(cls, environment: Environment, *, number: int, at: Seconds) -> EnvironmentEntry:
        """The entry of an environment that was just asked for."""
        needs = environment.needs
        return cls(
            environment=environment,
            id=environment.id,
            task=environment.task,
            priority=environment.priority,
            number=number,
            weight=max(needs.get(CPU, 0), needs.get(MEMORY, 0), 1),
            requested_at=at,
        )
