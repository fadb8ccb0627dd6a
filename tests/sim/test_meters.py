"""Whether a quota was kept to, and used, is told from the calls alone."""

from __future__ import annotations

import pytest

from arl_tangram.core.model import Action, ActionId, Quota, Window
from arl_tangram.sim.meters import Meter, Meters


def call(name: str, tokens: int = 1) -> Action:
    return Action(id=ActionId(name), needs={"api:q": tokens})


def crowd(meter: Meter, count: int) -> list[Action]:
    calls = [call(f"a{i}") for i in range(count)]
    for each in calls:
        meter.wants(each, 0.0)
    return calls


def test_a_quota_that_is_kept_to_is_nowhere_exceeded() -> None:
    meter = Meter(Quota(name="q", rate_per_s=2.0, burst=2, concurrency=2))
    first, second, third = crowd(meter, 3)
    meter.begins(first, 0.0)
    meter.begins(second, 0.0)
    meter.ends(1, 0.25)
    meter.begins(third, 0.5)

    figures = meter.figures()

    assert 0.0 == figures.most_over
    assert (3, 2) == (figures.tokens, figures.most_at_once)
    assert 0.5 == pytest.approx(figures.waited_s)
    assert 1.0 == pytest.approx(figures.used_while_waiting)


@pytest.mark.parametrize(
    ("quota", "at", "over"),
    [
        (Quota(name="q", rate_per_s=2.0, burst=1), [0.0, 0.4], 0.2),
        (Quota(name="q", concurrency=1), [0.0, 5.0], 1.0),
        (Quota(name="q", windows=(Window(tokens=1, per_s=10.0),)), [0.0, 9.9], 1.0),
        (Quota(name="q", windows=(Window(tokens=1, per_s=10.0),)), [0.0, 10.0], 0.0),
    ],
)
def test_what_is_above_a_limit_is_told(quota: Quota, at: list[float], over: float) -> None:
    meter = Meter(quota)
    for name, now in zip(crowd(meter, len(at)), at, strict=True):
        meter.begins(name, now)

    assert over == pytest.approx(meter.figures().most_over)


def test_a_token_that_lies_about_while_somebody_waits_is_not_used() -> None:
    meter = Meter(Quota(name="q", rate_per_s=1.0, burst=1))
    first, second = crowd(meter, 2)
    meter.begins(first, 0.0)
    meter.begins(second, 4.0)

    figures = meter.figures()

    assert 4.0 == pytest.approx(figures.waited_s)
    assert 0.25 == pytest.approx(figures.used_while_waiting)


def test_nothing_is_unused_while_all_places_are_held_or_a_window_is_in_force() -> None:
    held = Meter(Quota(name="q", concurrency=1))
    first, second = crowd(held, 2)
    held.begins(first, 0.0)
    held.ends(1, 3.0)
    held.begins(second, 3.0)
    windowed = Meter(Quota(name="q", windows=(Window(tokens=1, per_s=3.0),)))
    first, second = crowd(windowed, 2)
    windowed.begins(first, 0.0)
    windowed.begins(second, 3.0)

    for meter in (held, windowed):
        assert (3.0, 1.0) == (meter.figures().waited_s, meter.figures().used_while_waiting)


def test_a_place_that_is_free_beside_one_who_waits_is_not_used() -> None:
    meter = Meter(Quota(name="q", concurrency=2))
    first, second = crowd(meter, 2)
    meter.begins(first, 0.0)
    meter.begins(second, 3.0)

    assert 0.0 == meter.figures().used_while_waiting


def test_one_that_gives_up_waits_no_more_and_one_that_ended_is_no_news() -> None:
    meter = Meter(Quota(name="q", concurrency=1))
    first, second = crowd(meter, 2)
    meter.begins(first, 0.0)
    meter.gives_up(second.id, 2.0)
    meter.gives_up(first.id, 5.0)
    meter.ends(1, 9.0)

    assert 2.0 == meter.figures().waited_s


def test_each_quota_has_its_own_meter_and_other_actions_have_none() -> None:
    meters = Meters([Quota(name="q"), Quota(name="other")])
    action, plain = call("a", 3), Action(id=ActionId("b"), needs={"cpu": 1000})
    for each in (action, plain):
        meters.wants(each, 0.0)
        meters.begins(each, 1.0)
        meters.ends(each, 2.0)
        meters.gives_up(each, 2.0)

    assert [3, 0] == [meters.figures()[name].tokens for name in ("q", "other")]


def test_an_attempt_after_a_lost_one_takes_tokens_again() -> None:
    meter = Meter(Quota(name="q", rate_per_s=1.0))
    (first,) = crowd(meter, 1)
    meter.begins(first, 0.0)
    meter.ends(1, 0.5)
    meter.begins(first, 0.5)

    assert (2, 0.5) == (meter.figures().tokens, meter.figures().most_over)
