"""The bare kernel under the default policy, kept busy at several depths of queue."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from arl_tangram.core.commands import Command, OpenEnvironment, Resize, Start
from arl_tangram.core.events import (
    ActionExited,
    ActionSubmitted,
    EnvironmentOpened,
    EnvironmentRequested,
    Event,
    NodeJoined,
)
from arl_tangram.core.kernel import Kernel
from arl_tangram.core.model import (
    CPU,
    MILLI,
    Action,
    ActionId,
    Elastic,
    Environment,
    EnvironmentId,
    Lease,
    Node,
    NodeId,
    Outcome,
)
from arl_tangram.core.speedup import Roofline
from arl_tangram.policies.registry import DEFAULT, policy_named
from bench.measuring import Figures, spread
from bench.serving import Measure, Ready, serve

NODES = 15
CORES = 256
AT_A_TIME = 500
SUITES = tuple(
    Elastic(units=tuple(range(1, 17)), speedup=Roofline(cap=c)) for c in (2.4, 9.7, 17.0)
)


class Load:
    """A kernel kept at a steady number of live actions: one exits, the next is submitted."""

    def __init__(self, *, live: int, elastic_share: float, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._kernel = Kernel(policy_named(DEFAULT), opening_limit=10_000)
        self._running: dict[ActionId, Lease] = {}
        self._order: deque[ActionId] = deque()
        self._elastic_share = elastic_share
        self._now = 0.0
        self._number = 0
        self.resizing_events = 0
        for i in range(NODES):
            node = Node(id=NodeId(f"n{i}"), capacity={CPU: CORES * MILLI, "memory": 2_400_000})
            self._handle(NodeJoined(at=self._now, node=node))
        self._environments = [EnvironmentId(f"e{i}") for i in range(NODES * 85)]
        for name in self._environments:
            environment = Environment(id=name, needs={"memory": 256})
            self._handle(EnvironmentRequested(at=self._now, environment=environment))
        for _ in range(live):
            self._submit()

    def run(self, events: int) -> list[float]:
        """Handle so many events in the steady state; the seconds each took."""
        return [self._exit() if i % 2 else self._submit() for i in range(events)]

    def _submit(self) -> float:
        self._number += 1
        elastic = self._random.random() < self._elastic_share
        action = Action(
            id=ActionId(f"a{self._number}"),
            kind="reward" if elastic else "bash",
            environment=self._environments[self._random.randrange(len(self._environments))],
            needs={} if elastic else {CPU: MILLI},
            elastic=self._random.choice(SUITES) if elastic else None,
        )
        return self._handle(ActionSubmitted(at=self._tick(), action=action))

    def _exit(self) -> float:
        lease = self._running.pop(self._order.popleft())
        return self._handle(
            ActionExited(
                at=self._tick(),
                action=lease.action,
                attempt=lease.attempt,
                outcome=Outcome.SUCCEEDED,
            )
        )

    def _tick(self) -> float:
        self._now += self._random.expovariate(1_000.0)
        return self._now

    def _handle(self, event: Event) -> float:
        begin = time.perf_counter()
        commands = self._kernel.handle(event)
        took = time.perf_counter() - begin
        self._obey(commands)
        return took

    def _obey(self, commands: list[Command]) -> None:
        self.resizing_events += any(isinstance(command, Resize) for command in commands)
        for command in commands:
            match command:
                case Start(lease):
                    self._running[lease.action] = lease
                    self._order.append(lease.action)
                case OpenEnvironment(environment, _, attempt):
                    opened = EnvironmentOpened(
                        at=self._now, environment=environment.id, attempt=attempt
                    )
                    self._handle(opened)
                case _:
                    pass


@contextmanager
def kernel() -> Iterator[Ready]:
    """Fifteen nodes of 256 cores under three loads, each a kernel of its own."""
    loads = {
        "deep": Load(live=NODES * CORES + 10_000, elastic_share=0.05),
        "shallow": Load(live=NODES * CORES + 100, elastic_share=0.05),
        "spare": Load(live=NODES * 64, elastic_share=1.0),
    }
    for load in loads.values():
        load.run(AT_A_TIME)
    yield Ready({name: _measure(load) for name, load in loads.items()}, {"policy": DEFAULT})


def _measure(load: Load) -> Measure:
    def measure(seconds: float, _: int) -> Figures:
        load.resizing_events = 0
        took: list[float] = []
        end = time.perf_counter() + seconds
        while not took or time.perf_counter() < end:
            took += load.run(AT_A_TIME)
        figures = spread(took)
        return {
            **figures,
            "mean_s": sum(took) / len(took),
            "resizing_share": load.resizing_events / len(took),
        }

    return measure


if __name__ == "__main__":
    serve(kernel)
