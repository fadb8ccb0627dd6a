"""The books of one quota, against every window that they have to keep to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl_tangram.core.model import Degree, Quota, Service, Window
from arl_tangram.core.pools.quota import NEVER, QuotaPool


def pool(
    *,
    rate: float | None = None,
    burst: int = 1,
    at_once: int | None = None,
    windows: Sequence[tuple[int, float]] = (),
    adaptive: bool = False,
) -> QuotaPool:
    limits = tuple(Window(tokens=tokens, per_s=per_s) for tokens, per_s in windows)
    return QuotaPool(
        Quota(
            name="q",
            rate_per_s=rate,
            burst=burst,
            concurrency=at_once,
            windows=limits,
            adaptive=adaptive,
        )
    )


def test_a_bucket_that_has_rested_gives_its_burst_and_then_its_rate() -> None:
    quota = pool(rate=2.0, burst=3)
    assert 3 == quota.available(10.0)

    quota.take(10.0, 3)

    assert 0 == quota.available(10.4)
    assert 10.5 == quota.next_change(10.0, 1)
    assert 1 == quota.available(10.5)
    assert 3 == quota.available(60.0)


def test_a_call_under_way_holds_its_place_but_not_its_rate_token() -> None:
    quota = pool(rate=100.0, burst=100, at_once=2)
    quota.take(0.0, 2)
    assert 0 == quota.available(50.0)
    assert NEVER == quota.next_change(50.0, 1)

    quota.give_back(1)

    assert 1 == quota.available(50.0)
    assert 50.0 == quota.next_change(50.0, 1)


def test_without_a_limit_there_is_always_plenty() -> None:
    quota = pool()
    quota.take(0.0, 10_000)

    assert quota.available(0.0) > 1_000_000
    assert quota.could_ever(1_000_000)


def test_windows_are_in_force_at_once_and_free_what_has_left_them() -> None:
    quota = pool(windows=[(2, 1.0), (3, 100.0)])
    quota.take(0.0, 2)
    assert 0 == quota.available(0.9)

    again = quota.next_change(0.9, 1)
    assert 1.0 <= again < 1.01
    assert 1 == quota.available(again)
    quota.take(again, 1)

    assert 0 == quota.available(50.0)
    assert 100.0 <= quota.next_change(50.0, 2) < 101.0
    assert 2 == quota.available(100.5)


def test_more_than_a_window_ever_has_never_comes() -> None:
    quota = pool(windows=[(2, 1.0)])
    quota.take(0.0, 1)

    assert NEVER == quota.next_change(0.0, 3)


def test_tokens_taken_close_together_leave_a_window_together() -> None:
    quota = pool(windows=[(4, 256.0)])
    quota.take(0.0, 1)
    quota.take(0.5, 1)
    quota.take(3.0, 1)

    assert 3 == quota.available(257.0)
    assert 4 == quota.available(260.0)


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"rate": 1.0, "burst": 3}, 3),
        ({"at_once": 2}, 2),
        ({"windows": [(5, 1.0), (4, 2.0)]}, 4),
    ],
)
def test_more_at_once_than_a_quota_ever_has_is_known(limits: dict[str, object], most: int) -> None:
    quota = pool(**limits)  # type: ignore[arg-type]

    assert [True, False] == [quota.could_ever(most), quota.could_ever(most + 1)]


# -- pauses --------------------------------------------------------------------------------------


def test_nobody_comes_back_before_the_pause_ends_and_then_one_after_the_other() -> None:
    quota = pool(rate=10.0, burst=5)

    quota.throttled(0.0, 3.0)

    assert 0 == quota.available(2.9)
    assert 3.0 == quota.next_change(0.0, 1)
    assert 1 == quota.available(3.0)
    quota.take(3.0, 1)
    assert 0 == quota.available(3.05)
    assert 1 == quota.available(3.1)


def test_the_longer_of_two_pauses_counts() -> None:
    quota = pool(at_once=4)
    quota.throttled(0.0, 5.0)
    quota.throttled(1.0, 1.0)

    assert 0 == quota.available(4.0)
    assert 1 == quota.available(5.0)


def test_after_a_pause_calls_at_once_start_low_and_grow_with_every_answer() -> None:
    quota = pool(at_once=4)
    quota.take(0.0, 4)
    quota.throttled(0.0, 1.0)
    quota.give_back(4)
    assert 2 == quota.available(1.0)

    quota.succeeded()
    quota.succeeded()
    quota.succeeded()

    assert 4 == quota.available(1.0)


def test_without_a_given_limit_one_is_found_after_a_pause() -> None:
    quota = pool()
    quota.take(0.0, 8)
    quota.throttled(0.0, 1.0)
    quota.give_back(8)
    assert 4 == quota.available(1.0)

    for _ in range(5):
        quota.succeeded()

    assert 5 == quota.available(1.0)


def test_answers_change_nothing_where_nothing_was_ever_refused() -> None:
    quota, rated = pool(), pool(rate=2.0, burst=4)
    before = quota.available(0.0)

    quota.succeeded()
    rated.succeeded()
    rated.take(0.0, 4)

    assert before == quota.available(0.0)
    assert 0.5 == rated.next_change(0.0, 1)


def test_an_adaptive_rate_halves_when_refused_and_grows_by_one_a_second() -> None:
    quota = pool(rate=8.0, adaptive=True)
    quota.throttled(0.0, 0.0)
    quota.take(0.0, 1)
    assert 0.25 == quota.next_change(0.0, 1)

    for _ in range(4):
        quota.succeeded()
    quota.take(10.0, 1)

    assert 10.0 + 1 / 5 == pytest.approx(quota.next_change(10.0, 1), rel=0.01)


def test_an_adaptive_rate_stays_between_one_a_minute_and_the_given_one() -> None:
    slow, fast = pool(rate=0.05, adaptive=True), pool(rate=2.0, adaptive=True)
    for _ in range(10):
        slow.throttled(0.0, 0.0)
        fast.succeeded()
    slow.take(0.0, 1)
    fast.take(0.0, 1)

    assert 60.0 == pytest.approx(slow.next_change(0.0, 1))
    assert 0.5 == fast.next_change(0.0, 1)


# -- in any window -------------------------------------------------------------------------------

gaps = st.lists(
    st.tuples(st.sampled_from([0.0, 0.001, 0.1, 0.5, 2.0, 7.0]), st.integers(1, 4)), max_size=60
)


@given(gaps=gaps, burst=st.integers(1, 5), rate=st.sampled_from([0.5, 3.0, 10.0]))
def test_in_no_span_of_time_are_more_granted_than_burst_and_rate(
    gaps: list[tuple[float, int]], burst: int, rate: float
) -> None:
    quota = pool(rate=rate, burst=burst)
    grants = greedy(quota, gaps)

    for i, (start, _) in enumerate(grants):
        total = 0
        for at, tokens in grants[i:]:
            total += tokens
            assert total <= burst + rate * (at - start) + 1e-6


@given(gaps=gaps, tokens=st.integers(1, 5), per_s=st.sampled_from([0.5, 1.0, 5.0]))
def test_in_no_window_are_more_granted_than_it_has(
    gaps: list[tuple[float, int]], tokens: int, per_s: float
) -> None:
    quota = pool(windows=[(tokens, per_s), (12, 20.0)])
    grants = greedy(quota, gaps)

    for most, span_s in ((tokens, per_s), (12, 20.0)):
        for start, _ in grants:
            inside = [n for at, n in grants if start <= at < start + span_s - 1e-6]
            assert sum(inside) <= most


def greedy(quota: QuotaPool, gaps: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Take as many as there are of what is wanted; where none are, come back when told to."""
    now, grants = 0.0, []
    for gap, wanted in gaps:
        now += gap
        if not quota.available(now):
            now = max(now, quota.next_change(now, 1))
            assert quota.available(now), "it said that a token would be there"
        tokens = min(wanted, quota.available(now))
        quota.take(now, tokens)
        grants.append((now, tokens))
    return grants


