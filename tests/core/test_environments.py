"""Environments are placed by load, opened through a ramp, and always seen off."""

from __future__ import annotations

import pytest

from arl_tangram.core.commands import CloseEnvironment, Stop, WakeAt
from arl_tangram.core.model import Outcome
from arl_tangram.core.phases import EnvironmentPhase, Phase
from arl_tangram.testing.builders import action, environment, node
from arl_tangram.testing.watched import Watched, opening, resolved_environments, started


def phase(watched: Watched, name: str) -> EnvironmentPhase:
    return watched.kernel.phase_of_environment(name)  # type: ignore[arg-type]


def test_an_environment_opens_and_its_waiting_actions_start_in_order() -> None:
    watched = Watched(node(cpu=2))
    watched.request(environment("e"))
    for name in "abc":
        watched.submit(action(name, cpu=1, environment="e"))

    assert ["a", "b"] == started(watched.opened("e"))
    assert ["c"] == started(watched.exit("a"))


def test_environments_spread_over_the_nodes_by_load() -> None:
    watched = Watched(node("big", cpu=8), node("small", cpu=4))

    places = [opening(watched.request(environment(f"e{i}"))) for i in range(6)]

    nodes = [next(iter(place.values())) for place in places]
    assert 4 == nodes.count("big")
    assert 2 == nodes.count("small")


def test_a_node_opens_only_so_many_environments_at_once() -> None:
    watched = Watched(node(), opening_limit=2)
    for i in range(5):
        watched.request(environment(f"e{i}"))

    assert [EnvironmentPhase.OPENING] * 2 == [phase(watched, f"e{i}") for i in (0, 1)]
    assert [EnvironmentPhase.PLACED] * 3 == [phase(watched, f"e{i}") for i in (2, 3, 4)]
    assert {"e2": "n0"} == opening(watched.opened("e1"))
    assert {"e3": "n0"} == opening(watched.broke("e0"))


def test_an_environment_given_up_while_it_opens_makes_room_on_the_ramp() -> None:
    watched = Watched(node(), opening_limit=1)
    watched.request(environment("e"))
    watched.request(environment("f"))

    commands = watched.close("e")

    assert {"f": "n0"} == opening(commands)
    assert [CloseEnvironment("e", "n0")] == [c for c in commands if isinstance(c, CloseEnvironment)]  # type: ignore[arg-type]


def test_an_opening_that_fails_is_tried_again_later_on_another_node() -> None:
    watched = Watched(node("n0", cpu=8), node("n1", cpu=4))
    assert {"e": "n0"} == opening(watched.request(environment("e")))

    commands = watched.broke("e")

    assert [WakeAt(0.25)] == commands
    watched.wait(0.25)
    assert {"e": "n1"} == opening(watched.wake())


def test_an_opening_that_fails_three_times_is_lost_with_its_waiting_actions() -> None:
    watched = Watched(node())
    watched.request(environment("e"))
    watched.submit(action("a", environment="e"))
    for _ in range(2):
        watched.broke("e", "no space left")
        watched.wait(1.0)
        watched.wake()

    commands = watched.broke("e", "no space left")

    assert {"e": Outcome.LOST} == resolved_environments(commands)
    assert Outcome.LOST is watched.outcome("a")
    assert "no space left" == watched.reason("a")


def test_an_environment_can_be_closed_when_its_next_opening_is_due_but_the_wake_up_is_late() -> (
    None
):
    watched = Watched(node())
    watched.request(environment("e"))
    watched.broke("e")
    watched.wait(1.0)

    commands = watched.close("e")

    assert {"e": Outcome.CANCELLED} == resolved_environments(commands)
    assert EnvironmentPhase.CLOSED is phase(watched, "e")


def test_an_environment_can_be_closed_while_it_waits_to_be_tried_again() -> None:
    watched = Watched(node())
    watched.request(environment("e"))
    watched.broke("e")

    assert {"e": Outcome.CANCELLED} == resolved_environments(watched.close("e"))
    watched.wait(1.0)
    assert [] == watched.wake()


