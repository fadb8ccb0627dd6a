"""Instances that fail, nodes that are lost, calls that can never be answered, memory that is short."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arl_tangram.core.commands import EvictService, Resolve, RestoreService
from arl_tangram.core.events import ServiceDeclared
from arl_tangram.core.model import Degree, Outcome, Service
from arl_tangram.errors import InvariantError
from arl_tangram.testing.builders import action, environment
from arl_tangram.testing.served import Served, call, evictions, gpu_node, restores, service
from arl_tangram.testing.watched import opening, started


def reason(served: Served, action: str) -> str:
    return served.ledger.reasons[action]  # type: ignore[index]


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


def test_instances_that_die_with_one_process_are_one_failure() -> None:
    served = Served(gpu_node(gpus=8))
    served.up(service("teacher"))
    for i in range(6):
        served.submit(call(f"a{i}", "teacher"))
        served.settle()
    up = served.instances("teacher")
    assert 5 <= len(up)
    for name in up:
        served.now += 0.01
        served.failed(name, "the worker was killed")

    served.wait(2.0)
    assert ["teacher"] == [name for name, *_ in restores(served.wake())][:1]


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
    assert 0.7 == pytest.approx(state.restore_s(state.degrees[1], cold=False))


def test_a_load_of_which_nothing_is_known_is_believed_to_take_as_long_as_a_restore() -> None:
    served = Served(gpu_node(gpus=4))
    served.declare(service("teacher", 1, 2, restore_s=6.0))

    state = served.kernel._cluster.services["teacher"]
    assert 6.0 == state.restore_s(state.degrees[2], cold=True)


def test_a_load_is_believed_to_get_faster_with_devices_as_a_restore_does() -> None:
    served = Served(gpu_node(gpus=1))
    degrees = (
        Degree(gpus=1, speedup=1.0, restore_s=3.0),
        Degree(gpus=2, speedup=2.0, restore_s=2.0),
    )
    served.declare(Service(name="teacher", degrees=degrees))
    served.wait(9.0)
    served.restored(served.coming()[0])

    state = served.kernel._cluster.services["teacher"]
    assert 6.0 == state.restore_s(state.degrees[2], cold=True)


def test_restores_of_other_widths_tell_most_about_restores_of_their_own_sort() -> None:
    served = Served(gpu_node(gpus=1))
    served.declare(service("teacher", 1, 2, restore_s=None))
    served.wait(7.0)
    served.restored(served.coming()[0])
    served.up(service("other"))
    served.declare(service("third"))
    served.submit(call("a", "teacher"))
    served.evicted(served.leaving()[0])
    served.wait(1.0)
    served.restored(served.coming()[0])

    state = served.kernel._cluster.services["teacher"]
    assert 3.5 == state.restore_s(state.degrees[2], cold=True)
    assert 0.5 == state.restore_s(state.degrees[2], cold=False)


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


def test_memory_that_an_idle_instance_has_left_goes_to_the_action_that_it_left_for() -> None:
    served = Served(gpu_node(gpus=1, memory=1000))
    served.declare(service("teacher", host_mib=600, movable=False))
    served.submit(call("c", "teacher"))
    served.settle()
    served.exit("c")

    commands = served.submit(action("a", memory=900))

    assert [("teacher", True)] == evictions(commands)
    commands = served.evicted(served.leaving()[0])
    assert ["a"] == started(commands)
    assert [] == restores(commands)


def test_a_copy_in_use_is_not_forgotten() -> None:
    served = Served(gpu_node(gpus=1, memory=1000))
    served.up(service("teacher", host_mib=600))
    served.submit(call("a", "teacher"))

    assert [] == evictions(served.request(environment("e", memory=900)))
    assert [("teacher", True)] == evictions(served.exit("a"))


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


def test_a_call_with_units_of_its_own_is_refused() -> None:
    served = Served(gpu_node())
    served.declare(service("teacher"))
    elastic = action("a", units=(1, 2)).elastic

    served.submit(replace(call("a", "teacher"), elastic=elastic))

    assert "a call has no elastic units of its own; leave out elastic" in reason(served, "a")


def test_an_eviction_that_nobody_asked_for_is_no_news() -> None:
    served = Served(gpu_node(gpus=1))
    (instance,) = served.up(service("teacher"))

    served.evicted(instance)

    assert ["a"] == started(served.submit(call("a", "teacher")))


def test_a_node_is_lost_while_a_copy_is_forgotten_there() -> None:
    served = Served(gpu_node(gpus=1, memory=1000), gpu_node("g1", gpus=0, memory=1000))
    served.up(service("first", host_mib=600))
    served.declare(service("second"))
    served.submit(call("a", "second"))
    served.settle()
    served.open(environment("other", memory=900))
    assert [("first", True)] == evictions(served.request(environment("e", memory=900)))
    (copy,) = served.leaving()

    served.lose("g0")

    assert [] == served.evicted(copy)
    served.join(gpu_node("g2", gpus=1, memory=1000))
    served.settle()
    assert "g2" == served.lease("a").node


def test_leases_that_fit_nowhere_now_are_looked_past_but_not_for_ever() -> None:
    served = Served(gpu_node(gpus=2))
    served.submit(action("here", gpu=1))
    for i in range(20):
        served.submit(action(f"wide{i}", gpu=2))

    served.exit("here")

    assert ["wide0"] == served.running()


def test_devices_of_an_instance_that_is_leaving_anyway_are_taken_next() -> None:
    served = Served(gpu_node(gpus=1, memory=1000))
    served.up(service("teacher", host_mib=600))
    served.request(environment("e", memory=900))
    (leaving,) = served.leaving()
    served.declare(service("other"))

    served.submit(call("a", "other"))

    waits_for = served.kernel.explain("a").waits_for  # type: ignore[arg-type]
    assert "for others to leave its devices on g0" in waits_for
    assert [("other", (0,), True)] == restores(served.evicted(leaving))


def test_a_call_that_had_better_wait_for_a_faster_instance_says_so() -> None:
    served = Served(gpu_node(gpus=1), gpu_node("g1", gpus=8))
    served.up(service("teacher", 1, 8, pinned=(1, 8)))
    assert [8, 1] == served.widths("teacher")
    served.submit(call("a", "teacher"))
    assert 8 == served.units("a")
    served.submit(call("b", "teacher"))

    assert ["a"] == served.running()
    waits_for = served.kernel.explain("b").waits_for  # type: ignore[arg-type]
    assert "one of 2 instances of teacher to be free" in waits_for


def test_what_was_kept_for_a_call_is_free_again_when_that_is_cancelled() -> None:
    served = Served(gpu_node(gpus=1, cpu=2), patience_s=1.0)
    served.up(service("judge"))
    served.submit(action("c0", cpu=1))
    served.submit(action("c1", cpu=1))
    served.submit(call("a", "judge", needs={"cpu": 2000}))
    served.wait(2.0)
    served.submit(action("c2", cpu=1))
    served.exit("c0")
    assert ["c1"] == served.running()

    assert ["c2"] == started(served.cancel("a"))


def test_what_was_kept_for_a_lease_is_free_again_when_that_is_cancelled() -> None:
    served = Served(gpu_node(gpus=2, cpu=2))
    served.up(service("teacher", 2))
    served.submit(call("t", "teacher"))
    served.submit(action("train", gpu=2, cpu=2))
    served.wait(10.0)
    served.submit(call("later", "teacher"))
    served.submit(action("plain", cpu=1))
    assert ["t"] == served.running()  # the cores are kept for the lease, which comes next

    assert "plain" in started(served.cancel("train"))


def test_a_copy_that_is_forgotten_elsewhere_outlives_a_lost_node() -> None:
    served = Served(gpu_node(gpus=1, memory=1000), gpu_node("g1", gpus=0, memory=500))
    served.up(service("first", host_mib=600))
    served.declare(service("second"))
    served.submit(call("a", "second"))
    served.settle()
    assert [("first", True)] == evictions(served.request(environment("e", memory=900)))
    (copy,) = served.leaving()

    served.lose("g1")

    assert {"e": "g0"} == opening(served.evicted(copy))


def test_devices_of_a_service_at_rest_whose_instance_is_leaving_are_taken_next() -> None:
    served = Served(gpu_node(gpus=2, memory=1000))
    served.up(service("teacher", host_mib=600, pinned=()))
    served.request(environment("e", memory=900))
    one, other = served.leaving()
    served.failed(one)
    served.declare(service("other", 2))
    served.submit(call("t", "teacher"))

    served.submit(call("a", "other"))

    assert [("other", (0, 1), True)] == restores(served.evicted(other))
