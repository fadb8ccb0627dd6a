"""Calls are answered by instances, which come and go for them; nothing in use makes room."""

from __future__ import annotations

import pytest

from arl_tangram.core.model import Quota
from arl_tangram.testing.builders import action, environment, node
from arl_tangram.testing.served import Served, call, evictions, gpu_node, restores, service
from arl_tangram.testing.watched import opening, started


def reason(served: Served, action: str) -> str:
    return served.ledger.reasons[action]  # type: ignore[index]


def test_a_service_is_restored_as_soon_as_there_are_free_devices_for_it() -> None:
    served = Served(gpu_node(gpus=1))

    commands = served.declare(service("teacher"))

    assert [("teacher", (0,), True)] == restores(commands)


def test_a_call_starts_on_the_instance_that_is_ready() -> None:
    served = Served(gpu_node(gpus=1))
    (instance,) = served.up(service("teacher"))

    assert ["a"] == started(served.submit(call("a", "teacher")))
    assert instance == served.lease("a").instance
    assert 1 == served.units("a")


def test_an_instance_takes_as_many_calls_at_once_as_it_has_slots() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("teacher", slots=2))
    for name in "abc":
        served.submit(call(name, "teacher"))

    assert ["a", "b"] == served.running()
    assert ["c"] == started(served.exit("a"))


def test_a_call_makes_an_idle_instance_of_another_service_leave() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("first"))
    served.declare(service("second"))
    assert [] == served.coming()

    commands = served.submit(call("a", "second"))

    assert [("first", False)] == evictions(commands)
    assert [("second", (0,), True)] == restores(served.evicted(served.leaving()[0]))
    assert ["a"] == started(served.restored(served.coming()[0]))


def test_an_instance_in_use_leaves_only_once_it_is_idle() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("first"))
    served.declare(service("second"))
    served.submit(call("a", "first"))

    assert [] == evictions(served.submit(call("b", "second")))

    # Its devices are spoken for, so that a further call of its does not keep it there.
    assert [] == started(served.submit(call("c", "first")))
    assert [("first", False)] == evictions(served.exit("a"))


def test_a_service_that_was_there_before_is_restored_from_the_hosts_copy() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("first"))
    served.declare(service("second"))
    served.submit(call("a", "second"))
    served.settle()
    served.exit("a")

    served.submit(call("b", "first"))

    assert [("first", (0,), False)] == restores(served.evicted(served.leaving()[0]))


def test_an_instance_bound_to_its_devices_has_a_copy_for_each_cell() -> None:
    served = Served(gpu_node(gpus=2, memory=1000))
    served.up(service("bound", movable=False, host_mib=400))

    assert {((0,), 400), ((1,), 400)} == {
        (kept.cell, kept.service.host_mib) for kept in served.ledger.instances.kept
    }


def test_the_copy_used_longest_ago_is_forgotten_when_the_host_is_short_of_memory() -> None:
    served = Served(gpu_node(gpus=1, memory=1000))
    served.up(service("first", host_mib=400))
    for name in ("second", "third"):
        served.declare(service(name, host_mib=400))
    served.submit(call("a", "second"))
    served.settle()
    served.exit("a")

    commands = served.submit(call("b", "third"))
    commands += served.evicted(served.leaving()[0])

    assert [("second", False), ("first", True)] == evictions(commands)
    served.settle()
    assert ["b"] == served.running()


def test_unused_copies_make_way_for_an_environment() -> None:
    served = Served(gpu_node(gpus=1, memory=1000))
    served.up(service("first", host_mib=600))
    served.declare(service("second"))
    served.submit(call("a", "second"))
    served.settle()

    commands = served.request(environment("e", memory=900))

    assert [("first", True)] == evictions(commands)
    assert {"e": "g0"} == opening(served.evicted(served.leaving()[0]))


def test_a_service_bigger_than_the_memory_of_a_device_goes_where_it_fits() -> None:
    served = Served(gpu_node("small", gpu_mib=500), gpu_node("large", gpu_mib=900))

    served.declare(service("teacher", device_mib=800))

    assert {"large"} == {up.node for up in served.ledger.instances.up.values()}


def test_a_wider_degree_is_used_where_devices_are_too_small_for_a_narrow_one() -> None:
    served = Served(gpu_node(gpu_mib=500))

    served.up(service("teacher", 1, 2, device_mib=800))

    assert {2} == set(served.widths("teacher"))


def test_a_service_keeps_to_the_model_of_gpu_that_it_needs() -> None:
    served = Served(gpu_node("a", model="a"), gpu_node("b", model="b"))

    served.declare(service("teacher", model="b"))

    assert {"b"} == {up.node for up in served.ledger.instances.up.values()}


