"""The default policy: units follow the load, also those of actions that already run."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl_tangram.core.estimates import Oracle
from arl_tangram.core.model import Action, ActionId, Outcome
from arl_tangram.core.speedup import Amdahl, PowerLaw, Roofline, Speedup, Table
from arl_tangram.policies.inflight import Inflight
from arl_tangram.testing.builders import action, environment, node
from arl_tangram.testing.watched import Watched, resized, started

concave = st.one_of(
    st.builds(Roofline, cap=st.sampled_from([1.0, 2.0, 2.5, 4.0, 8.0])),
    st.builds(Amdahl, serial=st.sampled_from([0.0, 0.1, 0.5, 1.0])),
    st.builds(PowerLaw, p=st.sampled_from([0.3, 0.7, 1.0])),
)


def least_total(rows: list[tuple[float, Speedup, int]], cores: int) -> float:
    """The least sum of remaining times over every way to share the cores, one at least each."""
    choices = itertools.product(*(range(1, most + 1) for _, _, most in rows))
    return min(
        sum(work / curve.at(k) for (work, curve, _), k in zip(rows, choice, strict=True))
        for choice in choices
        if sum(choice) <= cores
    )


@given(
    rows=st.lists(
        st.tuples(st.floats(0.5, 60.0), concave, st.integers(1, 5)), min_size=1, max_size=4
    ),
    more=st.integers(0, 6),
    gaps=st.lists(st.floats(0.0, 3.0), min_size=4, max_size=4),
)
def test_with_concave_curves_the_shares_have_the_least_sum_of_remaining_times(
    rows: list[tuple[float, Speedup, int]], more: int, gaps: list[float]
) -> None:
    """Whatever was shared out before: at each arrival and each end, all is shared out anew."""
    cores = len(rows) + more
    works = {ActionId(f"a{i}"): work for i, (work, _, _) in enumerate(rows)}
    watched = Watched(
        node(cpu=cores),
        policy=Inflight(least_saving_s=0.0, margin=1.0, most_moves=100),
        estimates=Oracle(works),
    )
    actions = {}
    for i, ((_, curve, most), gap) in enumerate(zip(rows, gaps, strict=False)):
        watched.wait(gap)
        actions[f"a{i}"] = action(f"a{i}", units=range(1, most + 1), speedup=curve)
        watched.submit(actions[f"a{i}"])
        check_least_total(watched, actions, cores)
    while watched.running():
        watched.wait(0.5)
        watched.exit(watched.running()[0])
        check_least_total(watched, actions, cores)


def check_least_total(watched: Watched, actions: dict[str, Action], cores: int) -> None:
    entries = watched.kernel._cluster.entries
    rows, total = [], 0.0
    for name in watched.running():
        entry, elastic = entries[ActionId(name)], actions[name].elastic
        assert elastic is not None
        assert elastic.speedup is not None
        left = watched.kernel.estimates.remaining(entry.action, entry.done_by(watched.now))
        rows.append((left, elastic.speedup, elastic.most))
        total += left / elastic.speedup.at(entry.units)
    if rows:
        assert total <= least_total(rows, cores) * (1 + 1e-6) + 1e-9


def test_a_newcomer_takes_units_from_those_above_their_least() -> None:
    watched = Watched(node(cpu=4))
    watched.submit(action("wide", units=(1, 2, 3, 4)))
    assert 4 == watched.units("wide")

    commands = watched.submit(action("rigid", cpu=2))

    assert {"wide": 2} == resized(commands)
    assert ["rigid"] == started(commands)


def test_a_newcomer_never_takes_what_somebody_holds_as_their_least() -> None:
    watched = Watched(node(cpu=4))
    watched.submit(action("wide", units=(2, 3, 4)))

    assert [] == watched.submit(action("rigid", cpu=3))
    assert 4 == watched.units("wide")


def test_what_cannot_be_resized_keeps_what_it_has() -> None:
    watched = Watched(node(cpu=4))
    watched.submit(action("still", units=(1, 2, 4), resizable=False))
    assert 4 == watched.units("still")

    assert [] == watched.submit(action("rigid", cpu=1))
    assert 4 == watched.units("still")


def test_units_that_come_free_go_to_who_runs() -> None:
    watched = Watched(node(cpu=4))
    watched.submit(action("a", units=(1, 2, 3, 4)))
    watched.submit(action("b", units=(1, 2, 3, 4)))

    assert {"b": 4} == resized(watched.exit("a"))


def test_the_longest_gets_most() -> None:
    works = {ActionId("long"): 90.0, ActionId("short"): 10.0}
    watched = Watched(node(cpu=8), estimates=Oracle(works))
    wide = tuple(range(1, 9))
    watched.submit(action("short", units=wide, speedup=Amdahl(serial=0.0)))
    watched.submit(action("long", units=wide, speedup=Amdahl(serial=0.0)))

    assert (2, 6) == (watched.units("short"), watched.units("long"))


@pytest.mark.parametrize(("least_saving_s", "units"), [(0.0, 4), (0.2, 2), (5.0, 1)])
def test_a_unit_that_saves_too_little_is_not_given(least_saving_s: float, units: int) -> None:
    policy = Inflight(least_saving_s=least_saving_s)
    watched = Watched(node(cpu=4), policy=policy, estimates=Oracle({ActionId("a"): 1.0}))

    watched.submit(action("a", units=(1, 2, 3, 4), speedup=Amdahl(serial=0.0)))

    assert units == watched.units("a")


def test_a_unit_must_save_more_than_it_costs_to_start() -> None:
    quick, slow = {ActionId("a"): 2.0}, {ActionId("a"): 200.0}
    curve = Roofline(cap=4.0, startup_s=1.5)
    for works, units in ((quick, 1), (slow, 4)):
        watched = Watched(node(cpu=4), estimates=Oracle(works))
        watched.submit(action("a", units=(1, 2, 3, 4), speedup=curve))

        assert units == watched.units("a")


@pytest.mark.parametrize(("margin", "moved"), [(1.0, True), (1.5, False), (100.0, False)])
def test_a_unit_moves_only_to_where_it_saves_so_many_times_more(margin: float, moved: bool) -> None:
    """After a while the one that started first has less left, and the other could use a unit more."""
    works = {ActionId("first"): 10.0, ActionId("second"): 10.0, ActionId("end"): 1.0}
    policy = Inflight(margin=margin, least_saving_s=0.0)
    watched = Watched(node(cpu=8), policy=policy, estimates=Oracle(works))
    wide = tuple(range(1, 9))
    watched.submit(action("first", units=wide, speedup=PowerLaw(p=0.9)))
    watched.wait(0.5)
    watched.submit(action("second", units=wide, speedup=PowerLaw(p=0.9)))
    before = (watched.units("first"), watched.units("second"))
    watched.wait(0.7)

    watched.open(environment("e"))
    watched.submit(action("end", environment="e"))

    assert moved == (before != (watched.units("first"), watched.units("second")))


def test_only_so_many_units_move_at_one_event() -> None:
    works = {ActionId("old"): 1.0, ActionId("new"): 1000.0}
    policy = Inflight(most_moves=2, least_saving_s=0.0)
    watched = Watched(node(cpu=16), policy=policy, estimates=Oracle(works))
    wide = tuple(range(1, 17))
    watched.submit(action("old", units=wide, speedup=Amdahl(serial=0.0)))
    assert 16 == watched.units("old")

    watched.submit(action("new", units=wide, speedup=Amdahl(serial=0.0)))

    assert 3 == watched.units("new")  # the one it is entitled to, and two more


def test_a_step_wider_than_what_is_left_is_left_to_others() -> None:
    works = {ActionId("steep"): 100.0, ActionId("gentle"): 10.0}
    watched = Watched(node(cpu=4), estimates=Oracle(works))
    watched.request(environment("e"))
    watched.submit(action("steep", units=(1, 4), speedup=Table.of({4: 4.0}), environment="e"))
    watched.submit(action("gentle", units=(1, 2, 3), speedup=Amdahl(serial=0.0), environment="e"))

    watched.opened("e")

    assert (1, 3) == (watched.units("steep"), watched.units("gentle"))


def test_an_exchange_that_would_not_fit_is_not_made() -> None:
    works = {ActionId("gentle"): 1.0, ActionId("steep"): 1000.0}
    watched = Watched(node(cpu=4), estimates=Oracle(works))
    watched.submit(action("gentle", units=(1, 2, 3, 4), speedup=Amdahl(serial=0.0)))

    watched.submit(action("steep", units=(1, 4), speedup=Table.of({4: 4.0})))

    assert (3, 1) == (watched.units("gentle"), watched.units("steep"))


def test_each_resource_is_shared_out_by_itself() -> None:
    watched = Watched(node(cpu=4, gpu=2))
    watched.submit(action("c", units=(1, 2, 3, 4)))
    watched.submit(action("g", units=(1, 2), resource="gpu"))

    assert (4, 2) == (watched.units("c"), watched.units("g"))
    commands = watched.submit(action("more", gpu=1))
    assert {} == resized(commands)  # rigid actions may take cores from others, not GPUs
    commands = watched.submit(action("wide", units=(1, 2), resource="gpu"))
    assert {"g": 1} == resized(commands)


def test_an_estimate_learned_meanwhile_moves_units() -> None:
    """What runs longer than its kind is expected to is believed to have more left."""
    watched = Watched(node(cpu=2))
    for i in range(30):
        watched.submit(action(f"past{i}", cpu=1, kind="quick"))
        watched.wait(0.05)
        watched.exit(f"past{i}")
    watched.submit(action("a", units=(1, 2), kind="quick", speedup=Amdahl(serial=0.0)))
    watched.submit(action("b", units=(1, 2), kind="unknown", speedup=Amdahl(serial=0.0)))
    watched.exit("a", Outcome.SUCCEEDED)

    assert 2 == watched.units("b")
