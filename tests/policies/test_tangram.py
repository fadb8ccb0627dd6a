"""The paper's policy: its allotment table, its estimate of the tail, and what it decides."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl_tangram.core.curve import curve_of
from arl_tangram.core.entries import Entry
from arl_tangram.core.estimates import Oracle
from arl_tangram.core.model import ActionId
from arl_tangram.core.phases import Phase
from arl_tangram.core.speedup import Amdahl, Roofline, Table
from arl_tangram.policies.tangram import Allotment, Tangram, allot, tail
from arl_tangram.testing import strategies
from arl_tangram.testing.builders import action, environment, node
from arl_tangram.testing.watched import Watched, started

option_lists = st.lists(
    st.lists(
        st.tuples(st.integers(0, 4), st.floats(0.1, 50.0)),
        min_size=1,
        max_size=4,
        unique_by=lambda option: option[0],
    ),
    max_size=4,
).map(lambda rows: [[(cost, cost, seconds) for cost, seconds in row] for row in rows])
"""For each action, the amounts it may hold, what they cost and how long it then takes."""


def by_brute_force(options: list[list[tuple[int, int, float]]], room: int) -> float:
    choices = itertools.product(*options)
    return min(
        (
            sum(seconds for _, _, seconds in choice)
            for choice in choices
            if sum(cost for _, cost, _ in choice) <= room
        ),
        default=math.inf,
    )


@given(options=option_lists, room=st.integers(0, 10))
def test_the_allotment_table_is_what_trying_everything_finds(
    options: list[list[tuple[int, int, float]]], room: int
) -> None:
    table = Allotment(options, room)

    for chosen in range(len(options) + 1):
        best = by_brute_force(options[:chosen], room)
        assert pytest.approx(best) == table.total(chosen)
        if best < math.inf:
            amounts = table.amounts(chosen, room)
            assert sum(amounts) <= room
            assert best == pytest.approx(
                sum(table.duration(j, amount) for j, amount in enumerate(amounts))
            )


@given(options=option_lists, room=st.integers(0, 10))
def test_a_prefix_of_the_table_is_the_table_of_the_prefix(
    options: list[list[tuple[int, int, float]]], room: int
) -> None:
    table = Allotment(options, room)

    for chosen in range(len(options) + 1):
        again = Allotment(options[:chosen], room)
        assert again.total(chosen) == table.total(chosen)
        if again.total(chosen) < math.inf:
            assert again.amounts(chosen, room) == table.amounts(chosen, room)


@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.tuples(strategies.unit_lists, strategies.speedups), st.floats(0.1, 100)
        ),
        max_size=3,
    ),
    room=st.integers(0, 9),
)
def test_what_it_allots_is_what_the_curves_say(rows: list[tuple], room: int) -> None:  # type: ignore[type-arg]
    group, options = [], []
    for i, (shape, work) in enumerate(rows):
        if shape is None:
            wanted = action(f"a{i}", cpu=1.5)
            group.append(Entry.of(wanted, number=i, at=0.0, curve=None))
            options.append([(0, 1, work)])
        else:
            units, speedup = shape
            wanted = action(f"a{i}", units=units, speedup=speedup)
            group.append(Entry.of(wanted, number=i, at=0.0, curve=curve_of(units, speedup)))
            options.append([(k, k, speedup.startup_s * k + work / speedup.at(k)) for k in units])

    table = allot(group, [work for _, work in rows], room)

    assert pytest.approx(by_brute_force(options, room)) == table.total(len(group))


def tail_slowly(
    ends: list[tuple[float, int]], free: int, demands: list[int], durations: list[float]
) -> float:
    """First come, first served, instant by instant."""
    total, now, running = 0.0, 0.0, list(ends)
    for demand, duration in zip(demands, durations, strict=True):
        while free < demand:
            if not running:
                return total
            now, units = min(running)
            running.remove((now, units))
            free += units
        free -= demand
        running.append((now + duration, demand))
        total += now + duration
    return total


@given(
    ends=st.lists(st.tuples(st.floats(0, 100), st.integers(0, 5)), max_size=6),
    free=st.integers(0, 6),
    waiting=st.lists(st.tuples(st.integers(0, 6), st.floats(0.1, 50)), max_size=6),
)
def test_the_estimate_of_the_tail_is_a_simulation_of_those_who_wait(
    ends: list[tuple[float, int]], free: int, waiting: list[tuple[int, float]]
) -> None:
    demands, durations = [d for d, _ in waiting], [s for _, s in waiting]

    assert pytest.approx(tail_slowly(ends, free, demands, durations)) == tail(
        ends, free, demands, durations
    )


# -- decisions -------------------------------------------------------------------------------


def watched_with(works: dict[str, float], *, cpu: float, depth: int = 16) -> Watched:
    known = Oracle({ActionId(name): work for name, work in works.items()})
    return Watched(node(cpu=cpu), policy=Tangram(depth=depth), estimates=known)


def held_back(watched: Watched, *names: str, units: tuple[int, ...], curve: object) -> None:
    """Submit actions that all wait for an environment, so that they are decided on together."""
    watched.request(environment("e"))
    for name in names:
        watched.submit(action(name, units=units, speedup=curve, environment="e"))  # type: ignore[arg-type]
    watched.opened("e")


def test_few_actions_get_many_units_and_many_get_few() -> None:
    wide = tuple(range(1, 9))
    few = watched_with(dict.fromkeys("ab", 10.0), cpu=8)
    held_back(few, *"ab", units=wide, curve=Amdahl(serial=0.05))
    many = watched_with(dict.fromkeys("abcdefgh", 10.0), cpu=8)
    held_back(many, *"abcdefgh", units=wide, curve=Amdahl(serial=0.05))

    assert [4, 4] == [few.units(name) for name in "ab"]
    assert {1, 2} >= {many.units(name) for name in many.running()}


def test_the_longer_of_two_gets_more() -> None:
    watched = watched_with({"short": 1.0, "long": 9.0}, cpu=4)
    held_back(watched, "short", "long", units=(1, 2, 3), curve=Roofline(cap=8.0))

    assert (1, 3) == (watched.units("short"), watched.units("long"))


def test_the_last_is_put_off_when_the_others_make_more_of_its_units() -> None:
    works = {"a": 60.0, "b": 60.0}
    watched = watched_with(works, cpu=2)
    held_back(watched, "a", "b", units=(1, 2), curve=Table.of({2: 3.0}))

    assert ["a"] == watched.running()  # 20 s, then at most 60 more: 100 s in all, not 120
    assert 2 == watched.units("a")
    watched.exit("a")
    assert 2 == watched.units("b")


def test_nothing_is_put_off_when_the_others_cannot_use_its_units() -> None:
    watched = watched_with({"a": 60.0, "b": 60.0}, cpu=2)
    held_back(watched, "a", "b", units=(1, 2), curve=Amdahl(serial=1.0))

    assert ["a", "b"] == watched.running()


def test_units_are_fixed_once_an_action_has_started() -> None:
    watched = watched_with({"a": 60.0, "b": 60.0}, cpu=8)
    watched.submit(action("a", units=(1, 2, 4), speedup=Roofline(cap=4.0)))
    watched.submit(action("b", units=(1, 2, 4), speedup=Roofline(cap=4.0)))

    assert (4, 4) == (watched.units("a"), watched.units("b"))
    watched.exit("b")
    assert 4 == watched.units("a")


def test_an_idle_node_is_never_left_idle() -> None:
    watched = watched_with({"a": 1.0, "b": 1000.0}, cpu=2)

    assert ["a"] == started(watched.submit(action("a", units=(1, 2), speedup=Roofline(cap=2))))


def test_strictly_first_come_first_served() -> None:
    watched = watched_with({"long": 9.0, "big": 9.0, "small": 1.0}, cpu=4)
    watched.submit(action("long", cpu=2))
    watched.submit(action("big", cpu=4))

    assert [] == started(watched.submit(action("small", cpu=1)))
    assert ["big"] == started(watched.exit("long"))


def test_each_resource_is_shared_out_by_itself() -> None:
    known = Oracle({ActionId(name): 10.0 for name in "abc"})
    watched = Watched(node(cpu=4, gpu=4), policy=Tangram(), estimates=known)
    watched.request(environment("e"))
    wide, curve = (1, 2, 3, 4), Roofline(cap=4.0)
    watched.submit(action("a", units=wide, speedup=curve, environment="e"))
    watched.submit(action("b", units=wide, speedup=curve, environment="e", resource="gpu"))
    watched.submit(action("c", gpu=1, environment="e"))
    watched.opened("e")

    assert (4, 3) == (watched.units("a"), watched.units("b"))
    assert ["a", "b", "c"] == watched.running()


def test_what_runs_is_expected_to_end_when_the_estimates_say() -> None:
    """Whether to wait for a running action or to go now on little depends on how long it lasts."""

    def units_beside(remaining: float) -> list[int]:
        works = {"running": remaining, "rigid": remaining, "x": 20.0, "y": 20.0}
        watched = watched_with(works, cpu=4)
        watched.submit(action("rigid", cpu=1))
        watched.submit(action("running", units=(1,), speedup=Roofline(cap=1)))
        watched.request(environment("e"))
        for name in "xy":
            watched.submit(action(name, units=(1, 2), speedup=Roofline(cap=2.0), environment="e"))
        watched.opened("e")
        return [watched.units(name) for name in watched.running()[2:]]

    assert [2] == units_beside(0.1)  # y starts as soon as the two end: 10 s and 20.1 s
    assert [2] == units_beside(5.0)
    assert [1, 1] == units_beside(1000.0)  # y would start after x, and nothing would be won


@pytest.mark.parametrize("depth", [0, 1, 16])
def test_any_depth_leaves_a_policy_that_serves_everyone(depth: int) -> None:
    works = {f"a{i}": 1.0 + i for i in range(12)}
    watched = watched_with(works, cpu=3, depth=depth)
    held_back(watched, *works, units=(1, 2, 3), curve=Amdahl(serial=0.3))

    watched.drain()

    assert [] == watched.ledger.unresolved()


def test_a_part_of_a_core_put_off_frees_nothing_for_others() -> None:
    """Four quarters share one core, so putting one off must not make the wide one wider."""
    works = {"wide": 100.0, **{f"q{i}": 50.0 for i in range(4)}}
    watched = watched_with(works, cpu=2)
    watched.request(environment("e"))
    watched.submit(action("wide", units=(1, 2), speedup=Roofline(cap=2.0), environment="e"))
    for i in range(4):
        watched.submit(action(f"q{i}", cpu=0.25, environment="e"))

    watched.opened("e")

    assert 1 == watched.units("wide")
    assert Phase.RUNNING is watched.phase("q0")
