"""Instances that are to stay for ever: they get their cells whoever is there, and keep them."""

from __future__ import annotations

import pytest

from arl_tangram.core.model import ActionId, EnvironmentId
from arl_tangram.core.phases import Phase
from arl_tangram.testing.builders import action, environment
from arl_tangram.testing.served import Served, call, evictions, gpu_node, restores, service


def test_pinned_instances_are_placed_at_once_and_never_leave() -> None:
    served = Served(gpu_node(gpus=4))
    served.up(service("pinned", 2, 4, pinned=(4,)))
    served.declare(service("other"))

    commands = served.submit(call("a", "other"))

    assert [4] == served.widths("pinned")
    assert [] == evictions(commands)
    assert Phase.QUEUED is served.kernel.phase_of("a")  # type: ignore[arg-type]


def test_a_pinned_service_gets_no_more_instances_than_are_pinned() -> None:
    served = Served(gpu_node(gpus=8))
    served.up(service("pinned", 1, pinned=(1, 1)))
    for name in "abcd":
        served.submit(call(name, "pinned"))

    assert [1, 1] == served.widths("pinned")
    assert ["a", "b"] == served.running()


def test_a_pinned_instance_is_placed_although_others_wait() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("first"))
    served.submit(call("a", "first"))
    served.join(gpu_node("g1", gpus=1, model="b"))

    commands = served.declare(service("pinned", model="b", pinned=(1,)))

    assert ("pinned", (0,), True) in restores(commands)


def test_a_pinned_instance_that_failed_comes_again_after_a_rest() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("pinned", pinned=(1,)))

    assert [] == restores(served.failed(served.coming()[0]))

    served.now = served.ledger.wake_at or 0.0
    assert [("pinned", (0,), True)] == restores(served.wake())


def test_a_pinned_service_whose_devices_are_leased_says_so_and_comes_when_they_are_free() -> None:
    served = Served(gpu_node(gpus=1))
    served.submit(action("lease", gpu=1))
    served.declare(service("pinned", pinned=(1,)))
    served.submit(call("a", "pinned"))

    waits_for = served.kernel.explain(ActionId("a")).waits_for
    assert "an instance of pinned, and that for others to leave its devices on g0" == waits_for
    assert [("pinned", (0,), True)] == restores(served.exit("lease"))


def test_an_idle_instance_makes_room_for_one_that_is_to_stay_for_ever() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("teacher"))

    assert [("teacher", False)] == evictions(served.declare(service("pinned", pinned=(1,))))
    assert [("pinned", (0,), True)] == restores(served.evicted(served.leaving()[0]))


def test_a_busy_instance_makes_room_once_it_is_idle_and_takes_no_more_calls() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("teacher"))
    served.submit(call("a", "teacher"))
    served.declare(service("pinned", pinned=(1,)))

    served.submit(call("b", "teacher"))
    assert [("teacher", False)] == evictions(served.exit("a"))
    assert [("pinned", (0,), True)] == restores(served.evicted(served.leaving()[0]))


@pytest.mark.parametrize(("busy", "idle"), [("first", "second"), ("second", "first")])
def test_an_idle_instance_goes_rather_than_a_busy_one(busy: str, idle: str) -> None:
    served = Served(gpu_node(gpus=2))
    served.up(service("first"))
    served.up(service("second"))
    served.submit(call("a", busy))

    assert [(idle, False)] == evictions(served.declare(service("pinned", pinned=(1,))))


def test_a_busy_instance_goes_rather_than_a_lease_that_may_last() -> None:
    served = Served(gpu_node(gpus=2))
    served.submit(action("lease", gpu=1))
    served.up(service("teacher"))
    served.submit(call("a", "teacher"))

    served.declare(service("pinned", pinned=(1,)))

    assert [("teacher", False)] == evictions(served.exit("a"))


def test_instances_for_ever_take_the_smallest_block_so_that_a_wider_one_finds_a_cell() -> None:
    served = Served(gpu_node(gpus=4))
    for name in ("w", "x", "y", "z"):
        served.submit(action(name, gpu=1))
    for name in ("w", "y"):  # devices 0 and 2 are free
        served.exit(name)

    served.declare(service("narrow", pinned=(1, 1)))
    served.exit("x")
    served.exit("z")
    served.settle()
    served.declare(service("wide", 2, pinned=(2,)))
    served.settle()

    assert [1, 1] == served.widths("narrow")
    assert [2] == served.widths("wide")


def test_an_instance_for_ever_goes_where_the_host_has_room_for_its_copy() -> None:
    served = Served(gpu_node(gpus=1, memory=400), gpu_node("g1", gpus=8, memory=400))
    served.open(environment("e", memory=200))
    room = {"g0", "g1"} - {served.ledger.places[EnvironmentId("e")].node}

    served.declare(service("pinned", host_mib=300, pinned=(1,)))

    assert room == {up.node for up in served.ledger.instances.up.values()}


def test_an_instance_for_ever_takes_the_memory_of_copies_that_others_left() -> None:
    served = Served(gpu_node(gpus=1, memory=400))
    served.up(service("teacher", host_mib=300))

    served.declare(service("pinned", host_mib=300, pinned=(1,)))
    served.settle()

    assert [1] == served.widths("pinned")


def test_another_instance_for_ever_goes_where_a_copy_of_its_service_is() -> None:
    served = Served(gpu_node("full", gpus=1, memory=400))
    served.open(environment("e", memory=200))
    served.join(gpu_node("g1", gpus=2, memory=400))

    served.declare(service("pinned", host_mib=300, pinned=(1, 1)))

    served.failed(served.coming()[0])
    served.now = served.ledger.wake_at or 0.0
    served.wake()

    assert ["g1", "g1"] == [up.node for up in served.ledger.instances.up.values()]
