"""The driver by itself: order, reentrance, time, and what becomes of everybody when it breaks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from arl_tangram.core.commands import Command, Resolve, Start, WakeAt
from arl_tangram.core.events import ActionExited, ActionSubmitted, Event, Woke
from arl_tangram.core.kernel import Kernel
from arl_tangram.core.model import (
    CPU,
    Action,
    ActionId,
    EnvironmentId,
    Explanation,
    Grant,
    Lease,
    Node,
    NodeId,
    Outcome,
)
from arl_tangram.errors import InvariantError
from arl_tangram.policies.registry import policy_named
from arl_tangram.runtime.driver import Driver
from arl_tangram.runtime.observers import Observer
from arl_tangram.testing.clock import ManualClock, ManualTimer

LEASE = Lease(action=ActionId("a"), attempt=1, node=NodeId("n0"), grant=Grant(amounts={CPU: 1000}))


@dataclass
class Answers:
    """A decider that gives prepared commands, and keeps what it was asked."""

    commands: dict[type, list[Command]]
    asked: list[Event] = field(default_factory=list)

    def handle(self, event: Event) -> list[Command]:
        self.asked.append(event)
        return self.commands.get(type(event), [])

    def explain(self, action: ActionId) -> Explanation:
        return Explanation(action=action, phase="running")


class Instant:
    """Work that is over as soon as it starts, or raises."""

    def __init__(self, driver: Driver, *, name: str = "a", raises: Exception | None = None) -> None:
        self.action = Action(id=ActionId(name), needs={CPU: 1000})
        self.driver = driver
        self.raises = raises
        self.seen: list[object] = []

    def start(self, lease: Lease, at: float) -> None:
        self.seen.append("start")
        if self.raises:
            raise self.raises
        self.driver.exited(lease, Outcome.SUCCEEDED, at)
        self.seen.append("started")

    def resize(self, lease: Lease, at: float) -> None:
        self.seen.append("resize")
        if self.raises:
            raise self.raises

    def stop(self, lease: Lease) -> None:
        self.seen.append("stop")

    def resolve(self, outcome: Outcome, reason: str, at: float) -> None:
        self.seen.append((outcome, reason))

    def fail(self, error: BaseException) -> None:
        self.seen.append(error)


class Seen(Observer):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def happened(self, event: Event, commands: Sequence[Command]) -> None:
        self.events.append(event)


def test_an_event_from_inside_a_commands_effect_waits_for_its_turn() -> None:
    kernel = Kernel(policy_named("inflight"))
    driver = Driver(kernel, clock=ManualClock())
    driver.join(Node(id=NodeId("n0"), capacity={CPU: 1000}))
    work = Instant(driver)

    driver.submit(work, at=0.0)

    assert ["start", "started", (Outcome.SUCCEEDED, "")] == work.seen
    kernel.check()


def test_an_event_that_was_made_before_others_that_were_told_first_happens_now() -> None:
    kernel = Kernel(policy_named("inflight"))
    driver = Driver(kernel, clock=ManualClock())
    driver.feed(Woke(at=2.0))

    driver.feed(Woke(at=1.0))
    driver.submit(Instant(driver), 1.5)

    assert 2.0 == kernel.explain(ActionId("a")).since_s


def test_work_that_cannot_start_is_lost_and_the_reason_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = Driver(Kernel(policy_named("inflight")), clock=ManualClock())
    driver.join(Node(id=NodeId("n0"), capacity={CPU: 1000}))
    work = Instant(driver, raises=OSError("no more descriptors"))

    with caplog.at_level(logging.ERROR):
        driver.submit(work, at=0.0)

    lost = (Outcome.LOST, "could not be started: OSError('no more descriptors')")
    assert ["start"] * 3 + [lost] == work.seen
    assert 3 == len(caplog.records)


def test_the_driver_wakes_the_kernel_when_it_asked_for_it() -> None:
    clock = ManualClock()
    decider = Answers({ActionSubmitted: [WakeAt(5.0)], ActionExited: [WakeAt(3.0)]})
    driver = Driver(decider, clock=clock)

    driver.submit(Instant(driver), at=0.0)
    clock.advance(4.0)
    assert [] == [e for e in decider.asked if isinstance(e, Woke)]
    driver.exited(LEASE, Outcome.SUCCEEDED, clock.now())  # replaces the alarm; its time has passed
    clock.advance(0.0)
    clock.advance(10.0)

    assert [Woke(at=4.0)] == [e for e in decider.asked if isinstance(e, Woke)]


def test_a_timer_that_fires_early_does_not_wake_the_kernel_early() -> None:
    class Hasty(ManualClock):
        def call_at(self, when: float, callback: Callable[[], None]) -> ManualTimer:
            return super().call_at(min(when, self.now() + 3.0), callback)

    clock = Hasty()
    decider = Answers({ActionSubmitted: [WakeAt(5.0)]})
    driver = Driver(decider, clock=clock)

    driver.submit(Instant(driver), at=0.0)
    clock.advance(10.0)

    assert [Woke(at=5.0)] == [e for e in decider.asked if isinstance(e, Woke)]


def test_a_closed_driver_has_no_alarm_left() -> None:
    clock = ManualClock()
    driver = Driver(Answers({ActionSubmitted: [WakeAt(5.0)]}), clock=clock)
    driver.submit(Instant(driver), at=0.0)

    driver.close()

    assert clock.next_call is None


def test_when_deciding_breaks_everybody_who_waits_is_told_and_nothing_more_is_taken() -> None:
    class Breaks(Answers):
        def handle(self, event: Event) -> list[Command]:
            if isinstance(event, ActionExited):
                raise InvariantError("the books are wrong")
            return super().handle(event)

    driver = Driver(Breaks({}), clock=ManualClock())
    works = [Instant(driver, name="a"), Instant(driver, name="b")]
    for work in works:
        driver.submit(work, at=0.0)

    with pytest.raises(InvariantError, match="the books are wrong"):
        driver.exited(LEASE, Outcome.SUCCEEDED, 0.0)
    driver.exited(LEASE, Outcome.SUCCEEDED, 0.0)  # those on their way in may still arrive
    with pytest.raises(InvariantError, match="the books are wrong"):
        driver.submit(Instant(driver, name="c"), at=0.0)
    assert [[InvariantError], [InvariantError]] == [[type(e) for e in w.seen] for w in works]


def test_an_observer_that_raises_is_removed_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Bad(Observer):
        calls = 0

        def happened(self, event: Event, commands: Sequence[Command]) -> None:
            self.calls += 1
            raise ValueError("a bad observer")

    bad, good = Bad(), Seen()
    decider = Answers({ActionSubmitted: [Start(LEASE)], ActionExited: [Resolve(ActionId("a"), Outcome.SUCCEEDED)]})  # fmt: skip
    driver = Driver(decider, clock=ManualClock(), observers=[bad, good])

    with caplog.at_level(logging.ERROR):
        driver.submit(Instant(driver), at=0.0)

    assert 1 == bad.calls == len(caplog.records)
    assert decider.asked == good.events
    assert 2 == len(good.events)


def test_what_is_not_there_is_not_asked_about() -> None:
    driver = Driver(decider := Answers({}), clock=ManualClock())

    driver.cancel(ActionId("x"))
    driver.release(EnvironmentId("e"))

    assert [] == decider.asked
