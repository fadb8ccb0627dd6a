"""A plan is checked whole before any of it is granted; a bad one changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arl_tangram.core.commands import Resize, Start
from arl_tangram.core.entries import Entry
from arl_tangram.core.events import ActionSubmitted
from arl_tangram.core.model import ActionId
from arl_tangram.core.phases import Phase
from arl_tangram.core.policy import Plan, View
from arl_tangram.errors import PolicyError
from arl_tangram.policies.inflight import Inflight
from arl_tangram.testing.builders import action, environment, node
from arl_tangram.testing.watched import Watched, resized, started


class Scripted:
    """Starts whoever fits on the least; once told to, proposes what it was told to, once."""

    def __init__(self) -> None:
        self.next: Callable[[View, list[Entry]], Plan] | None = None

    def decide(self, view: View) -> Plan:
        if self.next is not None:
            propose, self.next = self.next, None
            return propose(view, list(view.waiting))
        plan = Plan()
        for entry in view.waiting:
            if view.free.take(entry.least):
                elastic = entry.action.elastic
                plan.starts.append((entry, elastic.least if elastic else 0))
        return plan


def by_name(entries: list[Entry], name: str) -> Entry:
    return next(entry for entry in entries if entry.id == name)


BAD: dict[str, tuple[Callable[[View, list[Entry]], Plan], str]] = {
    "the second start does not fit": (
        lambda view, waiting: Plan(
            starts=[(by_name(waiting, "w1"), 0), (by_name(waiting, "w2"), 0)]
        ),
        "w2 on 0 units does not fit on n0",
    ),
    "one is started twice": (
        lambda view, waiting: Plan(starts=[(by_name(waiting, "w1"), 0)] * 2),
        "cannot start w1 on n0",
    ),
    "one that runs is started": (
        lambda view, waiting: Plan(starts=[(view.running[ActionId("elastic")], 1)]),
        "cannot start elastic on n0",
    ),
    "a rigid one is given units": (
        lambda view, waiting: Plan(starts=[(by_name(waiting, "w1"), 1)]),
        "w1 may not hold 1 units",
    ),
    "an elastic one is given none": (
        lambda view, waiting: Plan(starts=[(by_name(waiting, "wide"), 0)]),
        "wide may not hold 0 units",
    ),
    "an amount is not on the list": (
        lambda view, waiting: Plan(resizes=[(view.running[ActionId("elastic")], 3)]),
        "elastic may not hold 3 units",
    ),
    "a rigid one is resized": (
        lambda view, waiting: Plan(resizes=[(view.running[ActionId("rigid")], 2)]),
        "cannot resize rigid on n0",
    ),
    "one that must keep its units is resized": (
        lambda view, waiting: Plan(resizes=[(view.running[ActionId("fixed")], 2)]),
        "cannot resize fixed on n0",
    ),
    "one is resized twice": (
        lambda view, waiting: Plan(resizes=[(view.running[ActionId("elastic")], 2)] * 2),
        "cannot resize elastic on n0",
    ),
    "growth does not fit": (
        lambda view, waiting: Plan(resizes=[(view.running[ActionId("elastic")], 4)]),
        "elastic cannot grow to 4 units on n0",
    ),
    "growth and a start do not fit together": (
        lambda view, waiting: Plan(
            starts=[(by_name(waiting, "w1"), 0)],
            resizes=[(view.running[ActionId("elastic")], 2)],
        ),
        "elastic cannot grow to 2 units on n0",
    ),
}


def crowded() -> tuple[Watched, Scripted]:
    """Four cores; one elastic, one rigid and one unresizable action run on one each."""
    policy = Scripted()
    watched = Watched(node(cpu=4), policy=policy)
    watched.submit(action("elastic", units=(1, 2, 4)))
    watched.submit(action("rigid", cpu=1))
    watched.submit(action("fixed", units=(1, 2), resizable=False))
    for name in ("w1", "w2"):
        policy.next = lambda view, waiting: Plan()
        watched.submit(action(name, cpu=1))
    policy.next = lambda view, waiting: Plan()
    watched.submit(action("wide", units=(1, 2)))
    return watched, policy


@pytest.mark.parametrize("name", list(BAD))
def test_a_bad_plan_grants_nothing_when(name: str) -> None:
    propose, message = BAD[name]
    watched, policy = crowded()
    cluster = watched.kernel._cluster
    leases = dict(watched.ledger.leases)
    policy.next = propose

    with pytest.raises(PolicyError, match=f"^{message}$"):
        watched.kernel.handle(ActionSubmitted(at=0.0, action=action("last", cpu=1)))

    assert [] == cluster.out
    assert leases == {e.id: e.lease for e in cluster.nodes["n0"].running.values()}  # type: ignore[index]
    assert [Phase.QUEUED] * 3 == [watched.phase(name) for name in ("w1", "w2", "wide")]
    watched.kernel.check()


def test_an_action_cannot_be_started_on_another_node_than_its_own() -> None:
    policy = Scripted()
    watched = Watched(node("n0", cpu=1), policy=policy)
    watched.open(environment("e"))
    watched.submit(action("a", cpu=1, environment="e"))
    watched.submit(action("b", cpu=1, environment="e"))
    watched.join(node("n1", cpu=4))
    foreign = watched.kernel._cluster.entries[ActionId("b")]
    policy.next = lambda view, waiting: Plan(starts=[(foreign, 0)])

    with pytest.raises(PolicyError, match=r"^b must run on n0, not on n1$"):
        watched.submit(action("c", cpu=1))


def test_units_are_taken_away_before_they_are_given() -> None:
    watched = Watched(node(cpu=4), policy="inflight")
    watched.submit(action("a", units=(1, 2, 3, 4)))
    assert 4 == watched.units("a")

    commands = watched.submit(action("b", units=(1, 2, 3, 4)))

    assert [Resize, Start] == [type(command) for command in commands]
    assert 4 == watched.units("a") + watched.units("b")


def test_a_resize_to_what_it_has_is_no_resize() -> None:
    watched, policy = crowded()
    policy.next = lambda view, waiting: Plan(resizes=[(view.running[ActionId("elastic")], 1)])
    before = watched.lease("elastic")

    commands = watched.submit(action("last", cpu=1))

    assert {} == resized(commands)
    assert before == watched.lease("elastic")


def test_a_policy_may_start_nothing() -> None:
    watched, policy = crowded()
    policy.next = lambda view, waiting: Plan()

    assert [] == started(watched.submit(action("last", cpu=1)))
    assert ["w1"] == started(watched.exit("rigid"))[:1]


def test_a_policy_is_not_asked_about_a_node_with_nothing_to_decide() -> None:
    asked: list[str] = []

    class Asked(Inflight):
        def decide(self, view: View) -> Plan:
            asked.append(view.node)
            return super().decide(view)

    watched = Watched(node("n0"), policy=Asked())
    assert [] == asked
    watched.submit(action("a", cpu=1))
    assert ["n0"] == asked
    watched.exit("a")
    assert ["n0"] == asked