# -- what no quota and no service can be ---------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rate_per_s": 0.0}, "rate_per_s=0.0: a rate is above zero"),
        ({"burst": 0}, "burst=0: a burst is at least 1"),
        ({"concurrency": 0}, "concurrency=0: calls at once are at least 1"),
    ],
)
def test_a_quota_of_zero_is_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Quota(name="q", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("tokens", "per_s"), [(0, 1.0), (1, 0.0)])
def test_a_window_of_nothing_is_refused(tokens: int, per_s: float) -> None:
    with pytest.raises(ValueError, match="both are above zero"):
        Window(tokens=tokens, per_s=per_s)


ONE, TWO = Degree(gpus=1, speedup=1.0), Degree(gpus=2, speedup=2.0)


def test_a_degree_that_is_no_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="gpus=3: a cell has 1, 2, 4 or 8 devices"):
        Degree(gpus=3, speedup=1.0)


def test_a_degree_of_no_speed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"speedup=0\.0: a speed-up is above zero"):
        Degree(gpus=1, speedup=0.0)
    with pytest.raises(ValueError, match=r"speedup=inf"):
        Degree(gpus=1, speedup=float("inf"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"degrees": ()}, r"degrees=\[\]: give at least one"),
        ({"degrees": (TWO, ONE)}, r"degrees=\[2, 1\]: give at least one, each once, ascending"),
        ({"degrees": (ONE,), "slots": 0}, "slots=0: an instance takes at least one call"),
        ({"degrees": (ONE,), "pinned": (1, 4)}, r"pinned=\[4\]: use degrees of the service, \[1\]"),
    ],
)
def test_a_service_that_cannot_be_is_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Service(name="s", **wrong)  # type: ignore[arg-type]
