"""An action from its submission to its one end, whatever happens on the way."""

from __future__ import annotations

import pytest

from arl_tangram.core.commands import Resolve, Start, Stop
from arl_tangram.core.events import (
    ActionExited,
    ActionSubmitted,
    CancelRequested,
    EnvironmentRequested,
    NodeJoined,
    NodeLost,
)
from arl_tangram.core.kernel import Kernel
from arl_tangram.core.model import ActionId, NodeId, Outcome
from arl_tangram.core.phases import Phase
from arl_tangram.errors import InvariantError, UnknownAction
from arl_tangram.policies.registry import policy_named
from arl_tangram.testing.builders import action, environment, node
from arl_tangram.testing.watched import Watched, resized, started


def test_an_action_starts_on_concrete_cores_and_ends_with_what_the_executor_saw() -> None:
    watched = Watched(node(cpu=4))

    (start,) = watched.submit(action("a", cpu=2.5, memory=100))
    assert isinstance(start, Start)
    assert (0, 1, 2) == start.lease.grant.cores
    assert {"cpu": 2500, "memory": 100} == dict(start.lease.grant.amounts)
    assert Phase.RUNNING is watched.phase("a")
    assert watched.outcome("a") is None

    commands = watched.exit("a", Outcome.FAILED, reason="exit status 1")

    assert [Resolve(ActionId("a"), Outcome.FAILED, "exit status 1")] == commands
    assert Phase.DONE is watched.phase("a")
    assert Outcome.FAILED is watched.outcome("a")


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.LOST])
def test_every_outcome_but_lost_ends_an_action_at_its_first_attempt(outcome: Outcome) -> None:
    watched = Watched(node())
    watched.submit(action("a", cpu=1))

    watched.exit("a", outcome)

    assert outcome is watched.outcome("a")


def test_a_repeated_submit_is_the_same_submit_in_every_phase() -> None:
    watched = Watched(node(cpu=1))
    watched.submit(action("a", cpu=1))
    watched.submit(action("b", cpu=1))

    assert [[], []] == [watched.submit(action(name, cpu=1)) for name in "ab"]
    watched.cancel("a")
    assert [] == watched.submit(action("a", cpu=1))
    watched.exit("a")
    watched.exit("b")
    assert [[], []] == [watched.submit(action(name, cpu=1)) for name in "ab"]


# -- cancellation ----------------------------------------------------------------------------


def test_cancelling_what_waits_ends_it_at_once() -> None:
    watched = Watched(node(cpu=1))
    watched.submit(action("a", cpu=1))
    watched.submit(action("b", cpu=1))

    commands = watched.cancel("b")

    reason = "it was cancelled while it waited"
    assert [Resolve(ActionId("b"), Outcome.CANCELLED, reason)] == commands


def test_cancelling_what_waits_for_its_environment_ends_it_at_once() -> None:
    watched = Watched(node())
    watched.request(environment("e"))
    watched.submit(action("a", environment="e"))

    watched.cancel("a")

    assert Outcome.CANCELLED is watched.outcome("a")
    assert [] == started(watched.opened("e"))


def test_a_cancelled_action_keeps_its_cores_until_its_process_is_gone() -> None:
    watched = Watched(node(cpu=1))
    watched.submit(action("a", cpu=1))
    watched.submit(action("b", cpu=1))

    assert [Stop(watched.lease("a"))] == watched.cancel("a")
    assert Phase.STOPPING is watched.phase("a")

    commands = watched.exit("a", Outcome.SUCCEEDED)

    assert ["b"] == started(commands)
    assert Outcome.CANCELLED is watched.outcome("a")
    assert "it was cancelled while it ran" == watched.reason("a")


def test_cancelling_again_or_too_late_changes_nothing() -> None:
    watched = Watched(node(cpu=1))
    watched.submit(action("a", cpu=1))
    watched.cancel("a")

    assert [] == watched.cancel("a")
    watched.exit("a")
    assert [] == watched.cancel("a")
    assert [] == watched.cancel("never heard of")


