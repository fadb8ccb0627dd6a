"""Requests that make no sense are refused where they are made, naming the field and the value."""

from __future__ import annotations

import pytest

from arl_tangram.core.model import (
    CPU,
    MILLI,
    MOST_UNITS,
    Action,
    ActionId,
    Elastic,
    Environment,
    EnvironmentId,
    Grant,
    Node,
    NodeId,
)
from arl_tangram.testing.builders import node
from arl_tangram.testing.watched import Watched


@pytest.mark.parametrize("amount", [-1, 0.5, "1"])
def test_amounts_are_whole_numbers_from_zero_up(amount: object) -> None:
    amounts = {"gpu": amount}

    with pytest.raises(ValueError, match=rf"needs\['gpu'\]={amount!r}: give a whole number"):
        Action(id=ActionId("a"), needs=amounts)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"needs\['gpu'\]"):
        Environment(id=EnvironmentId("e"), needs=amounts)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"capacity\['gpu'\]"):
        Node(id=NodeId("n"), capacity=amounts)  # type: ignore[arg-type]


def test_a_node_has_no_more_cores_than_can_be_kept_account_of_one_by_one() -> None:
    most = MOST_UNITS * MILLI

    assert most == Node(id=NodeId("n"), capacity={CPU: most}).capacity[CPU]
    with pytest.raises(ValueError, match=r"capacity\['cpu'\]=65536001: at most 65536000"):
        Node(id=NodeId("n"), capacity={CPU: most + 1})


def test_an_amount_of_zero_is_no_amount_even_of_what_there_is_not() -> None:
    watched = Watched(node())

    watched.submit(Action(id=ActionId("a"), needs={"gpu": 0, CPU: 0}))

    assert ["a"] == watched.running()
    watched.exit("a")


@pytest.mark.parametrize("units", [(), (0, 1), (2, 1), (1, 1)])
def test_allowed_units_ascend_from_one(units: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"units=.*: give whole numbers from 1 up, ascending"):
        Elastic(units=units)


def test_the_least_and_the_most_are_the_ends_of_the_list() -> None:
    elastic = Elastic(units=(2, 3, 7))

    assert (2, 7) == (elastic.least, elastic.most)


def test_a_grant_without_cpu_has_no_millicores() -> None:
    assert 0 == Grant(amounts={"gpu": 1}).cpu_milli
    assert 1500 == Grant(amounts={CPU: 1500}).cpu_milli
