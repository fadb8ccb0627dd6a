"""How often services are called is learned, and forgotten, quickly."""

from __future__ import annotations

import pytest

from arl_tangram.core.serving.arrivals import FIRST_CALLS, FIRST_S, MEMORY_S, Together


def test_a_service_that_nobody_has_called_is_expected_to_be_called_now_and_then() -> None:
    arrivals = Together().arrivals(0.0)

    assert FIRST_CALLS / FIRST_S == pytest.approx(arrivals.rate(0.0))


def test_the_rate_is_learned_within_its_memory() -> None:
    arrivals = Together().arrivals(0.0)
    for i in range(200):
        arrivals.add(i * 0.5)

    assert 2.0 == pytest.approx(arrivals.rate(100.0), rel=0.1)


def test_what_is_long_ago_is_forgotten() -> None:
    arrivals = Together().arrivals(0.0)
    for i in range(200):
        arrivals.add(i * 0.5)
    long_after = 100.0 + 10 * MEMORY_S

    assert 0.02 > arrivals.rate(long_after)


def test_a_new_service_is_believed_to_be_called_like_the_others() -> None:
    together = Together()
    busy, new = together.arrivals(0.0), together.arrivals(0.0)
    for i in range(200):
        busy.add(i * 0.5)

    assert busy.rate(100.0) > 4 * new.rate(100.0)
    assert new.rate(100.0) > 1.5 * Together().arrivals(100.0).rate(100.0)


def test_of_two_services_the_one_that_is_called_more_has_the_higher_rate() -> None:
    together = Together()
    more, less = together.arrivals(0.0), together.arrivals(0.0)
    for i in range(90):
        (less if i % 3 == 0 else more).add(float(i))

    assert more.rate(90.0) > less.rate(90.0)
