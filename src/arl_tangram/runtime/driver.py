"""Drives a kernel through real time: it alone owns the kernel, everything else sends it events."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, assert_never

from ..core.commands import (
    CloseEnvironment,
    Command,
    EvictService,
    OpenEnvironment,
    Resize,
    Resolve,
    ResolveEnvironment,
    RestoreService,
    Start,
    Stop,
    WakeAt,
)
from ..core.events import (
    ActionExited,
    ActionSubmitted,
    CancelRequested,
    CloseRequested,
    EnvironmentRequested,
    Event,
    NodeJoined,
    NodeLost,
    Woke,
)
from ..core.model import (
    Action,
    ActionId,
    Environment,
    EnvironmentId,
    Explanation,
    Lease,
    Node,
    NodeId,
    Outcome,
    Seconds,
)
from ..errors import InternalError
from .clock import Clock, Timer
from .observers import Observer, Observers

log = logging.getLogger(__name__)


class Decider(Protocol):
    """The part of a kernel that a driver needs."""

    def handle(self, event: Event) -> list[Command]: ...

    def explain(self, action: ActionId) -> Explanation: ...


class Work(Protocol):
    """What stands behind an action: its payload, and whoever waits for it. No call may block."""

    @property
    def action(self) -> Action: ...

    def start(self, lease: Lease, at: Seconds) -> None:
        """Begin this attempt; its end is told to `Driver.exited`."""

    def resize(self, lease: Lease, at: Seconds) -> None:
        """The running attempt now holds this grant."""

    def stop(self, lease: Lease) -> None:
        """End this attempt; its end is told to `Driver.exited`."""

    def resolve(self, outcome: Outcome, reason: str, at: Seconds) -> None:
        """The action ended for good."""

    def fail(self, error: BaseException) -> None:
        """There will never be an outcome: the driver itself is broken."""


class Place(Protocol):
    """What stands behind an environment. No call may block."""

    @property
    def environment(self) -> Environment: ...

    @property
    def node(self) -> NodeId | None: ...

    def make(self, command: OpenEnvironment) -> None:
        """Open it; the answer is an `EnvironmentOpened` or `EnvironmentFailed`."""

    def unmake(self) -> None:
        """Close it; the answer is an `EnvironmentClosed`."""

    def resolve(self, outcome: Outcome, reason: str) -> None:
        """It is gone, without anybody having asked for that."""

    def abandon(self) -> None:
        """Its node was lost: if it was resolved, no command will ever close it."""

    def fail(self, error: BaseException) -> None:
        """The driver itself is broken."""


class Instances(Protocol):
    """What stands behind the instances of services. No call may block."""

    def restore(self, command: RestoreService) -> None:
        """Bring one up; the answer is a `ServiceRestored` or `InstanceFailed`."""

    def evict(self, command: EvictService) -> None:
        """Take one off its devices; the answer is a `ServiceEvicted` or `InstanceFailed`."""


class Driver:
    """Hands events to the kernel one at a time and carries its commands out in order.

    Args:
        kernel: decides; nobody else may call it.
        clock: the time of every event.
        observers: see every event with its commands.
        instances: needed as soon as a service is declared; it may be given later.
    """

    def __init__(
        self,
        kernel: Decider,
        *,
        clock: Clock,
        observers: Sequence[Observer] = (),
        instances: Instances | None = None,
    ) -> None:
        self.instances = instances
        self._kernel = kernel
        self._clock = clock
        self._inbox: deque[Event] = deque()
        self._told_at: Seconds = float("-inf")
        self._feeding = False
        self._works: dict[ActionId, Work] = {}
        self._places: dict[EnvironmentId, Place] = {}
        self._wake: Timer | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._broken: BaseException | None = None
        self.observers = Observers(observers)
        self.now = clock.now

    # -- what is asked of it ----------------------------------------------------------------

    def join(self, node: Node) -> None:
        """A machine is there to be used."""
        self.feed(NodeJoined(at=self.now(), node=node))

    def lose(self, node: NodeId) -> None:
        """A machine is gone with all that ran on it."""
        self.feed(NodeLost(at=self.now(), node=node))
        for place in [place for place in self._places.values() if place.node == node]:
            place.abandon()

    def submit(self, work: Work, at: Seconds) -> None:
        """Take an action; its outcome will be told to `work`."""
        self._works[work.action.id] = work
        self.feed(ActionSubmitted(at=at, action=work.action))

    def cancel(self, action: ActionId) -> None:
        """Let an action end as cancelled, whatever its phase; ignored if it has ended."""
        if action in self._works:
            self.feed(CancelRequested(at=self.now(), action=action))

    def exited(self, lease: Lease, outcome: Outcome, at: Seconds, reason: str = "") -> None:
        """An attempt ended and everything it held is free again."""
        if self._broken is not None:
            return  # everybody has been told already
        self.feed(
            ActionExited(
                at=at, action=lease.action, attempt=lease.attempt, outcome=outcome, reason=reason
            )
        )

    def request(self, place: Place) -> None:
        """Take an environment; it will be told when to open."""
        self._places[place.environment.id] = place
        self.feed(EnvironmentRequested(at=self.now(), environment=place.environment))

    def release(self, environment: EnvironmentId) -> None:
        """Let an environment end, with all in it; ignored if it is gone."""
        if environment in self._places:
            self.feed(CloseRequested(at=self.now(), environment=environment))

    def forget(self, environment: EnvironmentId) -> None:
        """No command about this environment is to be expected any more."""
        self._places.pop(environment, None)
        self._note_if_empty()

    def explain(self, action: ActionId) -> Explanation:
        """Where an action is and what it waits for; raises `UnknownAction`."""
        return self._kernel.explain(action)

    def work(self, action: ActionId) -> Work | None:
        """What stands behind an action that has not ended."""
        return self._works.get(action)

    async def end_all(self, cancelled: Callable[[], None]) -> None:
        """Cancel every action and let go of every environment; wait until all of them are gone.

        `cancelled` is called once all are told to end, and before any of them is waited for.
        """
        for action in tuple(reversed(self._works)):  # so that nothing starts in place of another
            self.cancel(action)
        for environment in tuple(self._places):
            self.release(environment)
        cancelled()
        if self._works or self._places:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied

    # -- the one door -----------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """Hand one event to the kernel and carry out what it says. It never yields midway.

        An event that comes from inside a command's effect waits until those before it are done. One
        that was made before another that is told already is taken to happen now: time goes on.
        """
        if self._broken is not None:
            raise self._broken
        if event.at < self._told_at:
            event = replace(event, at=self._told_at)
        self._told_at = event.at
        self._inbox.append(event)
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._inbox:
                event = self._inbox.popleft()
                commands = self._kernel.handle(event)
                self.observers.happened(event, commands)
                for command in commands:
                    self._carry_out(command, event.at)
        except BaseException as error:
            self._break(error)
            raise
        finally:
            self._feeding = False

    def close(self) -> None:
        """Stop the timer and the observers."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        self.observers.close()

    def _note_if_empty(self) -> None:
        if self._emptied is not None and not (self._works or self._places):
            self._emptied.set_result(None)
            self._emptied = None

    def _carry_out(self, command: Command, at: Seconds) -> None:
        match command:
            case Start(lease):
                self._start(lease, at)
            case Resize(lease):
                self._resize(lease, at)
            case Stop(lease):
                self._works[lease.action].stop(lease)
            case Resolve(action, outcome, reason):
                self._works.pop(action).resolve(outcome, reason, at)
                self._note_if_empty()
            case OpenEnvironment(environment):
                self._places[environment.id].make(command)
            case CloseEnvironment(environment_id):
                self._places[environment_id].unmake()
            case ResolveEnvironment(environment_id, outcome, reason):
                self._places[environment_id].resolve(outcome, reason)
            case RestoreService() if self.instances is not None:
                self.instances.restore(command)
            case EvictService() if self.instances is not None:
                self.instances.evict(command)
            case RestoreService() | EvictService():
                raise InternalError("a service was declared to a driver without instances")
            case WakeAt():
                self._set_alarm(command.at)
            case _:
                assert_never(command)

    def _start(self, lease: Lease, at: Seconds) -> None:
        try:
            self._works[lease.action].start(lease, at)
        except Exception as error:
            log.exception("could not start %s", lease.action, extra={"action": "start"})
            self.exited(lease, Outcome.LOST, self.now(), f"could not be started: {error!r}")

    def _resize(self, lease: Lease, at: Seconds) -> None:
        try:
            self._works[lease.action].resize(lease, at)
        except Exception:
            # It keeps running on what it had: slower or faster than planned, but right.
            log.exception("could not resize %s", lease.action, extra={"action": "resize"})

    def _set_alarm(self, at: Seconds) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake = self._clock.call_at(at, lambda: self._ring(at))

    def _ring(self, at: Seconds) -> None:
        now = self.now()
        if now < at:  # a timer may fire a hair early
            self._set_alarm(at)
            return
        self._wake = None
        self.feed(Woke(at=now))

    def _break(self, error: BaseException) -> None:
        """Nothing can be decided any more: tell everybody who waits, and refuse what comes."""
        self._broken = error
        self._inbox.clear()
        works, places = list(self._works.values()), list(self._places.values())
        self._works.clear()
        self._places.clear()
        for work in works:
            work.fail(error)
        for place in places:
            place.fail(error)
        self._note_if_empty()
