from __future__ import annotations

import pytest

from arl_tangram.core.commands import OpenEnvironment, Resize, Start
from arl_tangram.core.events import ActionExited, ActionSubmitted, EnvironmentClosed, Woke
from arl_tangram.core.model import (
    CPU,
    Action,
    ActionId,
    Environment,
    EnvironmentId,
    Grant,
    Lease,
    NodeId,
    Outcome,
    TrajectoryId,
)
from arl_tangram.demo.ledger import ENVIRONMENT, Ledger, Span


def lease(units: float) -> Lease:
    grant = Grant(amounts={CPU: round(units * 1000)})
    return Lease(action=ActionId("a1"), attempt=1, node=NodeId("n"), grant=grant)


def submitted(at: float) -> ActionSubmitted:
    action = Action(id=ActionId("a1"), trajectory=TrajectoryId("t"), kind="reward")
    return ActionSubmitted(at=at, action=action)


def test_an_action_that_grows_and_shrinks_is_written_down() -> None:
    ledger = Ledger()

    ledger.happened(submitted(1.0), [Start(lease(2))])
    ledger.happened(Woke(at=2.0), [Resize(lease(5))])
    ledger.happened(Woke(at=4.0), [Resize(lease(1))])
    ledger.happened(
        ActionExited(at=5.0, action=ActionId("a1"), attempt=1, outcome=Outcome.SUCCEEDED), []
    )

    expected = Span("t", "reward", held=[(1.0, 2.0), (2.0, 5.0), (4.0, 1.0)], ended_at=5.0)
    assert [expected] == ledger.spans
    assert pytest.approx(2 + 10 + 1) == ledger.spans[0].unit_s


def test_an_environment_that_owns_units_holds_them_until_it_is_closed() -> None:
    ledger = Ledger()
    environment = Environment(
        id=EnvironmentId("e1"), trajectory=TrajectoryId("t"), needs={CPU: 3000}
    )

    ledger.happened(Woke(at=1.0), [OpenEnvironment(environment, NodeId("n"))])
    ledger.happened(EnvironmentClosed(at=4.0, environment=EnvironmentId("e1")), [])

    assert [Span("t", ENVIRONMENT, held=[(1.0, 3.0)], ended_at=4.0)] == ledger.spans
    assert {"e1": 1.0} == ledger.placed_at
    assert 9.0 == ledger.spans[0].unit_s


def test_an_environment_that_owns_nothing_holds_nothing() -> None:
    ledger = Ledger()

    environment = Environment(id=EnvironmentId("e1"))
    ledger.happened(Woke(at=1.0), [OpenEnvironment(environment, NodeId("n"))])

    assert [] == ledger.spans
    assert {"e1": 1.0} == ledger.placed_at


def test_what_has_not_ended_counts_nothing_yet() -> None:
    ledger = Ledger()

    ledger.happened(submitted(1.0), [Start(lease(2))])

    assert 0.0 == ledger.spans[0].unit_s
