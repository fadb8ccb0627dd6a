from __future__ import annotations

import pytest

from arl_tangram.sim.level import Level


def level(*changes: tuple[float, float]) -> Level:
    made = Level()
    for at, amount in changes:
        made.add(amount, at)
    return made


def test_the_integral_counts_amount_times_seconds() -> None:
    assert 2 * 3.0 + 5 * 1.0 == level((1.0, 2), (4.0, 3), (5.0, -5)).integral


def test_changes_at_the_same_time_add_up() -> None:
    assert 5 * 2.0 == level((0.0, 2), (0.0, 3), (2.0, -5)).integral


def test_the_curve_keeps_the_integral() -> None:
    made = level((0.3, 2), (0.7, 3), (2.9, -4), (4.0, -1))

    curve = made.curve(end=4.0, points=7)

    assert made.integral == pytest.approx(sum(value for _, value in curve) * 4.0 / 7)
    assert [0.0, 4 / 7] == pytest.approx([at for at, _ in curve[:2]])


def test_nothing_held_has_no_curve() -> None:
    assert () == Level().curve(end=1.0)
