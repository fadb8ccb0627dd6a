"""What calls wait for, against queueing theory and against doing it call by call."""

from __future__ import annotations

import itertools

import pytest

from arl_tangram.core.serving.waits import COUNTED, steady_act, total_act


def erlang_c(servers: int, offered: float) -> float:
    """The share of calls that wait, from Erlang's formula, in its stable recursion."""
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    load = offered / servers
    return blocked / (1.0 - load * (1.0 - blocked))


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
def test_one_instance_is_the_textbook_queue(load: float) -> None:
    assert 2.0 / (1.0 - load) == pytest.approx(steady_act(load / 2.0, 2.0, [1.0], horizon_s=10.0))


@pytest.mark.parametrize(("servers", "load"), [(2, 0.5), (2, 0.9), (4, 0.8), (8, 0.9)])
def test_several_instances_wait_nearly_as_long_as_erlang_says(servers: int, load: float) -> None:
    rate, work = load * servers, 1.0
    exact = 1.0 + erlang_c(servers, rate * work) / (servers * (1.0 - load))

    assert exact == pytest.approx(steady_act(rate, work, [1.0] * servers, horizon_s=10.0), rel=0.1)


def test_calls_go_to_the_fastest_instance_while_it_is_idle() -> None:
    rare, work = 1e-6, 1.0

    assert 0.25 == pytest.approx(steady_act(rare, work, [4.0, 1.0], horizon_s=10.0), rel=1e-3)


def test_more_calls_than_can_be_served_pile_up_for_as_long_as_it_lasts() -> None:
    short = steady_act(2.0, 1.0, [1.0], horizon_s=1.0)
    long = steady_act(2.0, 1.0, [1.0], horizon_s=100.0)

    assert long - short == pytest.approx((2.0 - 0.95) * 99.0)


def test_each_call_is_given_where_it_ends_first() -> None:
    # 1 s on the idle slow one, or 0.5 + 0.25 s on the busy fast one.
    assert 0.75 == total_act(1, 1.0, [(0.0, 1.0), (0.5, 4.0)])
    # The second waits for the fast one again, and ends with the slow one.
    assert 0.75 + 1.0 == total_act(2, 1.0, [(0.0, 1.0), (0.5, 4.0)])


@pytest.mark.parametrize(
    "servers",
    [[(0.0, 1.0)], [(0.0, 1.0), (0.0, 1.0)], [(0.0, 2.0), (3.0, 4.0)], [(1.0, 1.0), (50.0, 8.0)]],
)
def test_a_long_queue_is_drained_as_one_call_after_the_other_would_be(
    servers: list[tuple[float, float]],
) -> None:
    calls = 60
    free = [at for at, _ in servers]
    exact = 0.0
    for _ in range(calls):
        ends = [at + 1.0 / speed for at, (_, speed) in zip(free, servers, strict=True)]
        first = ends.index(min(ends))
        free[first] = ends[first]
        exact += ends[first]

    assert calls > COUNTED
    assert exact == pytest.approx(total_act(calls, 1.0, servers), rel=0.03)


def test_one_more_instance_never_makes_it_longer() -> None:
    for calls, ready in itertools.product((1, 3, 12, 13, 100), (0.0, 2.0, 50.0)):
        before = total_act(calls, 1.0, [(0.0, 1.0)])

        assert before >= total_act(calls, 1.0, [(0.0, 1.0), (ready, 2.0)]) - 1e-9
