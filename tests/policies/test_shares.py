"""Equal and heSRPT shares against their closed forms (DESIGN: the simulator, facts of theory)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl_tangram.core.curve import curve_of
from arl_tangram.core.entries import Entry
from arl_tangram.core.estimates import Oracle
from arl_tangram.core.kernel import Kernel
from arl_tangram.core.model import ActionId, Seconds, TrajectoryId
from arl_tangram.core.speedup import PowerLaw, Roofline
from arl_tangram.policies.registry import policy_named
from arl_tangram.policies.shares import whole_shares
from arl_tangram.sim.engine import simulate
from arl_tangram.sim.workload import Trajectory, Turn, Workload
from arl_tangram.testing.builders import action, node
from arl_tangram.testing.watched import Watched, resized

CORES = 2400
BATCHES = [
    [30.0, 20.0, 12.0, 7.0, 4.0],
    [100.0, 40.0, 35.0, 10.0, 5.0, 2.0, 1.0],
    [50.0, 50.0, 50.0, 50.0, 50.0, 50.0],
]


def total_act(policy: str, works: list[float], p: float) -> Seconds:
    """The sum of completion times of a batch of unbound actions on one big node."""
    curve = PowerLaw(p=p)
    turns = [
        Turn(
            think_s=0.0,
            work_s=work,
            speedup=curve,
            action=action(f"a{i}", units=range(1, CORES + 1), speedup=curve),
        )
        for i, work in enumerate(works)
    ]
    trajectories = tuple(
        Trajectory(id=TrajectoryId(f"t{i}"), turns=(turn,)) for i, turn in enumerate(turns)
    )
    workload = Workload(name="batch", trajectories=trajectories)
    kernel = Kernel(policy_named(policy), Oracle(workload.true_work()))
    run = simulate(kernel, workload, nodes=[node(cpu=CORES)])
    return sum((r.ended_at or math.inf) - r.submitted_at for r in run.actions)


def equal_split(works: list[float], p: float) -> Seconds:
    """``N^-p * sum over m of m^(1+p) (x_m - x_(m+1))``, the largest first."""
    sizes = [*sorted(works, reverse=True), 0.0]
    terms = [m ** (1 + p) * (sizes[m - 1] - sizes[m]) for m in range(1, len(sizes))]
    return sum(terms) / CORES**p


def optimal_split(works: list[float], p: float) -> Seconds:
    """``N^-p * sum over i of x_i (i^c - (i-1)^c)^(1-p)``, the largest first, c = 1 / (1 - p)."""
    c = 1 / (1 - p)
    sizes = sorted(works, reverse=True)
    terms = [x * (i**c - (i - 1) ** c) ** (1 - p) for i, x in enumerate(sizes, start=1)]
    return sum(terms) / CORES**p


@pytest.mark.parametrize("p", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("works", BATCHES, ids=["spread", "wide", "equal"])
def test_equal_shares_take_what_the_formula_says(works: list[float], p: float) -> None:
    assert pytest.approx(equal_split(works, p), rel=0.01) == total_act("equi", works, p)


@pytest.mark.parametrize("p", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("works", BATCHES, ids=["spread", "wide", "equal"])
def test_hesrpt_reaches_the_optimum_within_a_hundredth(works: list[float], p: float) -> None:
    best = optimal_split(works, p)

    assert pytest.approx(best, rel=0.01) == total_act("hesrpt", works, p)
    assert best <= equal_split(works, p) * (1 + 1e-9)


def entry(name: str, units: tuple[int, ...]) -> Entry:
    curve = curve_of(units, Roofline(cap=float(units[-1])))
    return Entry.of(action(name, units=units), number=1, at=0.0, curve=curve)


def test_what_one_cannot_use_goes_to_the_others() -> None:
    group = [entry("narrow", (1, 2)), entry("wide", tuple(range(1, 11)))]

    assert [2, 8] == whole_shares(group, [1.0, 1.0], 10)
    assert [2, 10] == whole_shares(group, [1.0, 1.0], 50)


def test_nobody_gets_less_than_the_least_however_little_it_weighs() -> None:
    group = [entry("big", (4, 5, 6)), entry("other", (1, 2, 3, 4))]

    assert [4, 1] == whole_shares(group, [0.0, 1.0], 5)
    assert 7 >= sum(whole_shares(group, [0.0, 0.0], 7))


@given(
    rows=st.lists(
        st.tuples(st.sampled_from([(1, 2, 3, 4), (1, 4), (2, 3, 5), (3,)]), st.floats(0, 10)),
        min_size=1,
        max_size=6,
    ),
    more=st.integers(0, 20),
)
def test_shares_are_allowed_amounts_and_fit(
    rows: list[tuple[tuple[int, ...], float]], more: int
) -> None:
    group = [entry(f"a{i}", units) for i, (units, _) in enumerate(rows)]
    room = sum(units[0] for units, _ in rows) + more

    amounts = whole_shares(group, [weight for _, weight in rows], room)

    assert all(amount in units for amount, (units, _) in zip(amounts, rows, strict=True))
    assert sum(amounts) <= room
    if room >= sum(units[-1] for units, _ in rows):
        assert [units[-1] for units, _ in rows] == amounts or min(w for _, w in rows) < 1e-6


def test_equal_actions_get_equal_shares_and_give_way_to_newcomers() -> None:
    watched = Watched(node(cpu=12), policy="equi")
    wide = tuple(range(1, 13))
    watched.submit(action("a", units=wide))
    assert 12 == watched.units("a")
    assert {"a": 6} == resized(watched.submit(action("b", units=wide)))
    watched.submit(action("c", units=wide))

    assert [4, 4, 4] == [watched.units(name) for name in "abc"]
    assert {"b": 6, "c": 6} == resized(watched.exit("a"))


def test_hesrpt_gives_the_shortest_most_and_fits_its_exponent_to_each_curve() -> None:
    works = {ActionId("long"): 100.0, ActionId("short"): 1.0, ActionId("flat"): 50.0}
    watched = Watched(node(cpu=16), policy="hesrpt", estimates=Oracle(works))
    wide = tuple(range(1, 17))
    watched.submit(action("long", units=wide, speedup=PowerLaw(p=0.5)))
    watched.submit(action("short", units=wide, speedup=PowerLaw(p=0.5)))

    assert (4, 12) == (watched.units("long"), watched.units("short"))
    watched.submit(action("flat", units=(2,)))
    assert 2 == watched.units("flat")
