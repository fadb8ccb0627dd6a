"""Actions that need tokens of a quota: refused, woken, kept in order, and held up by nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arl_tangram.core.commands import Command
from arl_tangram.core.events import QuotaDeclared, QuotaThrottled
from arl_tangram.core.model import API, Action, ActionId, Bundle, Outcome, Quota, TaskId
from arl_tangram.core.phases import Phase
from arl_tangram.errors import InvariantError
from arl_tangram.testing.builders import action, bundle, environment, node
from arl_tangram.testing.served import Served, call, gpu_node, service
from arl_tangram.testing.watched import started


def metered(
    name: str,
    *,
    tokens: int = 1,
    quota: str = "key",
    cpu: float = 0,
    task: str = "default",
    priority: int = 0,
    more: Bundle | None = None,
) -> Action:
    needs = {API + quota: tokens, **bundle(cpu=cpu), **(more or {})}
    return Action(id=ActionId(name), needs=needs, task=TaskId(task), priority=priority)


def keyed(
    *,
    cpu: float = 4,
    rate: float | None = None,
    burst: int = 1,
    at_once: int | None = None,
) -> Served:
    """One node, and a quota named key."""
    served = Served(node(cpu=cpu))
    served.quota(Quota(name="key", rate_per_s=rate, burst=burst, concurrency=at_once))
    return served


def woken(served: Served) -> list[Command]:
    """Let time pass until the kernel asked to be woken."""
    assert served.ledger.wake_at is not None
    served.now = served.ledger.wake_at
    return served.wake()


def test_who_waits_for_a_token_is_woken_when_it_is_there() -> None:
    served = keyed(rate=2.0)
    served.submit(metered("a"))
    served.submit(metered("b"))

    assert (
        "1 tokens of api:key (0 free, 1 held, the next in 0.5 s)"
        in served.kernel.explain(ActionId("b")).waits_for
    )
    assert ["b"] == started(woken(served))
    assert 0.5 == served.now


def test_the_order_of_waiters_is_priority_then_fairness_then_arrival() -> None:
    served = keyed(rate=1.0)
    served.submit(metered("first", task="x"))
    served.submit(metered("x1", task="x"))
    served.submit(metered("x2", task="x"))
    served.submit(metered("y1", task="y"))
    served.submit(metered("urgent", task="x", priority=1))

    order = [name for _ in range(4) for name in started(woken(served))]

    assert ["urgent", "y1", "x1", "x2"] == order


def test_one_that_waits_for_a_token_holds_up_nobody_who_needs_none() -> None:
    served = keyed(rate=1.0)
    served.submit(metered("a"))
    served.submit(metered("b", cpu=4))

    assert ["c"] == started(served.submit(action("c", cpu=4)))


def test_an_action_takes_cores_and_a_token_together_or_neither() -> None:
    served = keyed(cpu=2, at_once=1)
    served.submit(metered("a", cpu=1))
    served.submit(metered("b", cpu=1))

    assert ["c"] == started(served.submit(action("c", cpu=1)))  # b holds no core while it waits
    served.exit("a")
    assert ["c", "b"] == served.running()


def test_an_action_that_waits_for_cores_holds_no_token() -> None:
    served = keyed(cpu=2, at_once=1)
    served.submit(action("cpu", cpu=2))
    served.submit(metered("a", cpu=1))

    assert ["b"] == started(served.submit(metered("b")))


def test_an_action_in_an_environment_waits_for_its_token_there() -> None:
    served = keyed(at_once=1)
    served.open(environment("e"))
    inside = Action(id=ActionId("b"), needs={"api:key": 1}, environment=environment("e").id)
    served.submit(metered("a"))
    served.submit(inside)
    assert ["a"] == served.running()

    assert ["b"] == started(served.exit("a"))


def test_a_pause_holds_up_everybody_until_it_ends() -> None:
    served = keyed(at_once=4)
    served.feed(QuotaThrottled(at=0.0, quota="key", retry_after_s=3.0))
    served.submit(metered("a"))

    assert [] == served.running()
    assert (
        "1 tokens of api:key (paused for 3.0 s)" in served.kernel.explain(ActionId("a")).waits_for
    )
    assert ["a"] == started(woken(served))
    assert 3.0 == served.now


def test_one_that_needs_two_quotas_names_the_one_that_it_waits_for() -> None:
    served = keyed(rate=1.0)
    served.quota(Quota(name="a", concurrency=5))
    served.submit(metered("first"))
    served.submit(metered("both", more={"api:a": 1}))

    assert "1 tokens of api:key" in served.kernel.explain(ActionId("both")).waits_for


def test_a_pause_of_a_quota_that_nobody_declared_is_no_concern() -> None:
    served = keyed()

    assert [] == served.feed(QuotaThrottled(at=0.0, quota="other", retry_after_s=3.0))


def test_a_quota_is_declared_once() -> None:
    served = keyed()

    with pytest.raises(InvariantError, match="quota key was declared twice"):
        served.kernel.handle(QuotaDeclared(at=0.0, quota=Quota(name="key")))


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (metered("a", quota="kye"), "no quota api:kye is declared (there are: api:key)"),
        (
            metered("a", tokens=3),
            "it needs 3 tokens of api:key at once, more than the quota ever has",
        ),
    ],
)
def test_what_no_quota_can_give_is_refused(wanted: Action, reason: str) -> None:
    served = keyed(rate=1.0, burst=2)

    served.submit(wanted)

    assert Outcome.REJECTED is served.outcome("a")
    assert f"it can never run: {reason}" == served.reason("a")


def test_a_call_for_a_quota_that_is_not_there_is_refused() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("judge"))

    served.submit(call("a", "judge", needs={"api:key": 1}))

    assert "no quota api:key is declared (there are: none)" in served.reason("a")


def test_a_token_goes_to_a_cancelled_one_no_more() -> None:
    served = keyed(rate=1.0)
    served.submit(metered("a"))
    served.submit(metered("b"))
    served.submit(metered("c"))
    served.cancel("b")

    assert ["c"] == started(woken(served))


def test_a_call_that_needs_more_tokens_than_there_are_is_not_passed_by_a_smaller_one() -> None:
    served = Served(gpu_node(gpus=1))
    served.quota(Quota(name="key", rate_per_s=1.0, burst=3))
    served.up(service("judge", slots=8))
    served.submit(call("a", "judge", needs={"api:key": 2}))
    served.submit(call("large", "judge", needs={"api:key": 3}))

    assert [] == started(served.submit(call("small", "judge", needs={"api:key": 1})))
    assert ["large", "small"] == [n for _ in range(5) for n in started(woken(served))]


def test_a_token_that_comes_while_instances_are_busy_changes_nothing() -> None:
    served = Served(gpu_node(gpus=1))
    served.quota(Quota(name="key", rate_per_s=1.0))
    served.up(service("judge"))
    served.submit(call("a", "judge"))
    served.submit(call("b", "judge", needs={"api:key": 1}))
    served.wait(5.0)

    assert [] == started(served.wake())
    assert ["b"] == started(served.exit("a"))


def test_a_crowd_of_calls_that_want_too_many_tokens_is_looked_past_but_not_for_ever() -> None:
    served = Served(gpu_node(gpus=1))
    served.quota(Quota(name="key", rate_per_s=1.0, burst=2))
    served.up(service("judge", slots=2))
    served.submit(call("a", "judge", needs={"api:key": 1}))
    for i in range(20):
        served.submit(call(f"large{i}", "judge", needs={"api:key": 2}))

    assert [] == started(served.submit(call("small", "judge", needs={"api:key": 1})))
    assert ["large0"] == started(woken(served))


def test_one_who_needs_fewer_tokens_than_the_first_does_not_pass_it() -> None:
    served = keyed(rate=1.0, burst=3)
    served.submit(metered("a", tokens=3))
    served.submit(metered("large", tokens=3))
    served.submit(metered("small", tokens=1))

    found = [(name, served.now) for _ in range(5) for name in started(woken(served))]
    assert [("large", 3.0), ("small", 4.0)] == found


def test_an_action_that_holds_a_token_does_not_squat_where_there_are_gpus() -> None:
    served = Served(gpu_node(cpu=16), node("plain", cpu=4))
    served.quota(Quota(name="key", rate_per_s=1.0))
    served.submit(metered("a"))
    served.submit(metered("b", cpu=1))
    woken(served)

    assert ["plain", "plain"] == [served.lease(name).node for name in "ab"]


def test_calls_and_other_actions_get_their_tokens_in_one_order() -> None:
    served = Served(gpu_node(gpus=1), node())
    served.up(service("judge", slots=10))
    served.quota(Quota(name="key", rate_per_s=1.0))
    submitted = [
        metered("p0"),
        metered("p1"),
        call("c2", "judge", needs={"api:key": 1}),
        metered("p3"),
        call("c4", "judge", needs={"api:key": 1}),
        call("urgent", "judge", needs={"api:key": 1}, priority=1),
    ]
    for each in submitted:
        served.submit(each)

    order = [name for _ in range(5) for name in started(woken(served))]

    assert ["urgent", "p1", "c2", "p3", "c4"] == order


def test_a_token_that_an_earlier_action_cannot_use_yet_goes_to_a_call() -> None:
    served = Served(gpu_node(gpus=1, cpu=2))
    served.up(service("judge", slots=10))
    served.quota(Quota(name="key", rate_per_s=1.0))
    served.submit(action("cores", cpu=2))
    served.submit(metered("plain", cpu=1))

    assert ["a"] == started(served.submit(call("a", "judge", needs={"api:key": 1})))


def test_those_who_wait_for_another_quota_do_not_come_before_a_call() -> None:
    served = Served(gpu_node(gpus=1), node())
    served.up(service("judge", slots=10))
    for name in ("key", "other"):
        served.quota(Quota(name=name, rate_per_s=1.0))
        served.submit(metered(f"{name}0", quota=name))
    served.submit(metered("plain", quota="other"))
    served.submit(call("a", "judge", needs={"api:key": 1}))

    assert ["a", "plain"] == started(woken(served))


def test_a_call_that_let_others_go_first_starts_if_they_leave_tokens() -> None:
    served = Served(gpu_node(gpus=1), node())
    served.up(service("judge", slots=10))
    served.quota(Quota(name="key", rate_per_s=2.0, burst=2))
    served.submit(metered("first", tokens=2))
    served.submit(metered("p"))
    served.submit(call("a", "judge", needs={"api:key": 1}))
    served.wait(1.0)

    assert ["p", "a"] == started(served.wake())


# -- one that needs many tokens at once --------------------------------------------------------


def served_with_two_nodes() -> Served:
    served = Served(gpu_node(gpus=1), node(cpu=4), node("n1", cpu=4))
    served.up(service("judge", slots=100))
    served.quota(Quota(name="key", rate_per_s=1.0, burst=3))
    served.submit(metered("first", tokens=3))
    return served


def plain(name: str, tokens: int) -> Action:
    return metered(name, tokens=tokens)


def judged(name: str, tokens: int) -> Action:
    return call(name, "judge", needs={"api:key": tokens})


@pytest.mark.parametrize("large", [plain, judged])
@pytest.mark.parametrize("small", [plain, judged])
def test_it_does_not_starve_behind_those_that_need_one(
    large: Callable[[str, int], Action], small: Callable[[str, int], Action]
) -> None:
    served = served_with_two_nodes()
    served.submit(large("large", 3))
    for i in range(20):
        served.submit(small(f"small{i}", 1))
        served.wait(0.5)
        served.wake()

    assert Phase.RUNNING is served.kernel.phase_of(ActionId("large"))


def test_no_tokens_are_left_for_it_while_it_waits_for_memory_too() -> None:
    served = Served(gpu_node(gpus=1, memory=1000))
    served.up(service("judge", slots=10))
    served.quota(Quota(name="key", rate_per_s=1.0, burst=3))
    served.submit(metered("first", tokens=3))
    served.submit(call("large", "judge", needs={"api:key": 3, "memory": 600}))
    for i in range(2):
        served.submit(metered(f"small{i}"))
        served.wait(1.0)
        served.wake()
    assert served.kernel._cluster.spared
    served.open(environment("e", memory=800))
    inside = Action(id=ActionId("in"), needs={"api:key": 1}, environment=environment("e").id)

    served.submit(inside)
    served.wait(1.0)
    served.wake()

    # Else it would wait for the environment, and the environment for it.
    assert "in" in served.running()


def test_one_that_needs_all_calls_at_once_runs_after_a_pause_too() -> None:
    served = keyed(at_once=2)
    served.feed(QuotaThrottled(at=0.0, quota="key", retry_after_s=1.0))
    served.submit(metered("a", tokens=2))
    assert ["a"] == started(woken(served))
    served.feed(QuotaThrottled(at=served.now, quota="key", retry_after_s=1.0))
    served.exit("a")

    served.submit(metered("b", tokens=2))

    assert ["b"] == started(woken(served))


def test_tokens_are_not_left_for_it_any_more_once_it_is_cancelled() -> None:
    served = served_with_two_nodes()
    served.submit(judged("large", 3))
    for i in range(2):
        served.submit(plain(f"small{i}", 1))
        served.wait(1.0)
        served.wake()
    assert served.kernel._cluster.spared
    before = len(served.running())

    assert ["small0"] == started(served.cancel("large"))[:1]
    assert before < len(served.running())


def test_the_check_fails_if_tokens_are_left_for_one_that_does_not_wait() -> None:
    served = served_with_two_nodes()
    cluster = served.kernel._cluster
    cluster.spared["api:key"] = cluster.entries[ActionId("first")]

    with pytest.raises(InvariantError, match="are left for first, which does not wait for them"):
        served.kernel.check()


def test_the_check_fails_if_a_service_is_not_looked_at_again() -> None:
    served = served_with_two_nodes()
    served.kernel._cluster.yielded["judge"] = None

    with pytest.raises(InvariantError, match="were not looked at again"):
        served.kernel.check()


def test_what_is_more_urgent_does_not_leave_tokens_for_it() -> None:
    served = served_with_two_nodes()
    served.submit(judged("large", 3))
    for i in range(2):
        served.submit(judged(f"small{i}", 1))
        served.wait(1.0)
        served.wake()
    assert served.kernel._cluster.spared

    urgent = call("urgent", "judge", needs={"api:key": 1}, priority=1)
    assert ["urgent"] == started(served.submit(urgent))


def test_one_in_an_environment_has_tokens_left_for_it_against_those_elsewhere() -> None:
    served = Served(node(cpu=4), node("n1", cpu=4))
    served.quota(Quota(name="key", rate_per_s=1.0, burst=3))
    served.open(environment("e"))
    served.submit(metered("first", tokens=3))
    served.submit(
        Action(id=ActionId("large"), needs={"api:key": 3}, environment=environment("e").id)
    )
    for i in range(20):
        served.submit(metered(f"small{i}", cpu=0.1))
        served.wait(0.5)
        served.wake()

    assert "large" in served.running()


def test_a_node_is_lost_while_tokens_are_left_for_one_that_waits_there() -> None:
    served = Served(node("n0", cpu=2), patience_s=1.0)
    served.quota(Quota(name="key", rate_per_s=2.0, burst=2, concurrency=2))
    served.submit(metered("first", cpu=2))
    served.submit(metered("large", tokens=2, cpu=0.5))
    for name in ("n1", "n2"):
        served.join(node(name, cpu=2))
    served.exit("first")
    served.submit(action("other", units=(1, 2)))
    served.submit(metered("small"))
    served.wait(1.0)
    served.wake()
    (waits,) = served.kernel._cluster.spared.values()
    assert waits.bound_to is not None

    served.lose(waits.bound_to)

    assert Phase.RUNNING is served.kernel.phase_of(ActionId("other"))
    for _ in range(3):
        served.drain()
        served.wait(1.0)
        served.wake()
    assert [] == served.ledger.unresolved()
