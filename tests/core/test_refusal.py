"""What can never run is refused at once, with what it needs and what there is."""

from __future__ import annotations

import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.core.phases import Phase
from arl_tangram.testing.builders import action, environment, node
from arl_tangram.testing.watched import Watched, resolved_environments, started


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (
            action("a", cpu=5),
            "it can never run: it needs cpus=5, and the largest node has cpus=4",
        ),
        (
            action("a", cpu=1, memory=9000),
            "it can never run: it needs memory=9000MiB, and the largest node has memory=8192MiB",
        ),
        (
            action("a", units=(5, 6)),
            "it can never run: it needs cpus=5, and the largest node has cpus=4",
        ),
        (action("a", gpu=1), "it can never run: it needs gpu=1, and the largest node has gpu=0"),
        (
            action("a", cpu=4, memory=8000),
            (
                "it can never run: it needs cpus=4 memory=8000MiB together, "
                "and no single node has all of it"
            ),
        ),
    ],
)
def test_an_action_that_fits_on_no_node_is_rejected_with_resource_and_amounts(
    wanted: object, reason: str
) -> None:
    watched = Watched(node("n0", cpu=4), node("n1", cpu=2, memory=8192))

    watched.submit(wanted)  # type: ignore[arg-type]

    assert Outcome.REJECTED is watched.outcome("a")
    assert reason == watched.reason("a")


def test_an_action_that_just_fits_is_not_rejected() -> None:
    watched = Watched(node(cpu=4, memory=100))

    assert ["a"] == started(watched.submit(action("a", cpu=4, memory=100)))


def test_before_any_node_has_joined_nothing_is_rejected() -> None:
    watched = Watched()

    watched.submit(action("a", cpu=64))

    assert Phase.QUEUED is watched.phase("a")


def test_an_environment_that_fits_on_no_node_is_rejected_with_its_waiting_actions() -> None:
    watched = Watched()
    watched.request(environment("e", memory=500))
    watched.join(node(memory=400))

    commands = watched.request(environment("f", memory=500))

    assert {"f": Outcome.REJECTED} == resolved_environments(commands)
    watched.submit(action("a", environment="f"))
    assert Outcome.REJECTED is watched.outcome("a")
    assert (
        "environment f is not open: environment f can never open: "
        "it needs memory=500MiB, and the largest node has memory=400MiB" == watched.reason("a")
    )


def test_what_an_environment_holds_counts_against_its_actions() -> None:
    watched = Watched(node(memory=400))
    watched.open(environment("e", memory=300))

    watched.submit(action("a", memory=101, environment="e"))
    watched.submit(action("b", memory=100, environment="e"))

    assert Outcome.REJECTED is watched.outcome("a")
    assert ["b"] == watched.running()


def test_an_action_must_fit_on_the_node_of_its_environment() -> None:
    watched = Watched(node("small", cpu=2))
    watched.open(environment("e"))
    watched.join(node("large", cpu=8))

    watched.submit(action("a", cpu=3, environment="e"))

    assert Outcome.REJECTED is watched.outcome("a")
    assert (
        "it can never run: it needs cpus=3, and its environment is on small, which has cpus=2"
        == watched.reason("a")
    )


def test_an_action_that_waited_for_its_environment_must_fit_where_that_opens() -> None:
    watched = Watched(node("small", cpu=2))
    watched.request(environment("e"))
    watched.join(node("large", cpu=8))
    watched.submit(action("a", cpu=3, environment="e"))
    watched.submit(action("b", cpu=2, environment="e"))

    watched.opened("e")

    assert Outcome.REJECTED is watched.outcome("a")
    assert ["b"] == watched.running()


def test_an_action_for_an_environment_nobody_asked_for_is_rejected() -> None:
    watched = Watched(node())

    watched.submit(action("a", environment="e"))

    assert Outcome.REJECTED is watched.outcome("a")
    assert "environment e is not open: it was never asked for" == watched.reason("a")


def test_an_action_for_an_environment_that_was_closed_is_cancelled() -> None:
    watched = Watched(node())
    watched.open(environment("e"))
    watched.close("e")
    watched.submit(action("a", environment="e"))
    watched.closed("e")
    watched.submit(action("b", environment="e"))

    assert [Outcome.CANCELLED] * 2 == [watched.outcome(name) for name in "ab"]
    assert "environment e is closing" == watched.reason("a")
    assert "environment e is not open: it was closed" == watched.reason("b")


def test_an_action_for_an_environment_that_broke_is_lost_not_cancelled() -> None:
    watched = Watched(node())
    watched.open(environment("e"))
    watched.broke("e", "its supervisor died")
    watched.submit(action("a", environment="e"))
    watched.closed("e")
    watched.submit(action("b", environment="e"))

    assert [Outcome.LOST] * 2 == [watched.outcome(name) for name in "ab"]
    assert "environment e is not open: its supervisor died" == watched.reason("a")