def test_an_action_that_is_stopping_is_not_resized() -> None:
    watched = Watched(node(cpu=4))
    watched.submit(action("a", units=(1, 2, 3, 4)))
    watched.submit(action("b", units=(1, 2, 3, 4)))
    watched.cancel("a")
    held = watched.units("a")

    commands = watched.exit("b")

    assert {} == resized(commands)
    assert held == watched.units("a")


# -- attempts --------------------------------------------------------------------------------


def test_a_lost_attempt_is_tried_again_up_to_its_limit_and_then_lost() -> None:
    watched = Watched(node())
    watched.submit(action("a", cpu=1, max_attempts=3))
    attempts = [watched.lease("a").attempt]
    for _ in range(2):
        watched.exit("a", Outcome.LOST)
        attempts.append(watched.lease("a").attempt)

    watched.exit("a", Outcome.LOST, reason="no route to host")

    assert [1, 2, 3] == attempts
    assert Outcome.LOST is watched.outcome("a")
    assert "no route to host" == watched.reason("a")


def test_a_lost_attempt_in_an_environment_is_not_repeated_since_it_may_have_changed_it() -> None:
    watched = Watched(node())
    watched.open(environment("e"))
    watched.submit(action("a", cpu=1, environment="e"))

    watched.exit("a", Outcome.LOST)

    assert Outcome.LOST is watched.outcome("a")


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_late_echo_of_an_earlier_attempt_is_ignored(outcome: Outcome) -> None:
    watched = Watched(node())
    watched.submit(action("a", cpu=1))
    watched.exit("a", Outcome.LOST)
    lease = watched.lease("a")
    assert 2 == lease.attempt

    commands = watched.feed(
        ActionExited(at=watched.now, action=lease.action, attempt=1, outcome=outcome)
    )

    assert [] == commands
    assert lease == watched.lease("a")
    assert Phase.RUNNING is watched.phase("a")


def test_an_exit_of_what_does_not_run_is_ignored() -> None:
    watched = Watched(node(cpu=1))
    watched.submit(action("a", cpu=1))
    watched.submit(action("b", cpu=1))
    for name in ("b", "never heard of"):
        exited = ActionExited(
            at=watched.now, action=ActionId(name), attempt=0, outcome=Outcome.SUCCEEDED
        )

        assert [] == watched.feed(exited)

    assert Phase.QUEUED is watched.phase("b")


def test_a_retried_action_goes_before_those_who_came_after_it() -> None:
    watched = Watched(node(cpu=1))
    for name in "abc":
        watched.submit(action(name, cpu=1))

    assert ["a"] == started(watched.exit("a", Outcome.LOST))


def test_a_failing_executor_teaches_the_estimates_nothing() -> None:
    watched = Watched(node())
    wanted = action("a", cpu=1)
    before = watched.kernel.estimates.work(wanted)
    watched.submit(wanted)
    watched.wait(100.0)

    watched.exit("a", Outcome.LOST)
    watched.wait(100.0)
    watched.exit("a", Outcome.OUT_OF_MEMORY)

    assert before == watched.kernel.estimates.work(action("b"))


def test_a_finished_action_teaches_the_estimates_its_work() -> None:
    watched = Watched(node(cpu=4))
    for i in range(50):
        watched.submit(action(f"a{i}", cpu=1, kind="slow"))
        watched.wait(100.0)
        watched.exit(f"a{i}")

    assert pytest.approx(100.0, rel=0.3) == watched.kernel.estimates.work(action("b", kind="slow"))


# -- nodes -----------------------------------------------------------------------------------


def test_what_ran_on_a_lost_node_runs_again_elsewhere_in_the_order_of_arrival() -> None:
    watched = Watched(node("n0", cpu=3))
    for name in "abc":
        watched.submit(action(name, cpu=1))
    watched.join(node("n1", cpu=1))

    assert ["a"] == started(watched.lose("n0"))
    assert ("n1", 2) == (watched.lease("a").node, watched.lease("a").attempt)
    assert ["b"] == started(watched.exit("a"))
    assert ["c"] == started(watched.exit("b"))


