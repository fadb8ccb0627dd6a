"""The check of services, against every way in which their books can be wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arl_tangram.core.model import Degree
from arl_tangram.core.serving.instances import Instance, InstancePhase
from arl_tangram.errors import InvariantError
from arl_tangram.testing.builders import environment
from arl_tangram.testing.served import Served, call, gpu_node, restores, service


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
