"""The bare kernel with GPU services that are called more than they can answer, or less."""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from arl_tangram.core.commands import Command, EvictService, RestoreService, Start, WakeAt
from arl_tangram.core.events import (
    ActionExited,
    ActionSubmitted,
    Event,
    NodeJoined,
    ServiceDeclared,
    ServiceEvicted,
    ServiceRestored,
    Woke,
)
from arl_tangram.core.kernel import Kernel
from arl_tangram.core.model import (
    Action,
    ActionId,
    Degree,
    Node,
    NodeId,
    Outcome,
    Seconds,
    Service,
    TaskId,
)
from arl_tangram.core.speedup import Amdahl
from arl_tangram.policies.registry import DEFAULT, policy_named
from bench.measuring import Figures, spread
from bench.serving import Measure, Ready, serve

NODES, GPUS = 5, 8
SERVICES = 20
CURVE = Amdahl(serial=0.1)
AT_A_TIME = 250


class Load:
    """A kernel on virtual GPUs, kept at a steady number of waiting calls, or at a steady rate."""

    def __init__(self, *, waiting: int, rate: float | None = None, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._kernel = Kernel(policy_named(DEFAULT))
        self._heap: list[tuple[Seconds, int, Event]] = []
        self._number = 0
        self._now: Seconds = 0.0
        self._wake: Event | None = None
        self._rate = rate
        for i in range(NODES):
            node = Node(
                id=NodeId(f"g{i}"), capacity={"memory": 3_000_000}, gpus=GPUS, gpu_mib=80_000
            )
            self._handle(NodeJoined(at=0.0, node=node))
        degrees = tuple(
            Degree(
                gpus=k, speedup=CURVE.at(k), device_mib=57_000 // k, restore_s=0.3 + 60 / (25 * k)
            )
            for k in (1, 2, 4)
        )
        for i in range(SERVICES):
            service = Service(name=f"s{i}", degrees=degrees, host_mib=57_000)
            self._handle(ServiceDeclared(at=0.0, service=service))
        for _ in range(waiting):
            self._handle(self._call(0.0))
        if rate is not None:
            self._push(self._call(0.0))

    def run(self, events: int) -> list[float]:
        """Handle so many events as they come; the seconds each took."""
        took = []
        while len(took) < events:
            at, _, event = heapq.heappop(self._heap)
            if isinstance(event, Woke) and event is not self._wake:
                continue
            self._now = at
            took.append(self._handle(event))
            if isinstance(event, ActionExited) and self._rate is None:
                took.append(self._handle(self._call(at)))
            elif isinstance(event, ActionSubmitted) and self._rate is not None:
                self._push(self._call(at + self._random.expovariate(self._rate)))
        return took

    def _call(self, at: Seconds) -> ActionSubmitted:
        self._number += 1
        action = Action(
            id=ActionId(f"a{self._number}"),
            task=TaskId(f"t{self._number % 3}"),
            kind="score",
            service=f"s{self._random.randrange(SERVICES)}",
        )
        return ActionSubmitted(at=at, action=action)

    def _handle(self, event: Event) -> float:
        begin = time.perf_counter()
        commands = self._kernel.handle(event)
        took = time.perf_counter() - begin
        for command in commands:
            self._obey(command)
        return took

    def _obey(self, command: Command) -> None:
        match command:
            case Start(lease):
                run_s = self._random.lognormvariate(-1.1, 0.9) / CURVE.at(lease.grant.units)
                self._push(
                    ActionExited(
                        at=self._now + run_s,
                        action=lease.action,
                        attempt=lease.attempt,
                        outcome=Outcome.SUCCEEDED,
                    )
                )
            case RestoreService():
                restore_s = 0.3 + 60 / (25 * len(command.devices))
                self._push(ServiceRestored(at=self._now + restore_s, instance=command.instance))
            case EvictService():
                self._push(ServiceEvicted(at=self._now, instance=command.instance))
            case WakeAt(at):
                self._wake = Woke(at=at)
                self._push(self._wake)
            case _:
                pass

    def _push(self, event: Event) -> None:
        self._number += 1
        heapq.heappush(self._heap, (event.at, self._number, event))


@contextmanager
def services() -> Iterator[Ready]:
    """Twenty services on forty GPUs under two loads, each a kernel of its own."""
    loads = {"deep": Load(waiting=10_000), "steady": Load(waiting=0, rate=30.0)}
    for load in loads.values():
        load.run(8 * AT_A_TIME)
    yield Ready({name: _measure(load) for name, load in loads.items()}, {"policy": DEFAULT})


def _measure(load: Load) -> Measure:
    def measure(seconds: float, _: int) -> Figures:
        took: list[float] = []
        end = time.perf_counter() + seconds
        while not took or time.perf_counter() < end:
            took += load.run(AT_A_TIME)
        return {**spread(took), "mean_s": sum(took) / len(took)}

    return measure


if __name__ == "__main__":
    serve(services)
