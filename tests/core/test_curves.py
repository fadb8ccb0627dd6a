"""Speed-up curves, and the worthwhile amounts on them."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl_tangram.core.curve import curve_of
from arl_tangram.core.speedup import Amdahl, PowerLaw, Roofline, Speedup, Table, duration
from arl_tangram.testing import strategies

amounts = st.sets(st.integers(1, 40), min_size=1, max_size=12).map(lambda s: tuple(sorted(s)))


@pytest.mark.parametrize(
    ("curve", "speeds"),
    [
        (Roofline(cap=2.5), [1, 2, 2.5, 2.5]),
        (Amdahl(serial=0.5), [1, 4 / 3, 1.5, 1.6]),
        (Amdahl(serial=0.0), [1, 2, 3, 4]),
        (PowerLaw(p=0.5), [1, math.sqrt(2), math.sqrt(3), 2]),
        (Table.of({2: 1.8, 4: 3.0}), [1, 1.8, 2.4, 3.0]),
        (Table.of({}), [1, 1, 1, 1]),
        (Table.of({3: 3.0}), [1, 2, 3, 3]),
    ],
)
def test_a_curve_says_how_much_faster_it_gets(curve: Speedup, speeds: list[float]) -> None:
    assert pytest.approx(speeds) == [curve.at(k) for k in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("form", "arguments", "message"),
    [
        (Roofline, {"cap": 0.5}, "cap=0.5: a speed-up cap is at least 1"),
        (Roofline, {"cap": math.nan}, "cap=nan"),
        (Amdahl, {"serial": 1.5}, "serial=1.5: a share is between 0 and 1"),
        (PowerLaw, {"p": -0.1}, "p=-0.1: an exponent is between 0 and 1"),
        (Table, {"points": ((0, 1.0),)}, r"points=\{0: 1.0\}: .*units are at least 1"),
        (Table, {"points": ((2, 1.5), (4, 1.2))}, r"points=\{2: 1.5, 4: 1.2\}: more units"),
        (Table, {"points": ((1, -1.0), (2, 1.0))}, "more units are never slower"),
        (Roofline, {"cap": 2.0, "startup_s": -1.0}, "startup_s=-1.0: a start-up cost is at least"),
        (Amdahl, {"serial": 0.0, "startup_s": -2.0}, "startup_s=-2.0"),
        (PowerLaw, {"p": 0.0, "startup_s": -3.0}, "startup_s=-3.0"),
        (Table, {"points": (), "startup_s": -4.0}, "startup_s=-4.0"),
        (Roofline, {"cap": "a"}, "cap='a'"),
        (Roofline, {"cap": math.inf}, "cap=inf"),
        (Amdahl, {"serial": None}, "serial=None"),
        (PowerLaw, {"p": [1]}, r"p=\[1\]"),
        (Table, {"points": ((2.5, 1.5),)}, r"points=\{2.5: 1.5\}"),
        (Table, {"points": ((2, "a"),)}, r"points=\{2: 'a'\}"),
        (Table, {"points": (("a", 1.0),)}, r"points=\(\('a', 1.0\),\): pairs of units"),
        (Table, {"points": 5}, "points=5: pairs of units and a speed-up"),
        (Roofline, {"cap": 2.0, "startup_s": "a"}, "startup_s='a'"),
        (Roofline, {"cap": 2.0, "startup_s": math.inf}, "startup_s=inf"),
    ],
)
def test_a_curve_that_makes_no_sense_is_refused_by_name(
    form: type, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        form(**arguments)


def test_starting_more_workers_costs_time_of_its_own() -> None:
    curve = Roofline(cap=8, startup_s=1.5)

    assert [11.5, 8.0, 8.5] == [duration(curve, 10.0, k) for k in (1, 2, 4)]


@given(units=amounts, speedup=strategies.speedups)
def test_the_worthwhile_amounts_are_the_lower_hull_of_time_over_units(
    units: tuple[int, ...], speedup: Speedup
) -> None:
    curve = curve_of(units, speedup)
    slow = dict(zip(curve.units, curve.slowness, strict=True))

    assert units[0] == curve.units[0]
    assert set(curve.units) <= set(units)
    assert dict.fromkeys(units) == dict.fromkeys(curve.speeds)
    assert all(slow[k] == pytest.approx(1 / speedup.at(k)) for k in curve.units)
    # Each further unit saves less than the one before, and every step saves something.
    steps = curve.savings[:-1]
    assert all(a > b for a, b in itertools.pairwise(steps))
    assert all(step > 0 for step in steps)
    assert 0.0 == curve.savings[-1]
    # No allowed amount lies below the hull, so a mix of worthwhile amounts is never worse.
    for k in units:
        place = curve.position(k)
        low = curve.units[place]
        line = curve.slowness[place] - curve.savings[place] * (k - low)
        assert line <= 1 / speedup.at(k) + 1e-9


@given(units=amounts, speedup=strategies.speedups, at=st.integers(0, 11))
def test_the_place_of_an_amount_is_the_last_worthwhile_one_not_above_it(
    units: tuple[int, ...], speedup: Speedup, at: int
) -> None:
    curve = curve_of(units, speedup)
    amount = units[at % len(units)]

    assert max(k for k in curve.units if k <= amount) == curve.units[curve.position(amount)]


def test_amounts_beyond_what_it_can_use_are_not_worthwhile() -> None:
    assert (1, 2, 3) == curve_of((1, 2, 3, 4, 8), Roofline(cap=3.0)).units
    assert (1,) == curve_of((1, 2, 3), Amdahl(serial=1.0)).units


def test_an_amount_that_only_pays_together_with_the_next_is_passed_over() -> None:
    curve = curve_of((1, 2, 3), Table.of({2: 1.05, 3: 3.0}))

    assert (1, 3) == curve.units
    assert 0 == curve.position(2)
