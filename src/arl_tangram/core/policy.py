"""The seam where scheduling policies plug in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from .entries import Entry
from .estimates import Estimates
from .model import ActionId, Bundle, NodeId, Seconds
from .pools.draft import Draft


@dataclass(slots=True)
class View:
    """All that a policy may look at when it decides about one node, valid during the call.

    Attributes:
        capacity: what the node has.
        owned: what of it environments hold for life.
        free: a copy of what is free, for the policy to plan with.
        waiting: who may start here, in service order; reading on costs, so read no further
            than needed.
        running: attempts on this node.
        resizable: those of them whose units may change.
        surplus: units that `resizable` hold above their least, by resource.
        patience_s: how long an action may be passed over before what it needs is kept for it.
    """

    now: Seconds
    node: NodeId
    capacity: Bundle
    owned: Bundle
    free: Draft
    waiting: Iterator[Entry]
    running: Mapping[ActionId, Entry]
    resizable: Mapping[ActionId, Entry]
    surplus: Mapping[str, int]
    estimates: Estimates
    patience_s: Seconds


@dataclass(slots=True)
class Plan:
    """What a policy proposes for one node; the kernel checks all of it before it grants any.

    Attributes:
        starts: waiting actions to start, on so many units (0 if rigid).
        resizes: running actions to change, to so many units.
        passed: actions that were looked at and do not fit, in service order.
        overtaken: how many of those, the first ones, come before one that starts.
    """

    starts: list[tuple[Entry, int]] = field(default_factory=list)
    resizes: list[tuple[Entry, int]] = field(default_factory=list)
    passed: list[Entry] = field(default_factory=list)
    overtaken: int = 0


class Policy(Protocol):
    """Proposes who starts and who grows or shrinks on one node."""

    def decide(self, view: View) -> Plan:
        """Called after every event that may matter to the node."""
