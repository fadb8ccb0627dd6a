"""What is believed about durations after what was seen."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl_tangram.core.entries import Entry
from arl_tangram.core.estimates import SHORTEST_S, Learned, LogNormal, Oracle, Widths
from arl_tangram.core.model import Action, Outcome
from arl_tangram.core.speedup import Amdahl, Roofline, duration
from arl_tangram.testing.builders import action


def see(
    learned: Learned,
    work: float,
    *,
    of: Action,
    outcome: Outcome = Outcome.SUCCEEDED,
    units: int = 1,
    run_s: float | None = None,
) -> None:
    learned.observe(
        of, work=work, outcome=outcome, units=units, run_s=work if run_s is None else run_s
    )


def samples(*, median: float, sigma: float, count: int, seed: int = 0) -> list[float]:
    chance = random.Random(seed)
    return [median * math.exp(sigma * chance.gauss(0, 1)) for _ in range(count)]


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 1.2])
@pytest.mark.parametrize("median", [0.05, 30.0])
def test_the_mean_of_a_log_normal_kind_is_learned_within_a_tenth(
    median: float, sigma: float
) -> None:
    learned, wanted = Learned(), action("a", kind="reward")
    for work in samples(median=median, sigma=sigma, count=3000):
        see(learned, work, of=wanted)

    assert pytest.approx(median * math.exp(sigma**2 / 2), rel=0.1) == learned.work(wanted)


def test_one_huge_value_moves_the_estimate_far_less_than_the_plain_mean() -> None:
    learned, wanted = Learned(), action("a")
    works = samples(median=1.0, sigma=1.0, count=200)
    for work in works:
        see(learned, work, of=wanted)
    before = learned.work(wanted)

    see(learned, 100_000.0, of=wanted)

    assert learned.work(wanted) < 2.5 * before
    assert (sum(works) + 100_000.0) / 201 > 250 * before


def test_before_anything_is_seen_an_action_is_a_second_or_so_of_work() -> None:
    assert pytest.approx(1.0, rel=0.7) == Learned().work(action("a"))


def test_the_first_few_samples_already_move_the_estimate_most_of_the_way() -> None:
    learned, wanted = Learned(), action("a")
    for _ in range(10):
        see(learned, 100.0, of=wanted)

    assert 50.0 < learned.work(wanted) < 300.0


def test_an_unknown_task_borrows_what_is_known_of_the_kind() -> None:
    learned = Learned()
    for work in samples(median=20.0, sigma=0.3, count=500):
        see(learned, work, of=action("a", task="known", kind="reward"))

    borrowed = learned.work(action("b", task="new", kind="reward"))

    assert pytest.approx(20.0, rel=0.15) == borrowed
    assert learned.work(action("c", task="known", kind="bash")) < 5.0


@pytest.mark.parametrize("name", ["*", "any", "default"])
def test_no_name_of_a_task_makes_it_learn_another_way(name: str) -> None:
    named, plain = Learned(), Learned()
    for work in samples(median=2.0, sigma=1.0, count=20):
        see(named, work, of=action("a", task=name))
        see(plain, work, of=action("a", task="t"))

    assert plain.work(action("a", task="t")) == named.work(action("a", task=name))


def test_a_task_has_its_own_estimate_of_a_kind_it_has_shown() -> None:
    learned = Learned()
    for _ in range(200):
        see(learned, 1.0, of=action("a", task="quick", kind="reward"))
        see(learned, 50.0, of=action("b", task="slow", kind="reward"))

    assert pytest.approx(1.0, rel=0.2) == learned.work(action("c", task="quick", kind="reward"))
    assert pytest.approx(50.0, rel=0.2) == learned.work(action("d", task="slow", kind="reward"))


@pytest.mark.parametrize(
    "outcome", [Outcome.LOST, Outcome.CANCELLED, Outcome.OUT_OF_MEMORY, Outcome.REJECTED]
)
def test_attempts_that_did_not_end_by_themselves_teach_nothing(outcome: Outcome) -> None:
    learned, wanted = Learned(), action("a")

    see(learned, 1000.0, of=wanted, outcome=outcome)

    assert Learned().work(wanted) == learned.work(wanted)


def test_a_failed_command_is_as_telling_as_one_that_succeeded() -> None:
    learned, twin, wanted = Learned(), Learned(), action("a")
    see(learned, 7.0, of=wanted, outcome=Outcome.FAILED)
    see(twin, 7.0, of=wanted)

    assert twin.work(wanted) == learned.work(wanted)


# -- how much is left ------------------------------------------------------------------------


def numerical_rest(*, mean: float, sigma: float, done: float) -> float:
    """E[W - done | W > done] of a log-normal, by the trapezium rule over ln w."""
    count, low, high = 40_000, math.log(done), mean + 12 * sigma
    step = (high - low) / count
    alive = rest = 0.0
    for i in range(count + 1):
        x = low + i * step
        weight = step * (0.5 if i in {0, count} else 1.0)
        density = math.exp(-((x - mean) ** 2) / (2 * sigma**2))
        alive += weight * density
        rest += weight * density * math.exp(x)
    return rest / alive - done


@pytest.mark.parametrize(
    ("mean", "sigma", "done"),
    [
        (mean, sigma, done)
        for mean, sigma, dones in [
            (0.0, 0.5, (0.01, 0.5, 1.0, 3.0)),
            (0.0, 1.0, (0.01, 0.5, 1.0, 3.0, 20.0, 100.0)),
            (1.5, 1.3, (0.01, 0.5, 1.0, 3.0, 20.0, 100.0)),
        ]
        for done in dones
    ],
)
def test_what_is_left_is_the_mean_residual_life(mean: float, sigma: float, done: float) -> None:
    weight = 1000.0
    known = LogNormal(weight=weight, mean=mean, square=weight * sigma**2)

    expected = numerical_rest(mean=mean, sigma=sigma, done=done)

    assert pytest.approx(expected, rel=1e-3) == known.remaining(done)


def test_before_it_has_done_anything_all_of_the_work_is_left() -> None:
    known = LogNormal(weight=50.0, mean=1.0, square=50.0)

    assert known.expected == known.remaining(0.0)
    assert known.expected == pytest.approx(known.remaining(SHORTEST_S * 1.01), rel=0.01)


def test_in_a_heavy_tail_the_longer_it_has_run_the_more_is_left() -> None:
    known = LogNormal(weight=100.0, mean=0.0, square=100.0 * 1.5**2)
    rest = [known.remaining(done) for done in (1.0, 3.0, 10.0, 30.0)]

    assert sorted(rest) == rest


def test_what_is_older_than_anything_known_may_last_as_long_again() -> None:
    known = LogNormal(weight=10.0, mean=0.0, square=10.0 * 0.1**2)

    assert 500.0 == known.remaining(500.0)


def with_timeouts() -> LogNormal:
    """Half a second as a rule, and one in ten runs into a limit of two minutes."""
    known = LogNormal()
    for work in samples(median=0.5, sigma=0.5, count=900):
        known.add(work, timed_out=False)
    for _ in range(100):
        known.add(120.0, timed_out=True)
    return known


def test_timeouts_count_in_the_mean_without_bending_the_fit() -> None:
    known = with_timeouts()
    body = 0.5 * math.exp(0.5**2 / 2)

    assert pytest.approx(0.9 * body + 0.1 * 120.0, rel=0.05) == known.expected
    assert pytest.approx(math.log(0.5), abs=0.05) == known.mean


def test_what_is_older_than_the_rest_but_for_timeouts_is_on_its_way_to_one() -> None:
    known = with_timeouts()

    assert pytest.approx(120.0 - 20.0, rel=0.01) == known.remaining(20.0)
    assert pytest.approx(120.0 - 119.0, rel=0.05) == known.remaining(119.0)


def test_the_atom_of_timeouts_is_over_once_the_limit_has_passed() -> None:
    known = with_timeouts()

    assert 130.0 == known.remaining(130.0)


@given(
    works=st.lists(st.floats(0, 1e6), max_size=30),
    timeouts=st.lists(st.floats(0, 1e4), max_size=3),
    done=st.floats(0, 1e9),
)
def test_whatever_was_seen_what_is_left_is_finite_and_above_zero(
    works: list[float], timeouts: list[float], done: float
) -> None:
    known = LogNormal()
    for work in works:
        known.add(work, timed_out=False)
    for work in timeouts:
        known.add(work, timed_out=True)

    assert 0 < known.expected < math.inf
    assert 0 < known.remaining(done) < math.inf


@given(works=st.lists(st.floats(1e-3, 1e4), min_size=2, max_size=30))
def test_the_moments_are_those_of_the_prior_and_the_samples_together(works: list[float]) -> None:
    known = LogNormal()
    for work in works:
        known.add(work, timed_out=False)
    logs = [0.0, *(math.log(work) for work in works)]
    mean = sum(logs) / len(logs)

    assert pytest.approx(len(logs)) == known.weight
    assert pytest.approx(mean, abs=1e-6) == known.mean
    assert pytest.approx(1.0 + sum((x - mean) ** 2 for x in logs), rel=1e-6) == known.square


# -- speed-up --------------------------------------------------------------------------------


def elastic(name: str = "a", **others: Any) -> Action:
    return action(name, units=(1, 2, 4, 8), **others)


@given(
    serial=st.floats(0.0, 1.0),
    work=st.floats(0.5, 100.0),
    widths=st.sets(st.sampled_from([1, 2, 4, 8]), min_size=2),
)
def test_a_fit_over_widths_recovers_the_serial_share(
    serial: float, work: float, widths: set[int]
) -> None:
    seen = Widths()
    for units in widths:
        for _ in range(3):
            seen.add(units, duration(Amdahl(serial=serial), work, units))

    assert pytest.approx(serial, abs=0.011) == seen.serial()


def test_the_serial_share_is_learned_from_three_runs_on_each_of_two_widths() -> None:
    learned, wanted = Learned(), elastic()
    curve = Amdahl(serial=0.25)
    for units in (1, 8):
        for _ in range(3):
            assert Roofline(cap=8.0) == learned.speedup(wanted)
            see(learned, 10.0, of=wanted, units=units, run_s=duration(curve, 10.0, units))

    assert curve == learned.speedup(wanted)


def test_what_gets_slower_with_width_is_all_serial_and_what_scales_too_well_has_no_serial_part() -> (
    None
):
    slower, faster = Widths(), Widths()
    for _ in range(3):
        slower.add(1, 10.0)
        slower.add(4, 12.0)
        faster.add(1, 10.0)
        faster.add(4, 1.0)

    assert (1.0, 0.0) == (slower.serial(), faster.serial())


def test_runs_on_several_widths_and_timeouts_teach_nothing_about_the_curve() -> None:
    learned, wanted = Learned(), elastic()
    for units in (1, 4):
        for _ in range(5):
            see(learned, 10.0, of=wanted, units=0)
            see(learned, 10.0, of=wanted, units=units, outcome=Outcome.TIMED_OUT)

    assert Roofline(cap=8.0) == learned.speedup(wanted)


def test_what_an_action_says_of_its_curve_is_believed() -> None:
    learned = Learned()
    said = elastic(speedup=Amdahl(serial=0.5))
    for units in (1, 8):
        for _ in range(3):
            see(learned, 10.0, of=said, units=units, run_s=10.0 / units)

    assert Amdahl(serial=0.5) == learned.speedup(said)
    assert Roofline(cap=8.0) == learned.speedup(elastic())
    assert Roofline(cap=1.0) == learned.speedup(action("rigid", cpu=1))


# -- saved and loaded ------------------------------------------------------------------------


def trained() -> Learned:
    learned = Learned()
    for i, work in enumerate(samples(median=3.0, sigma=1.0, count=60)):
        see(learned, work, of=action("a", task=f"t{i % 2}", kind="bash"))
        see(learned, work, of=elastic(kind="reward"), units=1 + i % 2, run_s=work / (1 + i % 2))
        see(learned, 60.0, of=action("a", kind="bash"), outcome=Outcome.TIMED_OUT)
    return learned


def test_what_was_learned_survives_a_file_exactly() -> None:
    learned = trained()

    loaded = Learned.from_json(json.loads(json.dumps(learned.to_json())))

    assert learned.to_json() == loaded.to_json()
    for wanted in (action("a", task="t1", kind="bash"), elastic(kind="reward"), action("new")):
        assert learned.work(wanted) == loaded.work(wanted)
        assert learned.remaining(wanted, 7.0) == loaded.remaining(wanted, 7.0)
        assert learned.speedup(wanted) == loaded.speedup(wanted)


def set_kind(field: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda data: data["kinds"][0].__setitem__(field, value)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda data: data.__setitem__("version", 2), "version=2"),
        (lambda data: data.pop("version"), "version=None"),
        (lambda data: data.pop("kinds"), "kinds"),
        (lambda data: data.pop("widths"), "widths"),
        (lambda data: data["kinds"][0].pop("weight"), "weight"),
        (set_kind("weight", 0.5), "weight=0.5"),
        (set_kind("weight", "many"), "many"),
        (set_kind("mean", math.nan), "mean=nan"),
        (set_kind("square", -1), "square=-1"),
        (set_kind("timeouts", -3), "timeouts=-3"),
        (set_kind("timeout_total_s", math.inf), "timeout_total_s=inf"),
        (lambda data: data.__setitem__("kinds", 7), "not iterable"),
        (lambda data: data.__setitem__("kinds", ["x"]), "'x'"),
        (lambda data: data["widths"][0].__setitem__("seen", {"0": [3, 1.0]}), "units='0'"),
        (lambda data: data["widths"][0].__setitem__("seen", {"1": [0, 1.0]}), "samples=0"),
        (lambda data: data["widths"][0].__setitem__("seen", {"1": 5}), "cannot unpack"),
        (lambda data: data["widths"][0].__setitem__("seen", []), "items"),
        (lambda data: data["widths"][0].__setitem__("seen", {"1": [3, 800.0]}), "mean=800.0"),
        (lambda data: data["kinds"][0].__setitem__("mean", -101.0), "mean=-101.0"),
        (lambda data: data["kinds"][0].__setitem__("square", 1e300), "square=1e+300"),
        (lambda data: data["kinds"][0].__setitem__("timeouts", 10**400), "OverflowError"),
    ],
)
def test_a_damaged_profile_is_refused_by_name(
    damage: Callable[[dict[str, Any]], object], named: str
) -> None:
    data = trained().to_json()
    damage(data)

    with pytest.raises(ValueError, match="profile") as refusal:
        Learned.from_json(data)

    assert named in str(refusal.value)


def test_a_profile_that_is_no_object_is_refused() -> None:
    with pytest.raises(ValueError, match="version=None: this profile is not of version 1"):
        Learned.from_json([])  # type: ignore[arg-type]


# -- several at once, and the oracle ---------------------------------------------------------


def running(wanted: Action, *, done: float) -> Entry:
    entry = Entry.of(wanted, number=1, at=0.0, curve=None)
    entry.work_done = done
    return entry


@pytest.mark.parametrize(
    "estimates",
    [trained(), Oracle({"a": 5.0, "b": 9.0, "c": 1.0})],  # type: ignore[dict-item]
)
def test_asking_for_several_at_once_is_asking_for_each(estimates: Learned | Oracle) -> None:
    entries = [
        running(action("a", kind="bash"), done=0.0),
        running(action("b", kind="reward"), done=2.0),
        running(action("c", kind="never seen"), done=5.0),
    ]

    each = [estimates.remaining(e.action, e.done_by(3.0)) for e in entries]

    assert each == estimates.left(entries, 3.0)


def test_an_oracle_knows_the_truth_and_learns_nothing() -> None:
    oracle = Oracle({action("a").id: 5.0, action("b").id: 0.0})
    oracle.observe(action("a"), work=1.0, outcome=Outcome.SUCCEEDED, units=1, run_s=1.0)

    assert 5.0 == oracle.work(action("a"))
    assert 3.0 == oracle.remaining(action("a"), 2.0)
    assert SHORTEST_S == oracle.remaining(action("a"), 9.0)
    assert SHORTEST_S == oracle.work(action("b"))
    assert Roofline(cap=1.0) == oracle.speedup(action("a", cpu=1))
    assert Roofline(cap=8.0) == oracle.speedup(elastic())
    assert Amdahl(serial=0.5) == oracle.speedup(elastic(speedup=Amdahl(serial=0.5)))
