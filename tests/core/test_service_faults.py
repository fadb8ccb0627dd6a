"""Whatever happens to calls, nodes and clocks, each call ends once and the books balance."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arl_tangram.core.events import Woke
from arl_tangram.core.model import GPU, Action, ActionId, Outcome, Quota
from arl_tangram.core.serving.deployment import deploy
from arl_tangram.core.serving.services import UNCROWDED
from arl_tangram.errors import InvariantError
from arl_tangram.testing.builders import action, environment, node
from arl_tangram.testing.served import Served, call, evictions, gpu_node, restores, service
from arl_tangram.testing.watched import started


def one_device(*, cpu: float = 2) -> Served:
    served = Served(gpu_node(gpus=1, cpu=cpu))
    served.quota(Quota(name="key", concurrency=1))
    return served


def waits_for_a_restore() -> Served:
    served = one_device()
    served.declare(service("teacher"))
    served.submit(call("a", "teacher"))
    return served


def waits_for_an_eviction() -> Served:
    served = one_device()
    served.up(service("other"))
    served.declare(service("teacher"))
    served.submit(call("a", "teacher"))
    assert served.leaving()
    return served


def waits_for_a_busy_instance_of_another() -> Served:
    served = one_device()
    served.up(service("other"))
    served.declare(service("teacher"))
    served.submit(call("b", "other"))
    served.submit(call("a", "teacher"))
    return served


def waits_for_a_slot() -> Served:
    served = one_device()
    served.up(service("teacher"))
    served.submit(call("b", "teacher"))
    served.submit(call("a", "teacher"))
    return served


def waits_for_a_token() -> Served:
    served = one_device()
    served.up(service("teacher", slots=2))
    served.submit(call("b", "teacher", needs={"api:key": 1}))
    served.submit(call("a", "teacher", needs={"api:key": 1}))
    return served


def waits_for_cores() -> Served:
    served = one_device()
    served.up(service("teacher", slots=2))
    served.submit(action("b", cpu=2))
    served.submit(call("a", "teacher", needs={"cpu": 1000}))
    return served


def waits_out_a_rest() -> Served:
    served = one_device()
    served.declare(service("teacher"))
    served.submit(call("a", "teacher"))
    served.failed(served.coming()[0])
    return served


def runs() -> Served:
    served = one_device()
    served.up(service("teacher"))
    served.submit(call("a", "teacher"))
    return served


def is_tried_again() -> Served:
    served = runs()
    served.exit("a", Outcome.LOST)
    assert ["a"] == served.running()
    return served


STATES = [
    waits_for_a_restore,
    waits_for_an_eviction,
    waits_for_a_busy_instance_of_another,
    waits_for_a_slot,
    waits_for_a_token,
    waits_for_cores,
    waits_out_a_rest,
    runs,
    is_tried_again,
]


@pytest.mark.parametrize("state", STATES, ids=[state.__name__ for state in STATES])
def test_a_call_can_be_cancelled_while_it(state: Callable[[], Served]) -> None:
    served = state()
    ran = "a" in served.running()

    served.cancel("a")
    assert ran == (served.outcome("a") is None)
    if ran:
        served.exit("a", Outcome.CANCELLED)

    assert Outcome.CANCELLED is served.outcome("a")
    served.wait(100.0)
    served.wake()
    served.settle()
    served.drain()
    served.submit(call("next", "teacher"))
    served.settle()
    assert ["next"] == served.running()


@pytest.mark.parametrize("state", STATES, ids=[state.__name__ for state in STATES])
def test_a_node_can_be_lost_under_a_call_that(state: Callable[[], Served]) -> None:
    served = state()

    served.lose("g0")
    served.join(gpu_node("g1", gpus=1, cpu=2))
    for _ in range(10):
        served.wait(100.0)
        served.wake()
        served.settle()
        served.drain()

    assert Outcome.SUCCEEDED is served.outcome("a")


@pytest.mark.parametrize("state", STATES, ids=[state.__name__ for state in STATES])
def test_the_clock_can_jump_a_century_while_a_call(state: Callable[[], Served]) -> None:
    served = state()

    served.wait(3e9)
    served.wake()
    served.settle()
    served.drain()
    served.settle()
    served.drain()

    assert Outcome.SUCCEEDED is served.outcome("a")
    rate = served.kernel._cluster.services["teacher"].arrivals.rate(served.now)
    assert 0.0 < rate < 1.0


def test_a_clock_that_goes_back_is_a_mistake_of_the_driver() -> None:
    served = Served(gpu_node())
    served.wait(10.0)
    served.wake()

    with pytest.raises(InvariantError, match=r"time went back: 9\.0 < 10\.0"):
        served.kernel.handle(Woke(at=9.0))


def test_a_wide_service_does_not_starve_behind_narrow_ones_that_are_never_idle() -> None:
    served = Served(gpu_node(gpus=4))
    for i in range(4):
        served.up(service(f"n{i}"))
    for i in range(4):
        served.submit(call(f"n{i}-0", f"n{i}"))
        served.submit(call(f"n{i}-1", f"n{i}"))
    assert 4 == len(served.running())
    served.declare(service("wide", 4))
    served.submit(call("wide", "wide"))

    for turn in range(2, 60):
        served.wait(1.0)
        for name in [n for n in served.running() if n != "wide"]:
            served.submit(call(f"{name.partition('-')[0]}-{turn}", name.partition("-")[0]))
            served.exit(name)
        served.settle(restore_s=0.0)
        if "wide" in served.running():
            return
    raise AssertionError("the wide call never started")


def test_free_devices_on_two_nodes_are_no_cell() -> None:
    served = Served(gpu_node("g0", gpus=2), gpu_node("g1", gpus=2))

    served.declare(service("wide", 4))
    served.submit(call("a", "wide"))
    served.submit(action("b", gpu=3))

    assert [Outcome.REJECTED] * 2 == [served.outcome(name) for name in "ab"]


def test_of_a_node_with_six_devices_four_and_two_are_cells() -> None:
    served = Served(gpu_node(gpus=6))
    for name, gpus in (("a", 4), ("b", 2), ("c", 4)):
        served.submit(action(name, gpu=gpus))

    assert [(0, 1, 2, 3), (4, 5)] == [served.lease(name).grant.devices for name in "ab"]
    served.exit("b")
    assert ["a"] == served.running()  # the devices left are no cell for c
    assert ["c"] == started(served.exit("a"))


def test_restores_that_share_a_node_are_expected_to_take_longer() -> None:
    served = Served(gpu_node(gpus=8))
    served.declare(service("first", 4, restore_s=2.0))
    served.declare(service("second", 4, restore_s=2.0))
    served.submit(call("a", "second"))

    instances = served.kernel._cluster.instances.values()

    expected = 2.0 * 8 / UNCROWDED
    assert [2.0, expected] == [i.ready_at - i.began_at for i in instances]


def test_a_restore_that_shared_a_node_is_learned_as_if_it_had_been_alone() -> None:
    served = Served(gpu_node(gpus=8))
    for name in ("first", "second"):
        served.declare(service(name, 4, restore_s=None))
        served.submit(call(name, name))
    served.wait(6.0)
    for instance in served.coming():
        served.restored(instance)

    first, second = (served.kernel._cluster.services[name] for name in ("first", "second"))
    assert 6.0 == first.restores[4, True]
    assert 3.0 == second.restores[4, True]


def test_devices_of_another_model_are_not_shared_out_to_a_service_that_cannot_use_them() -> None:
    served = Served(gpu_node("a", gpus=4, model="a"), gpu_node("b", gpus=4, model="b"))
    for name, model in (("on-a", "a"), ("on-b", "b")):
        served.declare(service(name, 1, 2, 4, model=model))
    states = served.kernel._cluster.services
    for i in range(100):
        states["on-a"].called(5.0, 0.5 * i)

    found = deploy(served.kernel._cluster, list(states.values()), now=50.0)

    assert 4 == sum(found["on-a"])
    assert sum(found["on-b"]) >= 1


def test_a_service_for_any_model_goes_where_one_that_is_choosy_leaves_room() -> None:
    served = Served(gpu_node("a", gpus=1, model="a"), gpu_node("b", gpus=1, model="b"))
    served.up(service("any"))
    served.submit(call("x", "any"))
    served.declare(service("choosy", model=served.lease("x").node))

    served.submit(call("y", "choosy"))
    commands = served.exit("x")

    assert [("any", False)] == evictions(commands)
    assert [("choosy", (0,), True)] == restores(served.evicted(served.leaving()[0]))


# -- memory, tokens and devices at once ------------------------------------------------------------


def test_an_instance_gives_up_its_claim_if_the_hosts_memory_is_gone_when_its_turn_comes() -> None:
    served = Served(gpu_node(gpus=1, memory=1000))
    served.up(service("first"))
    served.declare(service("second", host_mib=600))
    served.submit(call("a", "first"))
    served.submit(call("b", "second"))
    served.open(environment("e", memory=900))

    served.exit("a")
    assert [] == restores(served.evicted(served.leaving()[0]))
    assert [("first", (0,), False)] == restores(served.submit(call("c", "first")))
    served.settle()
    served.exit("c")

    served.close("e")
    served.closed("e")
    assert [("second", (0,), True)] == restores(served.evicted(served.leaving()[0]))


def test_a_lease_that_lacks_a_token_gives_its_devices_back() -> None:
    served = Served(gpu_node(gpus=1))
    served.quota(Quota(name="key", rate_per_s=1.0, burst=2))
    served.submit(Action(id=ActionId("first"), needs={"api:key": 1}))

    served.submit(Action(id=ActionId("a"), needs={GPU: 1, "api:key": 2}))

    assert ["first"] == served.running()
    assert ["b"] == started(served.submit(action("b", gpu=1)))
    served.submit(action("c", gpu=1))
    assert "1 free GPUs in one cell of a node" == served.kernel.explain(ActionId("c")).waits_for
    served.cancel("c")
    served.exit("b")
    served.now = served.ledger.wake_at or 0.0
    assert ["a"] == started(served.wake())


def test_a_lease_too_wide_for_any_cell_is_refused_once_a_node_shows_that() -> None:
    served = Served()
    served.submit(action("a", gpu=9))
    served.submit(action("b", gpu=2))

    served.join(gpu_node(gpus=4))

    assert ["b"] == served.running()
    assert {"a": Outcome.REJECTED} == served.ledger.resolved
    assert "needs 9 GPUs in one cell" in served.ledger.reasons[ActionId("a")]


def test_devices_of_an_instance_that_nobody_needs_when_it_is_ready_go_to_whoever_waits() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("teacher"))
    served.submit(action("before", gpu=1))
    served.evicted(served.leaving()[0])
    served.submit(call("a", "teacher"))
    served.exit("before")
    served.cancel("a")
    served.submit(action("lease", gpu=1))

    assert [("teacher", False)] == evictions(served.restored(served.coming()[0]))
    assert ["lease"] == started(served.evicted(served.leaving()[0]))


def test_a_lease_waits_on_while_nodes_without_devices_join() -> None:
    served = Served()
    served.submit(action("a", gpu=2))

    served.join(gpu_node(gpus=0))

    assert {} == served.ledger.resolved
    assert ["a"] == started(served.join(gpu_node("g1", gpus=4)))


def test_calls_of_two_kinds_are_counted_apart() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("teacher"))
    served.submit(call("a", "teacher"))
    served.submit(call("short", "teacher", kind="short"))
    served.submit(call("long", "teacher", kind="long"))

    served.cancel("short")

    mixes = served.kernel._cluster.services["teacher"].mixes
    assert {("default", "long"): 1} == {key: mix.count for key, mix in mixes.items()}


def overtaken(served: Served, *, memory: int) -> None:
    """An action named a waits for memory until what comes free on a node is kept for it."""
    served.submit(action("a", memory=memory))
    served.submit(action("small", memory=50))
    served.wait(2.0)
    served.exit("small")
    served.submit(action("next", memory=50))


def test_an_action_does_not_wait_for_the_memory_of_a_pinned_service() -> None:
    served = Served(gpu_node(gpus=1, cpu=2, memory=400), patience_s=1.0)
    served.up(service("pinned", host_mib=300, pinned=(1,)))
    served.join(node("plain", cpu=2, memory=400))
    served.open(environment("e", memory=400))
    overtaken(served, memory=200)
    assert "a" not in served.running()

    served.close("e")
    served.closed("e")

    assert "plain" == served.lease("a").node


def test_an_action_that_waits_on_a_node_goes_elsewhere_if_a_pinned_service_comes_there() -> None:
    served = Served(gpu_node(gpus=1, cpu=2, memory=400), patience_s=1.0)
    served.submit(action("b", memory=300))
    overtaken(served, memory=200)
    assert "g0" == served.kernel._cluster.entries[ActionId("a")].bound_to
    served.declare(service("pinned", host_mib=300, pinned=(1,)))
    served.exit("b")
    assert ["pinned"] == [served.ledger.instances.up[n].service.name for n in served.coming()]

    served.join(node("plain", cpu=2, memory=400))

    assert "plain" == served.lease("a").node
