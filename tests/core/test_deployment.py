"""The deployment aimed at, and the seats in which it is reached."""

from __future__ import annotations

from collections.abc import Mapping

from arl_tangram.core.serving.deployment import Seat, deploy, seats_of
from arl_tangram.testing.served import Served, call, gpu_node, service

WIDE = (1, 2, 4)


def called(served: Served, counts: Mapping[str, int]) -> None:
    """Let calls come, evenly over 50 seconds, each answered at once."""
    states = served.kernel._cluster.services
    for i in range(max(counts.values())):
        served.now += 50.0 / max(counts.values())
        for name, count in counts.items():
            if i % (max(counts.values()) // count) == 0:
                states[name].called(1.0, served.now)


def wanted(served: Served) -> dict[str, tuple[int, ...]]:
    cluster = served.kernel._cluster
    return deploy(cluster, list(cluster.services.values()), now=served.now)


def seats(served: Served, deployment: Mapping[str, tuple[int, ...]]) -> list[Seat]:
    return seats_of(served.kernel._cluster, deployment)


def test_every_service_has_an_instance_before_one_has_two() -> None:
    served = Served(gpu_node(gpus=4))
    for name in "abcd":
        served.declare(service(name, *WIDE))

    assert {"a": (1,), "b": (1,), "c": (1,), "d": (1,)} == wanted(served)


def test_what_is_called_more_gets_more_devices() -> None:
    served = Served(gpu_node(gpus=6))
    for name in ("busy", "calm"):
        served.declare(service(name, *WIDE))
    called(served, {"busy": 50, "calm": 2})

    found = wanted(served)

    assert sum(found["busy"]) > sum(found["calm"]) >= 1


def test_a_deployment_fits_in_aligned_cells() -> None:
    served = Served(gpu_node(gpus=6))
    for name in ("one", "two"):
        served.declare(service(name, 4))
    called(served, {"one": 20, "two": 20})

    assert [(), (4,)] == sorted(wanted(served).values())


def test_devices_of_others_are_not_counted_in() -> None:
    served = Served(gpu_node(gpus=8))
    served.up(service("pinned", 4, pinned=(4,)))
    served.declare(service("teacher", *WIDE))
    called(served, {"teacher": 20})
    cluster = served.kernel._cluster

    found = deploy(cluster, [cluster.services["teacher"]], now=served.now)

    assert sum(found["teacher"]) <= 4


def test_instances_that_are_wanted_stay_where_they_are() -> None:
    served = Served(gpu_node(gpus=4))
    served.up(service("one", 1))

    (found,) = seats(served, {"one": (1,)})

    assert found.instance is not None
    assert found.cell == served.ledger.instances.up[found.instance].devices


def test_a_wider_instance_takes_the_cell_with_fewest_in_it_and_others_move() -> None:
    served = Served(gpu_node(gpus=4))
    for name in ("a", "b"):
        served.up(service(name, *WIDE))
    assert [[2], [2]] == [served.widths("a"), served.widths("b")]

    found = seats(served, {"a": (4,), "b": ()})

    assert [("a", (0, 1, 2, 3), None)] == [(s.service, s.cell, s.instance) for s in found]


def test_a_service_that_fits_on_no_node_has_no_seat() -> None:
    served = Served(gpu_node(gpus=2, gpu_mib=100))
    served.declare(service("huge", 1, device_mib=500))

    assert [] == seats(served, {"huge": (1,)})


def test_going_from_seat_to_seat_comes_to_an_end() -> None:
    served = Served(gpu_node(gpus=8), gpu_node("g1", gpus=4))
    for name in "abcdefg":
        served.declare(service(name, *WIDE))
        served.settle()
    for i, name in enumerate("gfedcba" * 6):
        served.now += 1.0
        for j in range(1 + i % 5):
            served.submit(call(f"{name}{i}-{j}", name))
        served.settle()
        for action in list(served.running()):
            served.exit(action)
        served.settle()  # raises if instances come and go without end

    assert {"succeeded"} == {outcome.value for outcome in served.ledger.resolved.values()}
