"""How much of its work an action has behind it, whatever it held on the way."""

from __future__ import annotations

import pytest

from arl_tangram.core.curve import curve_of
from arl_tangram.core.entries import Entry, least_of
from arl_tangram.core.estimates import Learned
from arl_tangram.core.model import Action, Outcome, Seconds
from arl_tangram.core.speedup import Amdahl, PowerLaw, Roofline
from arl_tangram.testing.builders import action, node
from arl_tangram.testing.watched import Watched


class Recorded(Learned):
    """Keeps what it is told, too."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, Seconds, int, Seconds]] = []

    def observe(
        self, action: Action, *, work: Seconds, outcome: Outcome, units: int, run_s: Seconds
    ) -> None:
        self.told.append((action.id, work, units, run_s))
        super().observe(action, work=work, outcome=outcome, units=units, run_s=run_s)


def test_work_is_counted_on_one_unit_through_every_resize() -> None:
    recorded = Recorded()
    watched = Watched(node(cpu=4), estimates=recorded)
    watched.submit(action("a", units=(1, 2, 4), speedup=Roofline(cap=4.0)))
    watched.wait(2.0)  # 4 units: 8 s of work
    watched.submit(action("b", cpu=2))
    watched.wait(3.0)  # 2 units: 6 s of work
    watched.exit("b")
    watched.wait(1.0)  # 4 units again

    watched.exit("a")

    assert ("b", 3.0, 0, 3.0) == recorded.told[0]
    assert ("a", 18.0, 0, 6.0) == recorded.told[1]  # 0: no single width explains its time


def test_the_width_is_told_if_it_was_one_all_the_time() -> None:
    recorded = Recorded()
    watched = Watched(node(cpu=4), estimates=recorded)
    watched.submit(action("a", units=(1, 2, 4), speedup=Amdahl(serial=0.5)))
    watched.wait(3.0)

    watched.exit("a")

    assert [("a", pytest.approx(3.0 * 1.6), 4, 3.0)] == recorded.told


def test_starting_up_is_not_work() -> None:
    recorded = Recorded()
    watched = Watched(node(cpu=2), estimates=recorded)
    curve = Roofline(cap=2.0, startup_s=0.2)
    watched.submit(action("a", units=(2,), speedup=curve))
    watched.wait(0.1)
    watched.submit(action("b"))  # a look at it in between changes nothing
    watched.wait(5.3)

    watched.exit("a")

    assert ("a", pytest.approx((5.4 - 0.4) * 2), 2, pytest.approx(5.4)) == recorded.told[-1]


def test_units_added_on_the_way_start_up_too() -> None:
    recorded = Recorded()
    watched = Watched(node(cpu=4), policy="equi", estimates=recorded)
    watched.submit(action("b", cpu=2))
    watched.submit(action("a", units=(2, 4), speedup=Roofline(cap=4.0, startup_s=0.5)))
    assert 2 == watched.units("a")
    watched.wait(3.0)  # 1 s of start-up, then 2 s on 2 units
    watched.exit("b")
    assert 4 == watched.units("a")
    watched.wait(3.0)  # 1 s of start-up, then 2 s on 4 units

    watched.exit("a")

    assert ("a", pytest.approx(4.0 + 8.0), 0, 6.0) == recorded.told[-1]


def test_what_is_done_by_a_time_is_what_counting_then_would_write_down() -> None:
    curve = PowerLaw(p=0.5, startup_s=1.0)
    wanted = action("a", units=(1, 4), speedup=curve)
    entry = Entry.of(wanted, number=1, at=0.0, curve=curve_of((1, 4), curve))
    entry.units, entry.startup_left = 4, 4.0

    seen = [entry.done_by(at) for at in (0.0, 3.0, 4.0, 6.0)]
    for at, expected in zip((0.0, 3.0, 4.0, 6.0), seen, strict=True):
        entry.count(at)
        assert expected == entry.work_done == entry.done_by(at)

    assert [0.0, 0.0, 0.0, 4.0] == seen
    assert 0.0 == entry.startup_left


def test_what_it_holds_follows_from_its_units() -> None:
    both = action("a", units=(2, 3), cpu=0.5, memory=100)
    entry = Entry.of(both, number=1, at=0.0, curve=curve_of((2, 3), Roofline(cap=3.0)))

    assert {"cpu": 2500, "memory": 100} == least_of(both) == entry.amounts(2)
    assert {"cpu": 3500, "memory": 100} == entry.amounts(3)
    counted = action("g", units=(1, 4), resource="gpu")
    entry = Entry.of(counted, number=1, at=0.0, curve=curve_of((1, 4), Roofline(cap=4.0)))
    assert {"gpu": 4} == entry.amounts(4)
