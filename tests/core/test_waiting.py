"""Who is served next: priority, a fair share, arrival, and nobody for ever last."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest

from arl_tangram.core.events import QuotaDeclared
from arl_tangram.core.model import Action, ActionId, Bundle, Outcome, Quota
from arl_tangram.core.phases import EnvironmentPhase, Phase
from arl_tangram.testing.builders import action, bundle, environment, node
from arl_tangram.testing.watched import Watched, started

POLICIES = ["inflight", "tangram", "fixed:1", "fixed:2", "equi", "hesrpt", "static"]
every_policy = pytest.mark.parametrize("policy", POLICIES)


class Stream:
    """Keeps a cluster full of small actions, each of which runs for so long."""

    def __init__(
        self,
        watched: Watched,
        small: Callable[[str], Action],
        *,
        run_s: float,
        arrivals: int = 2,
    ) -> None:
        self.watched = watched
        self.small = small
        self.run_s = run_s
        self.arrivals = arrivals
        self.ends: dict[str, float] = {}
        self.names = itertools.count()

    def tick(self) -> None:
        """A quarter of a second, in which some arrive and those end whose time has come."""
        for _ in range(self.arrivals):
            self.watched.submit(self.small(f"s{next(self.names)}"))
        self._look()
        self.watched.wait(0.25)
        for name, end in list(self.ends.items()):
            if end <= self.watched.now:
                del self.ends[name]
                self.watched.exit(name)
                self._look()

    def _look(self) -> None:
        for name in self.watched.running():
            if name.startswith("s"):
                self.ends.setdefault(name, self.watched.now + self.run_s)

    def until_starts(self, name: str) -> float:
        """How long an action waits once the first that came after it has started."""
        later = f"s{next(self.names)}"
        overtaken_at = math.inf
        while self.watched.phase(name) is Phase.QUEUED:
            assert self.watched.now < 60.0, f"{name} is starved"
            self.tick()
            if any(int(n[1:]) > int(later[1:]) for n in self.ends):
                overtaken_at = min(overtaken_at, self.watched.now)
        return max(self.watched.now - overtaken_at, 0.0)


@every_policy
def test_a_big_action_behind_small_ones_starts_within_patience_and_their_run_time(
    policy: str,
) -> None:
    watched = Watched(node(cpu=4), policy=policy, patience_s=2.0)
    stream = Stream(watched, lambda name: action(name, cpu=1), run_s=1.5)
    for _ in range(8):
        stream.tick()
    watched.submit(action("big", cpu=4))

    assert stream.until_starts("big") <= 2.0 + 1.5


@every_policy
def test_half_a_core_behind_quarters_is_served_in_the_same_time(policy: str) -> None:
    watched = Watched(node(cpu=1), policy=policy, patience_s=2.0)
    stream = Stream(watched, lambda name: action(name, cpu=0.25), run_s=1.5)
    for _ in range(8):
        stream.tick()
    watched.submit(action("half", cpu=0.5))

    assert stream.until_starts("half") <= 2.0 + 1.5


@every_policy
@pytest.mark.parametrize(("cpu", "big"), [(1, 1), (1.5, 1), (2.5, 1.5), (4, 2)])
def test_whole_cores_behind_quarters_are_served_in_the_same_time(
    policy: str, cpu: float, big: float
) -> None:
    watched = Watched(node(cpu=cpu), policy=policy, patience_s=2.0, thorough=False)
    stream = Stream(watched, lambda name: action(name, cpu=0.25), run_s=1.5, arrivals=8)
    for _ in range(8):
        stream.tick()
    watched.submit(action("big", cpu=big))

    assert stream.until_starts("big") <= 2.0 + 2 * 1.5


@every_policy
def test_a_big_action_of_one_task_is_not_starved_by_small_ones_of_another(policy: str) -> None:
    watched = Watched(node(cpu=8), policy=policy, patience_s=2.0)
    watched.submit(action("long", cpu=3, task="a"))
    stream = Stream(watched, lambda name: action(name, cpu=1, task="b"), run_s=1.5)
    for _ in range(8):
        stream.tick()
    watched.submit(action("big", cpu=5, task="a"))

    assert stream.until_starts("big") <= 3 * (2.0 + 1.5)


@every_policy
def test_a_big_action_that_may_run_anywhere_is_not_starved(policy: str) -> None:
    watched = Watched(node("n0", cpu=4), node("n1", cpu=4), policy=policy, patience_s=2.0)
    stream = Stream(watched, lambda name: action(name, cpu=1), run_s=1.5)
    for _ in range(8):
        stream.tick()
    watched.submit(action("big", cpu=4))

    assert stream.until_starts("big") <= 2.0 + 1.5


@pytest.mark.parametrize("policy", ["inflight", "equi", "hesrpt"])
def test_a_big_action_behind_elastic_ones_is_not_starved(policy: str) -> None:
    watched = Watched(node(cpu=8), policy=policy, patience_s=2.0)
    stream = Stream(watched, lambda name: action(name, units=(1, 2, 3, 4)), run_s=1.5)
    for _ in range(8):
        stream.tick()
    watched.submit(action("big", cpu=8))

    assert stream.until_starts("big") <= 2.0 + 1.5


def test_an_action_that_may_run_anywhere_does_not_wait_where_environments_hold_the_memory() -> None:
    watched = Watched(node("n0", memory=1000), node("n1", memory=1000), patience_s=1.0)
    watched.request(environment("e", memory=900))
    watched.opened("e")
    watched.submit(action("b", memory=900))
    watched.submit(action("big", memory=500))
    watched.submit(action("s1", memory=50))
    watched.wait(2.0)
    watched.submit(action("s2", memory=50))
    watched.exit("s1")

    assert ["big"] == started(watched.exit("b"))


def test_an_action_waits_for_its_turn_where_it_was_passed_over_not_where_nobody_looked() -> None:
    """While a node keeps its cores for a big action, others go where there is room."""
    watched = Watched(node("n0", cpu=8), node("n1", cpu=2), patience_s=1.0)
    watched.open(environment("e"))
    watched.submit(action("long", cpu=4, environment="e"))
    watched.submit(action("big", cpu=8, environment="e"))
    watched.submit(action("s0", cpu=1, environment="e"))
    watched.wait(1.0)
    watched.exit("s0")

    watched.submit(action("free", cpu=1))

    assert "n1" == watched.lease("free").node


def test_a_stream_of_environments_does_not_starve_an_action_that_needs_their_memory() -> None:
    watched = Watched(node(memory=100), patience_s=1.0)
    for i in range(4):
        watched.open(environment(f"e{i}", memory=25))
    watched.submit(action("big", memory=50))
    watched.submit(action("little", environment="e0"))
    for i in range(4, 40):
        watched.wait(0.5)
        watched.submit(action(f"little{i}"))
        watched.request(environment(f"e{i}", memory=25))
        oldest = next(n for n, p in watched.ledger.places.items() if p.state in {"open", "opening"})
        watched.close(oldest)
        watched.closed(oldest)

    assert Phase.RUNNING is watched.phase("big")


def test_a_task_with_a_thousand_waiting_does_not_hold_back_one_with_ten() -> None:
    watched = Watched(node(cpu=4), thorough=False)
    for i in range(1000):
        watched.submit(action(f"m{i}", cpu=1, task="many"))
    for i in range(10):
        watched.submit(action(f"f{i}", cpu=1, task="few"))

    order = []
    for _ in range(24):
        watched.exit(watched.running()[0])
        order.append(watched.running()[-1])

    few = [i for i, name in enumerate(order) if name.startswith("f")]
    assert 10 == len(few)
    assert few[-1] <= 20  # every other core is theirs, from the start
    assert few[0] == 0


def test_a_fair_share_is_kept_when_actions_last_longer_than_patience() -> None:
    watched = Watched(node(cpu=4), patience_s=2.0)
    for i in range(100):
        watched.submit(action(f"m{i}", cpu=1, task="many"))
    for i in range(20):
        watched.submit(action(f"f{i}", cpu=1, task="few"))

    order = []
    for _ in range(36):
        watched.wait(10.0)
        watched.exit(watched.running()[0])
        order.append(watched.running()[-1])

    assert 20 - 2 <= sum(name.startswith("f") for name in order)


@every_policy
def test_a_higher_priority_goes_first(policy: str) -> None:
    watched = Watched(node(cpu=1), policy=policy)
    watched.submit(action("first", cpu=1))
    watched.submit(action("low", cpu=1, priority=-1))
    watched.submit(action("middle", cpu=1))
    watched.submit(action("high", cpu=1, priority=1))

    order = [name for done in ("first", "high", "middle") for name in started(watched.exit(done))]

    assert ["high", "middle", "low"] == order


def test_equal_actions_are_served_in_the_order_of_arrival_whichever_queue_they_are_in() -> None:
    watched = Watched(node(cpu=1))
    watched.open(environment("e"))
    watched.submit(action("first", cpu=1))
    names = [f"a{i}" for i in range(6)]
    for i, name in enumerate(names):
        watched.submit(action(name, cpu=1, environment="e" if i % 2 else None))

    order = []
    for _ in names:
        order += started(watched.exit(watched.running()[0]))

    assert names == order


def test_a_small_action_goes_past_a_big_one_that_does_not_fit_yet() -> None:
    watched = Watched(node(cpu=4))
    watched.submit(action("long", cpu=2))
    watched.submit(action("big", cpu=4))

    assert ["small"] == started(watched.submit(action("small", cpu=1)))


@pytest.mark.parametrize("place", ["holder", None])
def test_cancelling_who_was_in_the_way_lets_the_next_one_go(place: str | None) -> None:
    watched = Watched(node(cpu=4, memory=100), node("n1", cpu=0, memory=100), policy="tangram")
    watched.open(environment("holder", memory=80))
    watched.submit(action("long", cpu=3))
    watched.submit(action("big", cpu=2, environment=place))
    watched.submit(action("next", cpu=1, environment=place))
    assert Phase.QUEUED is watched.phase("next")

    assert ["next"] == started(watched.cancel("big"))


def test_closing_an_environment_lets_those_go_who_waited_behind_its_actions() -> None:
    watched = Watched(node(cpu=4, memory=100), policy="tangram")
    watched.open(environment("holder", memory=80))
    watched.open(environment("e"))
    watched.submit(action("big", memory=50, environment="e"))
    watched.submit(action("next", environment="holder"))
    assert Phase.QUEUED is watched.phase("next")

    assert ["next"] == started(watched.close("e"))


def test_nothing_is_refused_or_forgotten_when_far_more_waits_than_is_looked_past() -> None:
    watched = Watched(node(cpu=2))
    watched.submit(action("long", cpu=1))
    for i in range(40):
        watched.submit(action(f"big{i}", cpu=2))
    watched.submit(action("small", cpu=1))
    watched.drain()

    assert [] == watched.ledger.unresolved()
    assert Outcome.SUCCEEDED is watched.outcome("small")
    assert EnvironmentPhase.CLOSED is watched.kernel.phase_of_environment("none")  # type: ignore[arg-type]


@pytest.mark.parametrize("needs", [{}, {"api:key": 1}])
def test_an_action_that_environments_left_no_room_for_goes_where_room_comes_first(
    needs: Bundle,
) -> None:
    watched = Watched(node("n0", gpu=4), patience_s=1.0)
    watched.feed(QuotaDeclared(at=watched.now, quota=Quota(name="key", concurrency=4)))
    watched.request(environment("long", gpu=1))
    watched.submit(Action(id=ActionId("big"), needs={**bundle(gpu=4), **needs}))
    watched.wait(1.0)
    watched.request(environment("another"))
    assert "n0" == watched.kernel.explain(ActionId("big")).node

    assert ["big"] == started(watched.join(node("n1", gpu=4)))


def test_all_that_wait_where_environments_left_no_room_go_elsewhere() -> None:
    watched = Watched(node("n0", gpu=4), patience_s=1.0)
    watched.request(environment("long", gpu=1))
    for name in ("first", "second"):
        watched.submit(action(name, gpu=4))
        watched.wait(1.0)
        watched.request(environment(f"after-{name}"))

    watched.join(node("n1", gpu=8))

    assert {"first", "second"} == set(watched.ledger.leases)


def test_two_big_actions_that_were_both_passed_over_do_not_wait_one_patience_after_the_other() -> (
    None
):
    watched = Watched(node(cpu=4), patience_s=2.0)
    stream = Stream(watched, lambda name: action(name, cpu=1), run_s=1.0)
    for _ in range(8):
        stream.tick()
    watched.submit(action("big0", cpu=3))
    watched.submit(action("big1", cpu=4))
    stream.until_starts("big0")
    watched.exit("big0")
    ended_at = watched.now
    while watched.phase("big1") is Phase.QUEUED:
        stream.tick()

    assert watched.now - ended_at <= 1.0  # the last of the small ones ends, and no more start
