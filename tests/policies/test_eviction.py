"""Which instances make room for others."""

from __future__ import annotations

import pytest

from arl_tangram.core.model import InstanceId, NodeId
from arl_tangram.core.serving.arrivals import Together
from arl_tangram.core.serving.instances import Instance, InstancePhase
from arl_tangram.core.serving.services import ServiceState
from arl_tangram.core.serving.worth import Cost, absence
from arl_tangram.errors import ConfigError
from arl_tangram.policies.eviction import Belady, Lru, eviction_named
from arl_tangram.testing.served import service


def served(name: str, *, calls: int = 0, restore_s: float = 2.0, widths: int = 1) -> ServiceState:
    """A service with instances on one device each, called so often in the last 100 seconds."""
    together = Together()
    declared = service(name, restore_s=restore_s)
    state = ServiceState.of(declared, arrivals=together.arrivals(0.0))
    for i in range(calls):
        state.called(1.0, 100.0 * i / calls)
    for i in range(widths):
        instance = Instance(
            id=InstanceId(f"{name}#{i}"),
            service=name,
            degree=declared.degrees[0],
            node=NodeId("g0"),
            cell=(i,),
            phase=InstancePhase.RESIDENT,
            used_at=100.0 - 10.0 * i,
        )
        state.instances[instance.id] = instance
    return state


def all_of(state: ServiceState) -> list[Instance]:
    return list(state.instances.values())


def test_by_cost_the_last_instance_of_what_is_called_often_is_dear() -> None:
    often, seldom = served("often", calls=50), served("seldom", calls=2)

    assert Cost().loss(often, all_of(often), now=100.0) > Cost().loss(
        seldom, all_of(seldom), now=100.0
    )


def test_by_cost_what_takes_long_to_restore_is_dear() -> None:
    quick, slow = served("quick", calls=5), served("slow", calls=5, restore_s=20.0)

    assert Cost().loss(slow, all_of(slow), now=100.0) > Cost().loss(quick, all_of(quick), now=100.0)


def test_by_cost_an_instance_beside_another_is_cheap() -> None:
    alone, beside = served("alone", calls=5), served("beside", calls=5, widths=2)

    assert Cost().loss(beside, all_of(beside)[:1], now=100.0) < Cost().loss(
        alone, all_of(alone), now=100.0
    )


def test_lru_looks_at_the_last_use_alone() -> None:
    state = served("teacher", calls=50, widths=2)
    newer, older = all_of(state)

    assert Lru().loss(state, [older], now=110.0) < Lru().loss(state, [newer], now=110.0)
    assert 0.1 + 0.05 == pytest.approx(Lru().loss(state, [newer, older], now=110.0))


def test_belady_knows_what_is_called_next() -> None:
    soon, late, never = served("soon"), served("late"), served("never")
    belady = Belady({"soon": [50.0, 101.0], "late": [200.0]})

    losses = [belady.loss(state, all_of(state), now=100.0) for state in (soon, late, never)]

    assert [2.0, 0.02, 0.0] == pytest.approx(losses)


def test_belady_takes_instances_beside_others_for_what_they_are_worth() -> None:
    state = served("teacher", calls=5, widths=2)

    assert Cost().loss(state, all_of(state)[:1], now=100.0) == Belady({}).loss(
        state, all_of(state)[:1], now=100.0
    )


def test_absence_is_short_while_another_instance_is_there_or_to_come() -> None:
    state = served("teacher", calls=10, widths=2)
    first, second = all_of(state)
    assert 0.0 == absence(state, [first], now=100.0)

    second.phase = InstancePhase.RESTORING
    second.ready_at = 101.0

    rate = state.arrivals.rate(100.0)
    assert rate * 0.5 == pytest.approx(absence(state, [first], now=100.0))
    assert rate * 2.0 == pytest.approx(absence(state, [first, second], now=100.0))


def test_evictions_have_names() -> None:
    assert isinstance(eviction_named("cost"), Cost)
    assert isinstance(eviction_named("lru"), Lru)
    assert [True, False] == [eviction_named(name).anticipates for name in ("lru", "on-demand")]
    with pytest.raises(ConfigError, match="eviction='fifo': use one of cost, lru, on-demand"):
        eviction_named("fifo")
