"""Calls are answered by instances, which come and go for them; nothing in use makes room."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arl_tangram.core.commands import EvictService, Resolve, RestoreService
from arl_tangram.core.events import ServiceDeclared
from arl_tangram.core.instances import Instance, InstancePhase
from arl_tangram.core.model import Degree, Outcome, Quota
from arl_tangram.core.phases import Phase
from arl_tangram.errors import InvariantError
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


# -- what goes wrong --------------------------------------------------------------------------


def test_a_lost_call_is_tried_again_on_another_instance() -> None:
    served = Served(gpu_node(gpus=1), gpu_node("g1", gpus=1))
    first, second = served.up(service("teacher"))
    served.submit(call("a", "teacher"))
    used = served.lease("a").instance

    served.failed(used)  # type: ignore[arg-type]
    served.exit("a", Outcome.LOST)

    assert served.lease("a").instance in {first, second} - {used}
    assert 2 == served.lease("a").attempt


def test_a_service_that_failed_rests_before_it_is_restored_again() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("teacher"))
    served.submit(call("a", "teacher"))

    commands = served.failed(served.coming()[0], "out of device memory")

    assert [] == restores(commands)
    waits_for = served.kernel.explain("a").waits_for  # type: ignore[arg-type]
    assert "another try" in waits_for
    assert "out of device memory" in waits_for
    served.now = served.ledger.wake_at or 0.0
    assert ["teacher"] == [name for name, *_ in restores(served.wake())]


def test_a_service_that_keeps_crashing_is_quarantined_with_the_reason() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("teacher"))
    served.submit(call("a", "teacher"))
    for _ in range(5):
        served.failed(served.coming()[0], "bad weights")
        if served.ledger.wake_at is not None and "a" not in served.ledger.resolved:
            served.now = served.ledger.wake_at
            served.wake()

    assert Outcome.LOST is served.ledger.resolved["a"]  # type: ignore[index]
    assert "quarantine" in reason(served, "a")
    assert "bad weights" in reason(served, "a")
    served.submit(call("b", "teacher"))
    assert Outcome.LOST is served.ledger.resolved["b"]  # type: ignore[index]

    served.wait(301.0)
    assert ["teacher"] == [n for n, *_ in restores(served.submit(call("c", "teacher")))]


def test_an_answer_makes_up_for_failures_before_it() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("teacher"))
    for i in range(7):
        served.submit(call(f"a{i}", "teacher"))
        if not served.coming():
            served.now = served.ledger.wake_at or served.now
            served.wake()
        if i % 2 == 0:
            served.failed(served.coming()[0])
            served.now = served.ledger.wake_at or served.now
            served.wake()
        served.restored(served.coming()[0])
        served.exit(f"a{i}")
        served.failed(served.instances("teacher")[0])

    assert {Outcome.SUCCEEDED} == set(served.ledger.resolved.values())


def test_an_instance_that_dies_while_it_is_evicted_gives_its_devices_to_the_next() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("first"))
    served.declare(service("second"))
    served.submit(call("a", "second"))

    commands = served.failed(served.leaving()[0])

    assert [("second", (0,), True)] == restores(commands)


def test_echoes_of_instances_that_are_gone_change_nothing() -> None:
    served = Served(gpu_node(gpus=1))
    (gone,) = served.up(service("first"))
    served.declare(service("second"))
    served.submit(call("a", "second"))
    served.evicted(gone)

    assert [] == [*served.restored(gone), *served.evicted(gone), *served.failed(gone)]


def test_calls_of_a_lost_node_run_elsewhere() -> None:
    served = Served(gpu_node(gpus=1), gpu_node("g1", gpus=1))
    served.up(service("teacher"))
    served.submit(call("a", "teacher"))
    lost = served.lease("a").node

    served.lose(lost)

    assert {"g0", "g1"} - {lost} == {served.lease("a").node}


def test_a_call_cancelled_while_it_waits_takes_its_claim_with_it() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("first"))
    served.declare(service("second"))
    served.submit(call("a", "first"))
    served.submit(call("b", "second"))

    served.cancel("b")

    assert ["c"] == started([*served.submit(call("c", "first")), *served.exit("a")])


def test_a_call_cancelled_while_it_runs_keeps_its_slot_until_it_is_gone() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("teacher"))
    for name in "ab":
        served.submit(call(name, "teacher"))

    served.cancel("a")
    assert ["a"] == served.running()

    assert ["b"] == started(served.exit("a", Outcome.CANCELLED))


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (call("a", "nobody"), "no service nobody is declared (there are: wide)"),
        (call("a", "wide"), "needs 8 GPUs in one aligned cell of a node (0 MiB on each of 8"),
        (action("a", gpu=8), "needs 8 GPUs in one aligned cell, and no node has them"),
        (action("a", gpu=1, cpu=64), "it needs cpu=64000 beside the GPUs, and no node has both"),
        (action("a", gpu=1, environment="e"), "a lease of GPUs does not run in an environment"),
        (call("a", "wide", needs={"api:key": 1}), "and no node has them"),
    ],
)
def test_what_can_never_be_served_is_refused_with_the_reason(refused: object, why: str) -> None:
    served = Served(gpu_node(gpus=4))
    served.declare(service("wide", 8))
    served.open(environment("e"))

    served.submit(refused)  # type: ignore[arg-type]

    assert Outcome.REJECTED is served.ledger.resolved["a"]  # type: ignore[index]
    assert why in reason(served, "a")


def test_two_services_of_one_name_are_a_mistake_of_the_driver() -> None:
    served = Served(gpu_node())
    served.declare(service("teacher"))

    with pytest.raises(InvariantError, match="teacher was declared twice"):
        served.kernel.handle(ServiceDeclared(at=served.now, service=service("teacher")))


def test_what_a_call_waits_for_is_told() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("teacher", restore_s=4.0))
    served.submit(call("a", "teacher"))

    explanation = served.kernel.explain("a")  # type: ignore[arg-type]
    assert "an instance of teacher that is being restored on g0" in explanation.waits_for
    assert "4.0 s" in explanation.waits_for

    served.settle()
    served.submit(call("b", "teacher"))
    explanation = served.kernel.explain("b")  # type: ignore[arg-type]
    assert "one of 1 instances of teacher to be free" in explanation.waits_for
    assert ("a" in explanation.behind) is False


def test_the_order_among_calls_is_priority_then_arrival() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("teacher"))
    served.submit(call("a", "teacher"))
    served.submit(call("b", "teacher"))
    served.submit(call("c", "teacher", priority=1))

    assert ["c"] == started(served.exit("a"))
    assert ["b"] == started(served.exit("c"))


def test_restore_times_that_nobody_told_are_learned() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("teacher", 1, restore_s=None))
    served.wait(7.0)
    served.restored(served.coming()[0])

    state = served.kernel._cluster.services["teacher"]
    assert 7.0 == state.restore_s(state.degrees[1], cold=True)
    assert 7.0 == state.restore_s(state.degrees[1], cold=False)


def test_commands_are_what_a_driver_is_to_do() -> None:
    served = Served(gpu_node(gpus=1))
    declared = service("teacher", host_mib=100)

    (restore,) = served.declare(declared)
    assert RestoreService(declared, "teacher#1", "g0", (0,), cold=True) == restore  # type: ignore[arg-type]
    served.settle()
    served.declare(service("other"))
    commands = served.submit(call("a", "other"))

    assert EvictService("teacher", "teacher#1", "g0") in commands  # type: ignore[arg-type]
    served.settle()
    assert Resolve("a", Outcome.SUCCEEDED) in served.exit("a")  # type: ignore[arg-type]


def test_an_idle_instance_leaves_with_its_copy_for_an_environment_that_needs_its_memory() -> None:
    served = Served(gpu_node(gpus=1, memory=1000))
    served.up(service("teacher", host_mib=600))

    commands = served.request(environment("e", memory=900))

    assert [("teacher", True)] == evictions(commands)
    assert {"e": "g0"} == opening(served.evicted(served.leaving()[0]))


def test_a_copy_in_use_is_not_forgotten() -> None:
    served = Served(gpu_node(gpus=1, memory=1000))
    served.up(service("teacher", host_mib=600))
    served.submit(call("a", "teacher"))

    assert [] == evictions(served.request(environment("e", memory=900)))
    assert [("teacher", True)] == evictions(served.exit("a"))


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


def test_a_lease_of_devices_that_waited_for_a_node_gets_them_when_one_joins() -> None:
    served = Served()
    served.submit(action("a", gpu=2))

    assert ["a"] == started(served.join(gpu_node(gpus=4)))
    assert (0, 1) == served.lease("a").grant.devices


def test_a_lease_of_more_than_a_cell_is_refused() -> None:
    served = Served(gpu_node(gpus=8), gpu_node("g1", gpus=8))

    served.submit(action("a", gpu=9))

    assert "needs 9 GPUs in one cell, and a cell has at most 8" in reason(served, "a")


def test_a_resize_of_a_lease_keeps_its_devices() -> None:
    served = Served(gpu_node(gpus=1, cpu=4))
    served.submit(action("a", gpu=1, units=(1, 2, 4)))
    served.submit(action("b", cpu=1))
    served.exit("b")

    assert (0,) == served.lease("a").grant.devices
    assert served.lease("a").instance is not None
    served.exit("a")
    assert [None] == served.kernel._cluster.nodes["g0"].pool.gpus.owners  # type: ignore[index]


def test_a_call_with_an_instance_but_without_cores_says_so() -> None:
    served = Served(gpu_node(gpus=1, cpu=2))
    served.up(service("judge"))
    served.submit(action("cpu", cpu=2))
    served.submit(call("a", "judge", needs={"cpu": 1000}))

    waits_for = served.kernel.explain("a").waits_for  # type: ignore[arg-type]
    assert "1 cores on g0, 0 free, beside an instance of judge" == waits_for


def test_cores_are_kept_for_a_call_that_has_waited_long() -> None:
    served = Served(gpu_node(gpus=1, cpu=2), patience_s=1.0)
    served.up(service("judge"))
    served.submit(action("c0", cpu=1))
    served.submit(action("c1", cpu=1))
    served.submit(call("a", "judge", needs={"cpu": 2000}))
    served.wait(2.0)
    served.submit(action("c2", cpu=1))

    assert [] == started(served.exit("c0"))
    assert ["a"] == started(served.exit("c1"))


# -- the books --------------------------------------------------------------------------------


def busy() -> Served:
    """Two instances, one of them in use, a call that waits, and an instance that is restored."""
    served = Served(gpu_node(gpus=4, memory=1000))
    served.up(service("teacher", host_mib=100))
    served.declare(service("judge", host_mib=100))
    for name in "abcd":
        served.submit(call(name, "teacher", needs={"cpu": 1000}))
    return served


def first(served: Served, phase: InstancePhase) -> Instance:
    return next(i for i in served.kernel._cluster.instances.values() if i.phase is phase)


DAMAGE: dict[str, tuple[Callable[[Served], object], str]] = {
    "a device has another owner": (
        lambda s: s.kernel._cluster.nodes["g0"].pool.gpus.owners.__setitem__(0, "nobody"),  # type: ignore[index,call-overload]
        "g0: owners of device 0",
    ),
    "a device is claimed for nobody": (
        lambda s: s.kernel._cluster.nodes["g0"].pool.gpus.claims.__setitem__(0, "nobody"),  # type: ignore[index,call-overload]
        "g0: claims to 0",
    ),
    "an instance lies across cells": (
        lambda s: setattr(first(s, InstancePhase.RESTORING), "degree", Degree(gpus=2, speedup=1.0)),
        "the cell of judge",
    ),
    "an instance thinks it is claimed": (
        lambda s: setattr(first(s, InstancePhase.RESIDENT), "claimed", True),
        "claims to teacher",
    ),
    "restores miscount": (
        lambda s: setattr(s.kernel._cluster.nodes["g0"], "restoring", 7),  # type: ignore[index]
        "g0: devices being restored",
    ),
    "amounts are kept for nobody": (
        lambda s: s.kernel._cluster.nodes["g0"].keep({"cpu": 1}),  # type: ignore[index]
        "g0: what is kept",
    ),
    "a copy is used by one that is gone": (
        lambda s: s.kernel._cluster.nodes["g0"].copies[0].used_by.add("nobody"),  # type: ignore[index,arg-type]
        "users of the copy of",
    ),
    "a copy leaves in use": (
        lambda s: setattr(s.kernel._cluster.nodes["g0"].copies[0], "leaving", True),  # type: ignore[index]
        "the copy of teacher leaves in use",
    ),
    "waiting calls are of another kind": (
        lambda s: s.kernel._cluster.services["teacher"].mixes.clear(),
        "service teacher: waiting calls",
    ),
    "waiting calls miscount": (
        lambda s: setattr(s.kernel._cluster.services["teacher"], "calls", 7),
        "service teacher: the number of waiting calls",
    ),
    "needy calls miscount": (
        lambda s: setattr(s.kernel._cluster.services["teacher"], "needy", 7),
        "service teacher: calls that need more of a node",
    ),
    "a service forgets an instance": (
        lambda s: s.kernel._cluster.services["judge"].instances.clear(),
        "service judge: instances",
    ),
    "an instance answers what another one does": (
        lambda s: next(iter(first(s, InstancePhase.RESIDENT).calls.values())).__setattr__(
            "lease", None
        ),
        "action .: lease and phase disagree",
    ),
}


@pytest.mark.parametrize("name", list(DAMAGE))
def test_the_check_of_services_fails_if(name: str) -> None:
    served = busy()
    damage, message = DAMAGE[name]

    damage(served)

    with pytest.raises(InvariantError, match=message):
        served.kernel.check()


def test_the_oldest_waiting_call_is_served_although_its_node_has_no_copy_and_no_memory() -> None:
    served = Served(gpu_node(gpus=1, memory=500))
    served.open(environment("e", memory=400))
    served.declare(service("teacher", host_mib=300))
    served.submit(call("a", "teacher"))
    assert [] == served.coming()

    served.close("e")
    assert [("teacher", (0,), True)] == restores(served.closed("e"))


def test_instances_that_are_claimed_are_told_apart_by_their_name() -> None:
    served = Served(gpu_node(gpus=1))
    served.up(service("first"))

    with pytest.raises(InvariantError, match="first#1 cannot go from resident to restoring"):
        first(served, InstancePhase.RESIDENT).step(InstancePhase.RESTORING)
