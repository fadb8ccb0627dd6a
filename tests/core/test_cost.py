"""A decision costs what it looks at, not what is queued: counted in steps of the interpreter."""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any

import pytest

from arl_tangram.core.commands import OpenEnvironment, Start
from arl_tangram.core.events import (
    ActionExited,
    ActionSubmitted,
    CancelRequested,
    CloseRequested,
    EnvironmentClosed,
    EnvironmentOpened,
    EnvironmentRequested,
    Event,
    NodeJoined,
)
from arl_tangram.core.kernel import Kernel
from arl_tangram.core.model import ActionId, EnvironmentId, Lease, Outcome
from arl_tangram.policies.registry import policy_named
from arl_tangram.testing.builders import action, environment, node

NODES = 4


def steps(kernel: Kernel, event: Event) -> int:
    """How many steps of the interpreter it takes the kernel to handle an event."""
    count = 0

    def trace(frame: FrameType, what: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += what == "opcode"
        return trace

    outer = sys.gettrace()
    gc.disable()  # a collection runs other people's callbacks
    sys.settrace(trace)
    try:
        kernel.handle(event)
    finally:
        sys.settrace(outer)
        gc.enable()
    return count


class Cluster:
    """Nodes with an environment on each, all cores busy, and so many waiting on all but the first."""

    def __init__(self, policy: str, *, queued: int, anywhere: bool = False) -> None:
        self.kernel = Kernel(policy_named(policy))
        self.leases: dict[ActionId, Lease] = {}
        self.on: dict[str, EnvironmentId] = {}
        for i in range(NODES):
            self.feed(NodeJoined(at=0.0, node=node(f"n{i}", cpu=4)))
        for i in range(NODES):
            wanted = environment(f"e{i}")
            self.feed(EnvironmentRequested(at=0.0, environment=wanted))
            self.feed(EnvironmentOpened(at=0.0, environment=wanted.id))
        for i in range(NODES):
            for j in range(4):
                self.submit(f"r{i}.{j}", self.on[f"n{i}"])
            for j in range(3):
                self.submit(f"q{i}.{j}", self.on[f"n{i}"])
        for number in range(queued):
            other = None if anywhere else self.on[f"n{1 + number % (NODES - 1)}"]
            self.submit(f"many{number}", other)

    def submit(self, name: str, place: EnvironmentId | None) -> None:
        self.feed(ActionSubmitted(at=0.0, action=action(name, cpu=1, environment=place)))

    def feed(self, event: Event) -> None:
        for command in self.kernel.handle(event):
            if isinstance(command, Start):
                self.leases[command.lease.action] = command.lease
            elif isinstance(command, OpenEnvironment):
                self.on[command.node] = command.environment.id

    def events(self) -> list[Event]:
        """One of each that concerns the first node alone."""
        lease = self.leases[ActionId("r0.0")]
        place = self.on["n0"]
        return [
            ActionExited(
                at=1.0, action=lease.action, attempt=lease.attempt, outcome=Outcome.SUCCEEDED
            ),
            ActionSubmitted(at=2.0, action=action("new", cpu=1, environment=place)),
            CancelRequested(at=3.0, action=ActionId("new")),
            EnvironmentRequested(at=4.0, environment=environment("another")),
            CloseRequested(at=5.0, environment=EnvironmentId("another")),
            EnvironmentClosed(at=6.0, environment=EnvironmentId("another")),
        ]

    def cost(self) -> list[int]:
        return [steps(self.kernel, event) for event in self.events()]


POLICIES = ["inflight", "tangram", "fixed:1", "equi", "hesrpt"]


@pytest.mark.parametrize("policy", POLICIES)
def test_an_event_on_one_node_costs_the_same_whatever_the_others_queue(policy: str) -> None:
    idle = Cluster(policy, queued=0).cost()
    busy = Cluster(policy, queued=10_000).cost()

    assert idle == pytest.approx(busy, rel=0.02, abs=20)


@pytest.mark.parametrize("policy", ["inflight", "tangram"])
def test_an_event_costs_little_more_with_many_that_may_run_anywhere(policy: str) -> None:
    some = Cluster(policy, queued=100, anywhere=True).cost()
    many = Cluster(policy, queued=10_000, anywhere=True).cost()

    assert some == pytest.approx(many, rel=0.02, abs=20)


def test_an_event_costs_the_same_however_many_environments_wait_for_a_place() -> None:
    def cost(waiting: int) -> list[int]:
        cluster = Cluster("inflight", queued=0)
        for i in range(waiting):
            wanted = environment(f"w{i}", memory=3000)
            cluster.feed(EnvironmentRequested(at=0.5, environment=wanted))
        return cluster.cost()

    assert cost(100) == pytest.approx(cost(5000), rel=0.02, abs=20)
