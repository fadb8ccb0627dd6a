"""Tasks share each thing by itself: who holds least of it goes first, and who holds as much takes turns."""

from __future__ import annotations

import pytest

from arl_tangram.core import shares as shares_module
from arl_tangram.core.model import API, Action, ActionId, Quota, TaskId
from arl_tangram.core.shares import Shares, Standing
from arl_tangram.testing.builders import action, bundle, node
from arl_tangram.testing.served import Served, call, gpu_node, service
from arl_tangram.testing.watched import started


def token(name: str, *, cpu: float = 0, tokens: int = 1) -> Action:
    """An action that needs tokens; the letter its name begins with is its task."""
    needs = {API + "key": tokens, **bundle(cpu=cpu)}
    return Action(id=ActionId(name), needs=needs, task=TaskId(name[0]))


def serially(served: Served, *, after_s: float = 0.1) -> list[str]:
    """The order in which all that waits runs, each ending before the next begins."""
    order: list[str] = []
    while running := served.running():
        order += running
        for name in running:
            served.now += after_s
            served.exit(name)
        if not served.running() and served.ledger.unresolved():
            assert served.ledger.wake_at is not None
            served.now = served.ledger.wake_at
            served.wake()
    return order


QUOTAS = {
    "one call at once": Quota(name="key", concurrency=1),
    "short calls at a rate": Quota(name="key", rate_per_s=1.0),
    "both": Quota(name="key", rate_per_s=1.0, concurrency=1),
    "found by itself": Quota(name="key", rate_per_s=1.0, adaptive=True),
}


@pytest.mark.parametrize("quota", QUOTAS.values(), ids=QUOTAS)
def test_a_task_that_came_later_has_every_other_token(quota: Quota) -> None:
    served = Served(node())
    served.quota(quota)
    for name in ("a0", "a1", "a2", "a3", "a4", "b0", "b1"):
        served.submit(token(name))

    assert ["a0", "b0", "a1", "b1", "a2", "a3", "a4"] == serially(served)


def test_a_task_that_was_away_has_no_turns_saved_up() -> None:
    served = Served(node())
    served.quota(Quota(name="key", concurrency=1))
    for i in range(5):
        served.submit(token(f"a{i}"))
        served.exit(f"a{i}")
    for name in ("a5", "a6", "a7", "b0", "b1", "b2"):
        served.submit(token(name))

    assert ["a5", "b0", "a6", "b1", "a7", "b2"] == serially(served)


def test_long_calls_at_a_rate_do_not_cost_a_task_its_turns() -> None:
    served = Served(node())
    served.quota(Quota(name="key", rate_per_s=1.0))
    for name in ("a0", "a1", "a2", "b0", "b1", "b2"):
        served.submit(token(name))

    order = ["a0"]
    for _ in range(5):  # those of a go on and on, those of b end at once
        if order[-1].startswith("b"):
            served.exit(order[-1])
        served.now += 1.0
        order += started(served.wake())

    assert ["a0", "b0", "a1", "b1", "a2", "b2"] == order


def test_a_task_with_long_calls_has_no_more_places_at_once_than_the_others() -> None:
    served = Served(node())
    served.quota(Quota(name="key", concurrency=2))
    for name in ("a0", "b0", "a1", "a2", "b1", "b2"):
        served.submit(token(name))

    order = [name for _ in range(2) for name in started(served.exit(served.running()[-1]))]

    assert ["a0", "b2"] == served.running()
    assert ["b1", "b2"] == order


def test_cores_that_a_task_holds_count_at_nodes_alone() -> None:
    served = Served(node(cpu=8))
    served.quota(Quota(name="key", concurrency=1))
    served.submit(action("cores", cpu=8, task="a"))
    for name in ("b0", "b1", "b2", "a0", "a1"):
        served.submit(token(name))

    served.exit("b0")
    order = ["b0"]
    while waiting := [name for name in served.running() if name != "cores"]:
        order += waiting
        served.exit(waiting[0])

    assert ["b0", "a0", "b1", "a1", "b2"] == order


def test_one_core_goes_to_tasks_in_turn() -> None:
    served = Served(node(cpu=1))
    for name in ("a0", "a1", "a2", "b0", "b1"):
        served.submit(action(name, cpu=1, task=name[0]))

    assert ["a0", "b0", "a1", "b1", "a2"] == serially(served)


def test_cores_that_a_task_holds_do_not_count_at_services() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("judge"))
    served.submit(action("cores", cpu=4, task="a"))
    for name in ("b0", "b1", "a0", "a1"):
        served.submit(call(name, "judge", task=name[0]))
    served.settle()

    order = []
    while waiting := [name for name in served.running() if name != "cores"]:
        order += waiting
        served.exit(waiting[0])

    assert ["b0", "a0", "b1", "a1"] == order


def test_an_instance_answers_tasks_in_turn() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("judge"))
    for name in ("a0", "a1", "a2", "b0", "b1"):
        served.submit(call(name, "judge", task=name[0]))
    served.settle()

    assert ["a0", "b0", "a1", "b1", "a2"] == serially(served)


def test_calls_and_other_actions_have_tokens_in_turn() -> None:
    served = Served(gpu_node(gpus=1))
    served.quota(Quota(name="key", concurrency=1))
    served.declare(service("judge", slots=8))
    served.submit(call("warm", "judge"))
    served.settle()
    served.exit("warm")
    for i in range(3):
        served.submit(call(f"a{i}", "judge", task="a", needs={API + "key": 1}))
    for name in ("b0", "b1", "c0"):
        served.submit(token(name, cpu=1 if name == "c0" else 0))

    assert ["a0", "b0", "c0", "a1", "b1", "a2"] == serially(served)


def test_tasks_that_are_forgotten_are_like_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares_module, "REMEMBERED", 2)
    shares = Shares()
    for name in "abac":
        shares.take(TaskId(name), 1)

    assert [Standing(2, 3), Standing(1, 0), Standing(1, 4)] == [
        shares.standing(TaskId(name)) for name in "abc"
    ]


def test_tokens_that_a_task_holds_do_not_count_at_nodes() -> None:
    served = Served(node(cpu=1))
    served.quota(Quota(name="key", concurrency=9))
    served.submit(action("b0", cpu=1, task="b"))
    served.submit(token("a0"))
    for name in ("a1", "b1"):
        served.submit(action(name, cpu=1, task=name[0]))

    assert ["a1"] == started(served.exit("b0"))
