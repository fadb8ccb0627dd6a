"""Actions that need tokens of a quota: refused, woken, kept in order, and held up by nothing else."""

from __future__ import annotations

import pytest

from arl_tangram.core.commands import Command
from arl_tangram.core.events import QuotaDeclared, QuotaThrottled
from arl_tangram.core.model import API, Action, ActionId, Bundle, Outcome, Quota, TaskId
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

    assert "1 tokens of api:key (0 free, 1 held)" in served.kernel.explain(ActionId("b")).waits_for
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
    assert "1 tokens of api:key (paused)" in served.kernel.explain(ActionId("a")).waits_for
    assert ["a"] == started(woken(served))
    assert 3.0 == served.now


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


def test_a_call_that_needs_more_tokens_than_there_are_lets_a_smaller_one_by() -> None:
    served = Served(gpu_node(gpus=1))
    served.quota(Quota(name="key", rate_per_s=1.0, burst=3))
    served.up(service("judge", slots=8))
    served.submit(call("a", "judge", needs={"api:key": 2}))
    served.submit(call("large", "judge", needs={"api:key": 3}))

    assert ["small"] == started(served.submit(call("small", "judge", needs={"api:key": 1})))


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


def test_one_who_needs_fewer_tokens_than_the_first_is_woken_for_those() -> None:
    served = keyed(rate=1.0, burst=3)
    served.submit(metered("a", tokens=3))
    served.submit(metered("large", tokens=3))
    served.submit(metered("small", tokens=1))

    assert ["small"] == started(woken(served))
    assert 1.0 == served.now
    assert ["large"] == started(woken(served))
    assert 4.0 == served.now


def test_an_action_that_holds_a_token_does_not_squat_where_there_are_gpus() -> None:
    served = Served(gpu_node(cpu=16), node("plain", cpu=4))
    served.quota(Quota(name="key", rate_per_s=1.0))
    served.submit(metered("a"))
    served.submit(metered("b", cpu=1))
    woken(served)

    assert ["plain", "plain"] == [served.lease(name).node for name in "ab"]
