"""Every action can say where it is, what it waits for, and behind whom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from arl_tangram.core.model import ActionId, Explanation
from arl_tangram.testing.builders import action, environment, node
from arl_tangram.testing.watched import Watched


def explain(watched: Watched, name: str) -> Explanation:
    return watched.kernel.explain(ActionId(name))


def test_one_that_waits_for_cores_says_how_many_are_free_where() -> None:
    watched = Watched(node(cpu=4))
    watched.submit(action("a", cpu=2.5))
    watched.wait(5.0)
    watched.submit(action("b", cpu=3))

    assert Explanation(
        action=ActionId("b"),
        phase="queued",
        waits_for="any node to have room: 3 cores on n0, 1.5 free",
        since_s=5.0,
    ) == explain(watched, "b")


def test_one_that_waits_for_a_count_names_it() -> None:
    watched = Watched(node(cpu=4, gpu=1))
    watched.open(environment("e"))
    watched.submit(action("a", gpu=1))
    watched.submit(action("b", gpu=1, environment="e"))

    explanation = explain(watched, "b")

    assert "1 of gpu on n0, 0 free" == explanation.waits_for
    assert "n0" == explanation.node


def test_one_that_waits_for_cores_in_one_piece_says_so() -> None:
    watched = Watched(node(cpu=2))
    watched.open(environment("e"))
    watched.submit(action("a", cpu=0.5))
    watched.submit(action("b", cpu=1))
    watched.exit("a")
    watched.submit(action("c", cpu=0.6, environment="e"))
    watched.exit("b")
    watched.submit(action("d", cpu=0.6, environment="e"))
    watched.submit(action("f", cpu=0.7, environment="e"))

    assert "0.7 cores on n0 in one piece" == explain(watched, "f").waits_for


def test_one_that_comes_after_others_names_those_before_it_nearest_first() -> None:
    watched = Watched(node(cpu=1))
    watched.open(environment("e"))
    watched.submit(action("a", cpu=1))
    for i in range(15):
        watched.submit(action(f"w{i}", cpu=1, environment="e"))

    explanation = explain(watched, "w13")

    assert tuple(f"w{i}" for i in range(12, 2, -1)) == explanation.behind
    assert 13 == explanation.ahead


def test_one_that_fits_but_must_wait_waits_for_its_turn() -> None:
    watched = Watched(node("n0", cpu=4), policy="tangram")
    watched.open(environment("e"))
    watched.submit(action("a", cpu=2))
    for place in (None, "e"):
        watched.submit(action(f"big {place}", cpu=4, environment=place))
        watched.submit(action(f"small {place}", cpu=1, environment=place))

    assert "its turn" == explain(watched, "small None").waits_for
    assert ("big None",) == explain(watched, "small None").behind
    assert "its turn" == explain(watched, "small e").waits_for


def test_without_a_node_all_wait_for_one() -> None:
    watched = Watched()
    watched.submit(action("a"))

    assert "a node to join" == explain(watched, "a").waits_for


def test_an_action_tells_how_far_its_environment_is() -> None:
    watched = Watched(node(memory=100), opening_limit=1)
    for name in ("e", "f", "g", "h"):
        watched.request(environment(name, memory=30, cpu=0.5))
        watched.submit(action(f"in {name}", environment=name))

    told = [explain(watched, f"in {name}").waits_for for name in ("e", "f", "g", "h")]

    assert [
        "environment e to open",
        "environment f to open on n0, 0 before it",
        "environment g to open on n0, 1 before it",
        "room for environment h, which needs cpus=0.5 memory=30MiB",
    ] == told
    assert ["n0", "n0", "n0", None] == [
        explain(watched, f"in {name}").node for name in ("e", "f", "g", "h")
    ]


def test_an_environment_without_needs_that_waits_for_its_next_try_says_so() -> None:
    watched = Watched(node())
    watched.request(environment("e"))
    watched.submit(action("a", environment="e"))
    watched.broke("e")

    assert "room for environment e, which needs nothing" == explain(watched, "a").waits_for


def test_what_runs_or_stops_waits_for_nothing() -> None:
    watched = Watched(node())
    watched.submit(action("a", cpu=1))
    running = explain(watched, "a")
    watched.cancel("a")
    stopping = explain(watched, "a")
    watched.exit("a")

    assert ("running", "", "n0") == (running.phase, running.waits_for, running.node)
    assert ("stopping", "", "n0") == (stopping.phase, stopping.waits_for, stopping.node)
    assert Explanation(action=ActionId("a"), phase="done") == explain(watched, "a")


@given(
    waiting=st.lists(
        st.tuples(st.sampled_from(["t0", "t1", "t2"]), st.sampled_from([0, 0, 1]), st.booleans()),
        max_size=14,
    )
)
def test_those_named_are_those_served_before(waiting: list[tuple[str, int, bool]]) -> None:
    """With one core and equal actions, who is behind whom is the order in which they start."""
    watched = Watched(node(cpu=1))
    watched.submit(action("first", cpu=1, task="other"))
    for i, (task, priority, _) in enumerate(waiting):
        watched.submit(action(f"a{i}", cpu=1, task=task, priority=priority))
    names = [f"a{i}" for i in range(len(waiting))]
    told = {name: explain(watched, name) for name in names}

    by_place = sorted(names, key=lambda name: told[name].ahead)

    assert list(range(len(names))) == [told[name].ahead for name in by_place]
    for place, name in enumerate(by_place):
        assert tuple(by_place[max(place - 10, 0) : place][::-1]) == told[name].behind
    if by_place:
        watched.exit("first")
        assert [by_place[0]] == watched.running()
