"""A restore that nobody waits for any more is given up when somebody else needs its devices."""

from __future__ import annotations

from arl_tangram.core.commands import Command
from arl_tangram.core.model import ActionId, InstanceId, Service
from arl_tangram.testing.builders import action
from arl_tangram.testing.served import Served, call, evictions, gpu_node, restores, service
from arl_tangram.testing.watched import started


def loading(abandoned: Service) -> tuple[Served, InstanceId]:
    """One device, on which a service is loaded for a call that was cancelled."""
    served = Served(gpu_node(gpus=1))
    served.declare(abandoned)
    served.submit(call("a", abandoned.name))
    (instance,) = served.coming()
    served.cancel("a")
    return served, instance


def waking(abandoned: Service) -> tuple[Served, InstanceId]:
    """The same, but that it has a copy, from which it is restored in two seconds."""
    served = Served(gpu_node(gpus=1))
    served.up(abandoned)
    served.submit(action("before", gpu=1))
    served.evicted(served.leaving()[0])
    served.submit(call("a", abandoned.name))
    served.exit("before")
    (instance,) = served.coming()
    served.cancel("a")
    return served, instance


def later(served: Served, span_s: float) -> list[Command]:
    """What happens when the time has passed, if anybody asked to be woken."""
    served.now += span_s
    return served.wake()


def test_a_load_that_nobody_waits_for_gives_way_to_a_call_of_another_service() -> None:
    served, instance = loading(service("hangs", host_mib=10_000))
    served.declare(service("judge", host_mib=10_000))

    assert [("hangs", True)] == evictions(served.submit(call("b", "judge")))
    assert [("judge", (0,), True)] == restores(served.evicted(instance))
    served.settle()
    assert ["b"] == served.running()


def test_it_gives_way_to_a_lease_of_devices() -> None:
    served, instance = loading(service("hangs"))

    assert [("hangs", True)] == evictions(served.submit(action("lease", gpu=1)))
    assert ["lease"] == started(served.evicted(instance))


def test_it_gives_way_to_an_instance_that_is_to_stay_for_ever() -> None:
    served, instance = loading(service("hangs"))

    assert [("hangs", True)] == evictions(served.declare(service("pinned", pinned=(1,))))
    assert [("pinned", (0,), True)] == restores(served.evicted(instance))


def test_a_load_that_somebody_waits_for_goes_on() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("slow"))
    served.declare(service("judge"))
    served.submit(call("a", "slow"))
    served.submit(call("b", "judge"))

    assert [] == evictions(later(served, 60.0))
    why = served.kernel.explain(ActionId("b")).waits_for
    assert "devices for an instance of judge (slow#1 being restored for 60.0 s)" == why
    assert "58.0 s overdue" in served.kernel.explain(ActionId("a")).waits_for
    assert [("slow", True)] == evictions(served.cancel("a"))


def test_one_that_is_to_stay_for_ever_is_not_given_up() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("pinned", pinned=(1,)))
    served.declare(service("judge"))

    assert [] == evictions(served.submit(call("b", "judge")))
    assert [] == evictions(later(served, 60.0))


def test_a_restore_from_a_copy_is_given_up_only_when_it_is_long_overdue() -> None:
    served, instance = waking(service("hangs"))
    served.declare(service("judge"))

    assert [] == evictions(served.submit(call("b", "judge")))
    assert [] == evictions(later(served, 5.9))
    assert [("hangs", False)] == evictions(later(served, 0.2))
    served.evicted(instance)
    served.settle()
    assert ["b"] == served.running()


def test_a_load_that_is_known_to_end_is_given_up_only_when_it_is_long_overdue() -> None:
    served, _ = loading(service("slow", load_s=4.0))
    served.submit(action("lease", gpu=1))

    assert [] == evictions(later(served, 11.9))
    assert [("slow", True)] == evictions(later(served, 0.2))


def test_one_that_is_bound_to_its_devices_loses_its_copy_when_it_is_given_up() -> None:
    served, instance = waking(service("hangs", movable=False, host_mib=10_000))
    served.submit(action("lease", gpu=1))

    assert served.now + 6.0 == served.ledger.wake_at
    assert [("hangs", True)] == evictions(later(served, 6.0))
    served.evicted(instance)
    assert [("hangs", (0,), True)] == restores(
        [*served.submit(call("c", "hangs")), *served.exit("lease")]
    )


def test_a_copy_that_others_use_stays() -> None:
    served = Served(gpu_node(gpus=2))
    served.declare(service("hangs"))
    for name in "ab":
        served.submit(call(name, "hangs"))
    first, second = served.coming()
    for name in "ab":
        served.cancel(name)

    assert [("hangs", False)] == evictions(served.submit(action("lease", gpu=1)))
    assert {first, second} == {*served.leaving(), *served.coming()}


def test_one_that_is_ready_just_when_it_is_given_up_leaves_all_the_same() -> None:
    served, instance = loading(service("hangs"))
    served.submit(action("lease", gpu=1))

    assert [] == started(served.restored(instance))
    assert ["lease"] == started(served.evicted(instance))


def test_it_did_not_fail() -> None:
    served, instance = loading(service("hangs"))
    served.submit(action("lease", gpu=1))
    served.evicted(instance)
    commands = [*served.exit("lease"), *served.submit(call("c", "hangs"))]

    assert [("hangs", (0,), True)] == restores(commands)