def test_a_late_answer_to_an_earlier_opening_is_ignored() -> None:
    watched = Watched(node("n0"), node("n1"))
    watched.request(environment("e"))
    watched.broke("e")
    watched.wait(1.0)
    watched.wake()
    watched.ledger.places["e"].attempt = 1  # type: ignore[index]

    watched.opened("e")
    watched.broke("e")

    assert EnvironmentPhase.OPENING is phase(watched, "e")


def test_closing_cancels_what_waits_stops_what_runs_and_then_closes() -> None:
    watched = Watched(node(cpu=1))
    watched.open(environment("e", memory=100))
    watched.submit(action("a", cpu=1, environment="e"))
    watched.submit(action("b", cpu=1, environment="e"))

    commands = watched.close("e")

    assert [Stop(watched.lease("a"))] == [c for c in commands if isinstance(c, Stop)]
    assert Outcome.CANCELLED is watched.outcome("b")
    assert Phase.STOPPING is watched.phase("a")
    assert [CloseEnvironment("e", "n0")] == watched.exit("a", Outcome.FAILED)[-1:]  # type: ignore[arg-type]
    assert Outcome.CANCELLED is watched.outcome("a")
    assert "its environment was closed" == watched.reason("a")
    assert [] == watched.close("e")
    watched.closed("e")
    assert EnvironmentPhase.CLOSED is phase(watched, "e")


def test_what_runs_in_an_environment_that_breaks_is_lost() -> None:
    watched = Watched(node(cpu=1))
    watched.open(environment("e"))
    watched.submit(action("a", cpu=1, environment="e"))
    watched.submit(action("b", cpu=1, environment="e"))

    commands = watched.broke("e", "its supervisor died")
    watched.exit("a", Outcome.FAILED)

    assert {"e": Outcome.LOST} == resolved_environments(commands)
    assert [Outcome.LOST] * 2 == [watched.outcome(name) for name in "ab"]
    assert ["its supervisor died"] * 2 == [watched.reason(name) for name in "ab"]


def test_what_was_cancelled_before_its_environment_broke_stays_cancelled() -> None:
    watched = Watched(node(cpu=1))
    watched.open(environment("e"))
    watched.submit(action("a", cpu=1, environment="e"))
    watched.cancel("a")
    watched.broke("e")

    watched.exit("a", Outcome.FAILED)

    assert Outcome.CANCELLED is watched.outcome("a")


def test_an_environment_that_waits_for_room_is_placed_when_another_is_closed() -> None:
    watched = Watched(node(memory=100))
    watched.open(environment("e", memory=60))
    watched.request(environment("f", memory=60))
    assert EnvironmentPhase.WAITING is phase(watched, "f")

    watched.close("e")

    assert {"f": "n0"} == opening(watched.closed("e"))


def test_an_environment_that_owns_cores_is_told_which() -> None:
    watched = Watched(node(cpu=4))
    watched.submit(action("a", cpu=1))

    watched.request(environment("e", cpu=2.5))

    assert (1, 2, 3) == watched.ledger.places["e"].cores  # type: ignore[index]


def test_an_environment_that_waits_for_cores_gets_those_of_an_action_that_ends() -> None:
    watched = Watched(node(cpu=4))
    watched.submit(action("a", cpu=3))
    watched.request(environment("e", cpu=2))
    assert EnvironmentPhase.WAITING is phase(watched, "e")

    assert {"e": "n0"} == opening(watched.exit("a"))


def test_an_environment_that_needs_cores_is_not_starved_by_a_stream_of_actions() -> None:
    watched = Watched(node(cpu=4), patience_s=2.0)
    for i in range(4):
        watched.submit(action(f"a{i}", cpu=1))
        watched.wait(0.1)
    watched.request(environment("e", cpu=2))

    for i in range(4, 60):
        watched.submit(action(f"a{i}", cpu=1))
        watched.wait(0.25)
        watched.exit(watched.running()[0])

    assert EnvironmentPhase.OPENING is phase(watched, "e")


