"""Tasks share each thing by itself: who holds least of it goes first, and who holds as much takes turns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arl_tangram.core import shares as shares_module
from arl_tangram.core.model import API, Action, ActionId, Quota, Service, TaskId, Window
from arl_tangram.core.shares import Shares, Standing
from arl_tangram.testing.builders import action, bundle, node
from arl_tangram.testing.served import Served, call, evictions, gpu_node, restores, service
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
        while not served.running() and served.ledger.unresolved():
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


@pytest.mark.parametrize(
    "quota",
    [
        Quota(name="key", rate_per_s=1.0),
        Quota(name="key", rate_per_s=1.0, concurrency=8),
        Quota(name="key", windows=(Window(tokens=1, per_s=0.99),), concurrency=8),
    ],
)
def test_long_calls_at_a_rate_do_not_cost_a_task_its_turns(quota: Quota) -> None:
    served = Served(node())
    served.quota(quota)
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


BIG = {
    "a rate": (Quota(name="key", rate_per_s=1.0, burst=4), "boboboboo"),
    "calls at once": (Quota(name="key", concurrency=4), "boboboboo"),
}


@pytest.mark.parametrize(("quota", "expected"), BIG.values(), ids=BIG)
@pytest.mark.parametrize("cpu", [0, 1])
def test_who_needs_several_tokens_at_once_has_as_many_turns(
    quota: Quota, expected: str, cpu: int
) -> None:
    served = Served(node(cpu=8))
    served.quota(quota)
    served.submit(token("x0", tokens=4))
    for i in range(4):
        served.submit(token(f"b{i}", tokens=4, cpu=cpu))
        served.submit(token(f"o{i}", cpu=cpu))
    served.submit(token("o4"))

    order = "".join(name[0] for name in serially(served, after_s=0.01))

    assert expected[:6] == order[1:7]


def test_tasks_have_as_many_tokens_at_once_however_many_each_call_takes() -> None:
    served = Served(node())
    served.quota(Quota(name="key", concurrency=4))
    for name in ("b0", "b1"):
        served.submit(token(name, tokens=2))
    for name in ("b2", "o0", "o1", "o2"):
        served.submit(token(name, tokens=2 if name == "b2" else 1))

    assert ["o0", "o1"] == started(served.exit("b0"))


def test_a_small_one_of_lower_priority_does_not_pass_one_that_needs_several_tokens() -> None:
    served = Served(node())
    served.quota(Quota(name="key", rate_per_s=1.0, burst=4))
    served.submit(token("x", tokens=4))
    served.submit(token("o0"))
    served.submit(replace(token("big", tokens=2), priority=1))
    served.submit(token("o1"))

    assert ["x", "big", "o0", "o1"] == serially(served, after_s=0.01)


def fought_over(*others: str) -> Served:
    """One device, which its owner does not leave to these services while a call of its own waits."""
    served = Served(gpu_node(gpus=1, model="this"), gpu_node("g1", gpus=1, model="other"))
    served.declare(service("owner", restore_s=1000.0, model="this"))
    for name in ("o0", "o1"):
        served.submit(call(name, "owner", task="o", priority=1))
    served.settle()
    for name in others:
        served.declare(service(name, model="this"))
    return served


def busy_elsewhere(served: Served, service: Service) -> None:
    """Let a call of task x run on the other node."""
    served.up(service)
    served.submit(call("x0", service.name, task="x"))
    served.settle()
    assert "x0" in served.running()


def left(served: Served) -> list[str]:
    """Which service is restored when the owner has nobody to answer any more."""
    served.cancel("o1")
    served.exit("o0")
    return [name for name, _, _ in restores(served.evicted(served.leaving()[0]))]


def test_the_task_that_has_less_of_all_instances_has_devices_next() -> None:
    served = fought_over("judge", "teacher")
    busy_elsewhere(served, service("else", model="other"))
    served.submit(call("x1", "judge", task="x"))
    served.submit(call("y", "teacher", task="y"))

    assert ["teacher"] == left(served)


def test_what_a_task_has_of_pinned_instances_costs_it_no_devices() -> None:
    served = fought_over("judge", "teacher")
    busy_elsewhere(served, service("pinned", pinned=(1,), model="other"))
    served.submit(call("x1", "judge", task="x"))
    served.submit(call("y", "teacher", task="y"))

    assert ["judge"] == left(served)


def test_who_waits_for_very_long_has_devices_next_whatever_its_task_has() -> None:
    served = fought_over("judge", "teacher")
    busy_elsewhere(served, service("else", model="other"))
    served.submit(call("x1", "judge", task="x"))
    served.now += 31.0
    served.submit(call("y", "teacher", task="y"))

    assert ["judge"] == left(served)


def test_a_service_that_failed_goes_behind_those_that_did_not() -> None:
    served = fought_over("bad", "worse", "good")
    for name in ("bad", "worse", "good"):
        served.submit(call(name, name))
    came = left(served)
    for _ in range(2):
        served.now += 5.0
        came += [name for name, _, _ in restores(served.failed(served.coming()[0]))]

    assert ["bad", "worse", "good"] == came


def test_a_call_of_high_priority_behind_others_counts_for_its_service() -> None:
    served = fought_over("judge", "teacher")
    served.submit(call("x", "judge"))
    served.submit(call("y0", "teacher"))
    served.submit(call("y1", "teacher", priority=1))

    assert ["teacher"] == left(served)


def test_calls_of_higher_priority_have_devices_as_soon_as_calls_under_way_have_ended() -> None:
    def evicted_for(priority: int) -> list[tuple[str, bool]]:
        served = Served(gpu_node(gpus=1))
        served.up(service("busy", restore_s=100.0))
        served.declare(service("judge"))
        for i in range(9):
            served.submit(call(f"b{i}", "busy"))
        served.submit(call("j", "judge", priority=priority))
        return evictions(served.exit("b0"))

    assert ([], [("busy", False)]) == (evicted_for(0), evicted_for(1))


def test_an_instance_has_paid_off_by_what_it_takes_to_have_it_back() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("busy", restore_s=0.5, load_s=100.0))
    served.submit(call("b0", "busy"))
    served.settle(restore_s=100.0)
    served.declare(service("judge", restore_s=0.5, load_s=0.5))
    for i in range(1, 9):
        served.submit(call(f"b{i}", "busy"))
    served.now += 4.0
    served.submit(call("j", "judge"))

    assert [("busy", False)] == evictions(served.exit("b0"))


def test_explain_names_who_is_on_the_devices_and_what_they_do() -> None:
    served = fought_over("judge", "teacher")
    served.join(gpu_node("g2", gpus=1, model="this"))
    served.up(service("pinned", pinned=(1,), model="this"))
    served.submit(call("x", "judge"))
    served.submit(call("y", "teacher"))

    def why(name: str) -> str:
        return served.kernel.explain(ActionId(name)).waits_for

    assert "judge (owner#1 answers 1 calls, pinned#2 is idle)" in why("x")
    served.cancel("o1")
    served.exit("o0")
    assert "teacher (owner#1 is leaving, pinned#2 is idle, judge#3 is to come)" in why("y")


def test_explain_names_a_few_and_counts_the_others() -> None:
    served = Served(gpu_node(gpus=1, model="this"))
    for i in range(12):
        served.join(gpu_node(f"p{i}", gpus=1, model="this"))
    for i in range(13):
        served.up(service(f"pinned{i}", pinned=(1,), model="this"))
    served.declare(service("judge", model="this"))
    served.submit(call("x", "judge"))

    assert "pinned9#10 is idle, and 3 more)" in served.kernel.explain(ActionId("x")).waits_for