def test_a_service_grows_to_its_widest_degree_while_devices_are_free() -> None:
    served = Served(gpu_node(gpus=8))

    served.up(service("one", 1, 2, 4))

    assert 4 == served.widths("one")[0]


def test_two_services_share_the_devices_there_are() -> None:
    served = Served(gpu_node(gpus=4))
    served.up(service("one", 1, 2, 4))

    served.up(service("two", 1, 2, 4))

    assert [[2], [2]] == [served.widths("one"), served.widths("two")]


def test_a_queue_uses_the_slots_of_a_ready_instance_before_more_cells() -> None:
    served = Served(gpu_node(gpus=1), gpu_node("g1", gpus=1))
    served.up(service("teacher", slots=4, restore_s=50.0))

    commands = [served.submit(call(name, "teacher")) for name in "abcd"]

    assert [] == [restore for c in commands for restore in restores(c)]
    assert ["a", "b", "c", "d"] == served.running()


def test_a_long_queue_gets_another_instance() -> None:
    served = Served(gpu_node(gpus=2))
    served.up(service("other"))
    served.up(service("busy"))

    for i in range(30):
        served.submit(call(f"a{i}", "busy"))

    assert "other" in {served.ledger.instances.up[name].service.name for name in served.leaving()}


# -- quotas, cores and leases of devices -----------------------------------------------------


def test_a_call_that_needs_a_token_starts_when_there_is_one_and_holds_up_no_other() -> None:
    served = Served(gpu_node(gpus=1))
    served.quota(Quota(name="key", rate_per_s=1.0, burst=1))
    served.up(service("judge", slots=8))
    keyed = {"api:key": 1}
    for name in "ab":
        served.submit(call(name, "judge", needs=keyed))
    served.submit(call("c", "judge"))

    assert ["a", "c"] == served.running()
    assert "tokens of api:key" in served.kernel.explain("b").waits_for  # type: ignore[arg-type]
    served.now = served.ledger.wake_at or 0.0
    assert ["b"] == started(served.wake())


def test_a_call_that_needs_cores_waits_for_them_beside_its_instance() -> None:
    served = Served(gpu_node(gpus=1, cpu=2))
    served.up(service("judge"))
    served.submit(action("cpu", cpu=2))
    served.submit(call("a", "judge", needs={"cpu": 1000}))
    assert ["cpu"] == served.running()

    assert ["a"] == started(served.exit("cpu"))


def test_a_lease_of_devices_gets_an_aligned_cell_and_idle_instances_make_room() -> None:
    served = Served(gpu_node(gpus=4))
    served.up(service("teacher"))
    assert [1, 1] == served.widths("teacher")

    served.submit(action("train", gpu=3))
    served.settle()

    assert (0, 1, 2, 3) == served.lease("train").grant.devices
    assert [] == served.instances("teacher")


def test_devices_of_a_lease_are_free_again_when_it_ends() -> None:
    served = Served(gpu_node(gpus=2))
    served.submit(action("a", gpu=2))
    served.submit(action("b", gpu=1))
    assert ["a"] == served.running()

    assert ["b"] == started(served.exit("a"))
    assert (0,) == served.lease("b").grant.devices


def test_a_wide_lease_does_not_starve_behind_narrow_ones() -> None:
    served = Served(gpu_node(gpus=4))
    for i in range(4):
        served.submit(action(f"n{i}", gpu=1))
    served.submit(action("wide", gpu=4))
    for i in range(4, 8):
        served.submit(action(f"n{i}", gpu=1))

    for i in range(4):
        served.exit(f"n{i}")

    assert "wide" in served.running()


def test_a_lease_of_devices_waits_for_cores_without_holding_devices() -> None:
    served = Served(gpu_node(gpus=2, cpu=2))
    served.submit(action("cpu", cpu=2))
    served.submit(action("train", gpu=2, cpu=1))
    served.submit(action("infer", gpu=2))
    assert ["cpu", "infer"] == served.running()

    served.exit("infer")
    assert ["train"] == started(served.exit("cpu"))


def test_an_action_without_gpus_runs_on_a_node_without_them_if_there_is_room() -> None:
    served = Served(gpu_node(cpu=16), node("plain", cpu=4))

    served.submit(action("a", cpu=1))
    commands = served.request(environment("e"))

    assert "plain" == served.lease("a").node
    assert {"e": "plain"} == opening(commands)


@pytest.mark.parametrize(
    ("restore_s", "load_s", "comes"),
    [(0.2, None, []), (0.3, None, ["teacher"]), (0.2, 5.0, ["teacher"])],
)
def test_what_is_ready_quickly_anyway_is_not_anticipated(
    restore_s: float, load_s: float | None, comes: list[str]
) -> None:
    served = Served(gpu_node(gpus=1))

    commands = served.declare(service("teacher", restore_s=restore_s, load_s=load_s))

    assert comes == [name for name, *_ in restores(commands)]