@pytest.mark.parametrize("last", ["it is closed", "it is placed elsewhere"])
def test_what_was_kept_for_an_environment_is_free_for_others_once(last: str) -> None:
    watched = Watched(node("n0", cpu=4), patience_s=1.0)
    watched.open(environment("small"))
    watched.submit(action("long", cpu=3, environment="small"))
    watched.request(environment("big", cpu=4))
    watched.wait(2.0)
    watched.submit(action("a", cpu=1))
    assert ["long", "a"] == watched.running()
    watched.exit("a")
    watched.submit(action("b", cpu=1, environment="small"))
    assert Phase.QUEUED is watched.phase("b")

    commands = watched.close("big") if last == "it is closed" else watched.join(node("n1", cpu=4))

    assert ["b"] == started(commands)


def test_a_big_environment_is_not_starved_by_a_stream_of_small_ones() -> None:
    watched = Watched(node(memory=100), patience_s=2.0)
    for i in range(4):
        watched.open(environment(f"s{i}", memory=25))
    watched.request(environment("big", memory=60))
    closed_at = None
    for i in range(4, 40):
        watched.wait(0.5)
        watched.request(environment(f"s{i}", memory=25))
        name = next(n for n, p in watched.ledger.places.items() if p.state in {"open", "opening"})
        watched.close(name)
        watched.closed(name)
        if "big" in [n for n, p in watched.ledger.places.items() if p.state == "opening"]:
            closed_at = watched.now
            break

    assert closed_at is not None
    assert closed_at <= 2.0 + 4 * 0.5


def test_an_environment_on_a_lost_node_opens_elsewhere_if_nothing_had_happened_in_it() -> None:
    watched = Watched(node("n0"), opening_limit=1)
    watched.request(environment("opening"))
    watched.request(environment("placed"))
    watched.submit(action("a", environment="opening"))
    watched.join(node("n1"))

    assert {"opening": "n1"} == opening(watched.lose("n0"))
    assert ["a"] == started(watched.opened("opening"))
    assert EnvironmentPhase.OPENING is phase(watched, "placed")


def test_an_open_environment_on_a_lost_node_is_lost_with_its_actions() -> None:
    watched = Watched(node("n0", cpu=1), node("n1", cpu=1))
    watched.request(environment("e"))
    watched.opened("e")
    watched.submit(action("a", cpu=1, environment="e"))
    watched.submit(action("b", cpu=1, environment="e"))

    commands = watched.lose("n0")

    assert {"e": Outcome.LOST} == resolved_environments(commands)
    assert [Outcome.LOST] * 2 == [watched.outcome(name) for name in "ab"]


def test_a_closing_environment_on_a_lost_node_needs_no_closing() -> None:
    watched = Watched(node("n0", cpu=1))
    watched.open(environment("e"))
    watched.submit(action("a", cpu=1, environment="e"))
    watched.close("e")

    commands = watched.lose("n0")

    assert Outcome.CANCELLED is watched.outcome("a")
    assert {} == resolved_environments(commands)
    assert [] == watched.closed("e")


def test_asking_twice_is_asking_once() -> None:
    watched = Watched(node(memory=100))
    watched.request(environment("e", memory=60))

    assert [] == watched.request(environment("e", memory=60))
    watched.opened("e")
    watched.close("e")
    watched.closed("e")
    assert [] == watched.request(environment("e", memory=60))


def test_a_fair_share_of_places_goes_to_each_task() -> None:
    watched = Watched(node(memory=100))
    watched.open(environment("long", memory=100))
    for i in range(20):
        watched.request(environment(f"many{i}", memory=25, task="many"))
    for i in range(2):
        watched.request(environment(f"few{i}", memory=25, task="few"))

    watched.close("long")
    placed = opening(watched.closed("long"))

    assert ["many0", "few0", "many1", "few1"] == list(placed)


def test_environments_of_higher_priority_go_first() -> None:
    watched = Watched(node(memory=100))
    watched.open(environment("long", memory=100))
    watched.request(environment("low", memory=60))
    watched.request(environment("high", memory=60, priority=1))

    watched.close("long")

    assert {"high": "n0"} == opening(watched.closed("long"))


def test_an_environment_without_needs_fits_on_a_node_without_any() -> None:
    watched = Watched(node(cpu=0, memory=0))

    assert {"e": "n0"} == opening(watched.request(environment("e")))


def test_closing_one_that_nobody_asked_for_is_no_concern() -> None:
    watched = Watched(node())

    assert [] == watched.close("nobody")
