"""`Kernel.check` finds every way in which the books can contradict themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from arl_tangram.core.cluster import Cluster, NodeState
from arl_tangram.core.entries import Entry, EnvironmentEntry
from arl_tangram.core.invariants import check
from arl_tangram.core.model import CPU, ActionId, EnvironmentId, NodeId, Outcome, TaskId
from arl_tangram.core.phases import EnvironmentPhase, Phase
from arl_tangram.errors import InvariantError
from arl_tangram.testing.builders import action, environment, node
from arl_tangram.testing.watched import Watched


def busy() -> Cluster:
    """Something of everything: running, stopping, waiting; open, opening, without a place."""
    watched = Watched(node(cpu=4, memory=100), opening_limit=1)
    watched.open(environment("open", memory=10))
    watched.submit(action("elastic", units=(1, 2, 3), environment="open"))
    watched.submit(action("part", cpu=0.5))
    watched.submit(action("rigid", cpu=1, environment="open"))
    watched.submit(action("big", cpu=4, environment="open"))
    watched.submit(action("anywhere", cpu=4))
    watched.request(environment("opening", memory=10))
    watched.request(environment("placed", memory=10))
    watched.submit(action("early", environment="opening"))
    watched.request(environment("unplaced", memory=90))
    watched.kernel.check()
    return watched.kernel._cluster


def entry(cluster: Cluster, name: str) -> Entry:
    return cluster.entries[ActionId(name)]


def place(cluster: Cluster, name: str) -> EnvironmentEntry:
    return cluster.environments[EnvironmentId(name)]


def node_of(cluster: Cluster) -> NodeState:
    return cluster.nodes[NodeId("n0")]


def regrant(cluster: Cluster, name: str, **changes: object) -> None:
    lease = entry(cluster, name).lease
    assert lease is not None
    grant = dataclasses.replace(lease.grant, **changes)  # type: ignore[arg-type]
    entry(cluster, name).lease = dataclasses.replace(lease, grant=grant)


def forget(mapping: dict, key: str) -> None:  # type: ignore[type-arg]
    del mapping[key]


def set_on(thing: object, name: str, value: object) -> None:
    setattr(thing, name, value)


def shared_core(cluster: Cluster) -> int:
    return next(iter(node_of(cluster).pool.cpu.rooms))


DAMAGE: dict[str, tuple[Callable[[Cluster], object], str]] = {
    "an attempt runs without a lease": (
        lambda c: set_on(entry(c, "rigid"), "lease", None),
        "action rigid: lease and phase disagree",
    ),
    "one that runs is said to wait": (
        lambda c: set_on(entry(c, "rigid"), "phase", Phase.QUEUED),
        "action rigid: lease and phase disagree",
    ),
    "one that waits is in no queue": (
        lambda c: c.anywhere.remove(entry(c, "anywhere")),
        "action anywhere: queue and phase disagree",
    ),
    "one that waits is in two queues": (
        lambda c: node_of(c).queue.add(entry(c, "anywhere")),
        "action anywhere: queue and phase disagree",
    ),
    "one that ended lives on": (
        lambda c: c.ended.__setitem__(ActionId("rigid"), Outcome.FAILED),
        "action rigid has ended and lives",
    ),
    "a node does not know what runs on it": (
        lambda c: forget(node_of(c).running, "rigid"),  # type: ignore[arg-type]
        "action rigid is not known to its node",
    ),
    "units differ from the grant's": (
        lambda c: set_on(entry(c, "elastic"), "units", 1),
        "action elastic: units and grant disagree",
    ),
    "amounts do not follow from units": (
        lambda c: regrant(c, "elastic", amounts={CPU: 1500}),
        "action elastic: amounts and units disagree",
    ),
    "a rigid action holds something else than it needs": (
        lambda c: regrant(c, "rigid", amounts={CPU: 2000}),
        "action rigid: amounts and units disagree",
    ),
    "a queue miscounts": (
        lambda c: set_on(c.anywhere._plain, "_size", 7),
        "a queue's length is off",
    ),
    "a queue holds one that is gone": (
        lambda c: forget(c.entries, "anywhere"),  # type: ignore[arg-type]
        "a queue holds an ended action",
    ),
    "a fair share is off": (
        lambda c: c.shares.held.__setitem__(TaskId("default"), 7),
        "fair shares are off",
    ),
    "an environment is placed nowhere": (
        lambda c: set_on(place(c, "open"), "node", None),
        "environment open: node and phase disagree",
    ),
    "an environment holds nothing": (
        lambda c: set_on(place(c, "open"), "grant", None),
        "environment open: grant and phase disagree",
    ),
    "a node does not know an environment on it": (
        lambda c: forget(node_of(c).environments, "placed"),  # type: ignore[arg-type]
        "environment placed unknown to its node",
    ),
    "an action waits for an environment that is open": (
        lambda c: place(c, "open").waiting.update(early=place(c, "opening").waiting.pop("early")),  # type: ignore[call-overload, call-arg]
        "environment open is open and has actions that wait for it",
    ),
    "an environment lists as waiting what runs": (
        lambda c: place(c, "open").queued.__setitem__(ActionId("rigid"), entry(c, "rigid")),
        "environment open: rigid is not queued",
    ),
    "an action of an environment waits elsewhere": (
        lambda c: set_on(entry(c, "big"), "bound_to", NodeId("n1")),
        "environment open: big waits elsewhere",
    ),
    "an environment lists as running what waits": (
        lambda c: place(c, "open").running.__setitem__(ActionId("big"), entry(c, "big")),
        "environment open: big does not run",
    ),
    "an environment that waits is forgotten": (
        lambda c: c.unplaced.remove(place(c, "unplaced")),
        "environments forgotten or not",
    ),
    "more is held than there is": (
        lambda c: node_of(c).pool.counts.__setitem__("memory", -1),
        "n0: memory is over-committed by 1",
    ),
    "memory leaks": (
        lambda c: node_of(c).pool.counts.__setitem__("memory", 99),
        "n0: memory leaks",
    ),
    "cores leak": (
        lambda c: set_on(node_of(c).pool.cpu, "whole", 3),
        "n0: cpu leaks",
    ),
    "a core is free and held": (
        lambda c: node_of(c).pool.cpu._free[0].append(0),
        "n0: core 0 has not what is left",
    ),
    "a grant has too few cores": (
        lambda c: regrant(c, "elastic", cores=(0,)),
        "n0: cores and CPU disagree",
    ),
    "a core is granted twice": (
        lambda c: regrant(c, "rigid", cores=entry(c, "elastic").lease.grant.cores[:1]),  # type: ignore[union-attr]
        r"n0: core \d is granted twice",
    ),
    "the room on a shared core is off": (
        lambda c: node_of(c).pool.cpu.rooms.update({shared_core(c): 400, 9: 100}),
        r"n0: core \d has not what is left",
    ),
    "what environments own is off": (
        lambda c: node_of(c).owned.__setitem__("memory", 1),
        "n0: owned memory is off",
    ),
    "one that cannot be resized is listed": (
        lambda c: node_of(c).resizable.__setitem__(ActionId("rigid"), entry(c, "rigid")),
        "rigid is not resizable",
    ),
    "one that stops is listed as resizable": (
        lambda c: set_on(entry(c, "elastic"), "phase", Phase.STOPPING),
        "elastic does not run and is resizable",
    ),
    "a surplus is off": (
        lambda c: node_of(c).surplus.__setitem__(CPU, 5),
        "n0: surplus of cpu is off",
    ),
    "room is kept for one that has a place": (
        lambda c: set_on(node_of(c), "reserved_for", place(c, "open")),
        "n0: room is kept for an environment that does not wait",
    ),
    "the ramp miscounts": (
        lambda c: set_on(node_of(c), "opening", 0),
        "n0: the ramp counts wrong",
    ),
}


@pytest.mark.parametrize("name", list(DAMAGE))
def test_the_check_fails_if(name: str) -> None:
    damage, message = DAMAGE[name]
    cluster = busy()

    damage(cluster)

    with pytest.raises(InvariantError, match=f"^{message}"):
        check(cluster)


def test_no_step_is_possible_that_is_not_in_the_table() -> None:
    cluster = busy()

    with pytest.raises(InvariantError, match="action big cannot go from queued to stopping"):
        cluster.step(entry(cluster, "big"), Phase.STOPPING)
    with pytest.raises(InvariantError, match="environment open cannot go from open to waiting"):
        cluster.step_environment(place(cluster, "open"), EnvironmentPhase.WAITING)
