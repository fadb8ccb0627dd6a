"""What is known of a step once it was played under a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ..core.model import Outcome, Seconds
from .ledger import Span

STATIC = "static"

Told = Callable[[], None]


class Act(NamedTuple):
    """One action as it went; its times add up to what its agent waited for it.

    Attributes:
        queue_s: waiting for units, or for a place for its environment.
        overhead_s: everything else that is not its run.
    """

    trajectory: str
    kind: str
    outcome: Outcome
    queue_s: Seconds
    overhead_s: Seconds
    run_s: Seconds

    @property
    def act_s(self) -> Seconds:
        """The action completion time."""
        return self.queue_s + self.overhead_s + self.run_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A step under one policy.

    Attributes:
        rewards: of each trajectory; None where there is none, as `troubles` tells.
        lives_s: from the place of a trajectory's environment, or its begin, to its last result.
        spans: who held units when; times count from the begin of the step.
        units: how many there were.
        units_reserved_s: unit-seconds held by actions or instances, or owned by environments.
        units_used_s: unit-seconds in which something ran.
        counts: what else was counted, by name.
    """

    policy: str
    acts: tuple[Act, ...]
    rewards: dict[str, float | None]
    troubles: dict[str, str]
    lives_s: dict[str, Seconds]
    spans: tuple[Span, ...]
    step_s: Seconds
    units: int
    units_reserved_s: float
    units_used_s: float
    counts: dict[str, int]