def test_what_was_to_stop_on_a_lost_node_is_cancelled() -> None:
    watched = Watched(node("n0"), node("n1"))
    watched.submit(action("a", cpu=1))
    watched.cancel("a")

    watched.lose(watched.lease("a").node)

    assert Outcome.CANCELLED is watched.outcome("a")


def test_an_action_that_ran_out_of_attempts_with_its_node_is_lost() -> None:
    watched = Watched(node("n0"))
    watched.submit(action("a", cpu=1, max_attempts=1))

    watched.lose("n0")

    assert Outcome.LOST is watched.outcome("a")
    assert "node n0 was lost" == watched.reason("a")


def test_what_waited_for_a_lost_node_alone_can_go_anywhere_again() -> None:
    watched = Watched(node("n0", cpu=2), patience_s=1.0)
    watched.submit(action("long", cpu=1))
    watched.submit(action("big", cpu=2))
    for i in range(4):
        watched.submit(action(f"s{i}", cpu=1))
        watched.wait(0.5)
        if f"s{i}" in watched.running():
            watched.exit(f"s{i}")
    assert "n0" == watched.kernel.explain(ActionId("big")).node
    watched.join(node("n1", cpu=8))

    watched.lose("n0")

    assert "n1" == watched.lease("big").node


def test_the_loss_of_an_unknown_node_is_ignored() -> None:
    watched = Watched(node())

    assert [] == watched.feed(NodeLost(at=0.0, node=NodeId("never heard of")))


def test_a_node_that_comes_back_is_a_new_node() -> None:
    watched = Watched(node("n0", cpu=1))
    watched.submit(action("a", cpu=1))
    watched.lose("n0")

    assert ["a"] == started(watched.join(node("n0", cpu=1)))


def test_a_node_that_joins_takes_what_waits() -> None:
    watched = Watched(node("n0", cpu=1))
    watched.submit(action("a", cpu=1))
    watched.submit(action("b", cpu=1))

    assert ["b"] == started(watched.join(node("n1", cpu=1)))


def test_a_node_that_joins_twice_is_a_bug_of_the_driver() -> None:
    watched = Watched(node("n0"))

    with pytest.raises(InvariantError, match="node n0 joined twice"):
        watched.join(node("n0"))


def test_time_that_goes_back_is_a_bug_of_the_driver() -> None:
    watched = Watched(node())
    watched.wait(1.0)
    watched.wake()

    with pytest.raises(InvariantError, match=r"time went back: 0\.5 < 1\.0"):
        watched.kernel.handle(CancelRequested(at=0.5, action=ActionId("a")))


def test_an_unknown_action_is_named() -> None:
    kernel = Watched(node()).kernel

    for question in (kernel.phase_of, kernel.outcome_of, kernel.explain):
        with pytest.raises(UnknownAction, match="no action has the id 'a'"):
            question(ActionId("a"))


def test_only_so_many_ended_actions_and_environments_are_remembered() -> None:
    kernel = Kernel(policy_named("inflight"), remembered=3)
    kernel.handle(NodeJoined(at=0.0, node=node(cpu=1)))
    for i in range(4):
        kernel.handle(ActionSubmitted(at=0.0, action=action(f"a{i}", cpu=2)))
        kernel.handle(EnvironmentRequested(at=0.0, environment=environment(f"e{i}", cpu=2)))

    with pytest.raises(UnknownAction):
        kernel.phase_of(ActionId("a0"))
    assert Phase.DONE is kernel.phase_of(ActionId("a1"))
    again = environment("e0", cpu=2)
    assert [] == kernel.handle(EnvironmentRequested(at=0.0, environment=environment("e1", cpu=2)))
    assert [] != kernel.handle(EnvironmentRequested(at=0.0, environment=again))
