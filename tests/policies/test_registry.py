"""Policies by name."""

from __future__ import annotations

import pytest

from arl_tangram.errors import ConfigError
from arl_tangram.policies.fixed import Fixed
from arl_tangram.policies.inflight import Inflight
from arl_tangram.policies.registry import DEFAULT, policy_named
from arl_tangram.policies.shares import Equi, HeSrpt
from arl_tangram.policies.tangram import Tangram
from arl_tangram.testing.builders import action, environment, node
from arl_tangram.testing.watched import Watched


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("inflight", Inflight),
        ("tangram", Tangram),
        ("fixed:4", Fixed),
        ("equi", Equi),
        ("hesrpt", HeSrpt),
        ("static", Fixed),
    ],
)
def test_every_policy_has_a_name(name: str, kind: type) -> None:
    assert isinstance(policy_named(name), kind)
    assert policy_named(name) is not policy_named(name)


def test_the_default_is_inflight() -> None:
    assert "inflight" == DEFAULT


@pytest.mark.parametrize(
    "name", ["", "fixed", "fixed:0", "fixed:x", "fixed:-1", "fixed:1:2", "fcfs"]
)
def test_a_name_that_is_none_is_answered_with_those_there_are(name: str) -> None:
    with pytest.raises(ConfigError, match=r"use one of inflight, .* \(as in fixed:4\)") as refusal:
        policy_named(name)

    assert f"policy={name!r}" in str(refusal.value)


@pytest.mark.parametrize(
    ("width", "units", "cpu", "expected"),
    [
        (4, (1, 2, 4, 8), 8, 4),
        (3, (1, 2, 4, 8), 8, 2),  # of two as near, the smaller
        (16, (1, 2, 4), 8, 4),
        (16, tuple(range(1, 17)), 6, 6),  # no more than the node has
        (1, (2, 3), 8, 2),
    ],
)
def test_a_fixed_width_is_the_nearest_that_is_allowed_and_that_the_node_has(
    width: int, units: tuple[int, ...], cpu: float, expected: int
) -> None:
    watched = Watched(node(cpu=cpu), policy=f"fixed:{width}")

    watched.submit(action("a", units=units))

    assert expected == watched.units("a")


def test_a_fixed_width_leaves_what_environments_own() -> None:
    watched = Watched(node(cpu=8), policy="fixed:8")
    watched.open(environment("e", cpu=3))

    watched.submit(action("a", units=(1, 2, 4, 8), environment="e"))

    assert 4 == watched.units("a")


def test_a_fixed_width_is_the_least_where_environments_own_even_that() -> None:
    watched = Watched(node(cpu=4), policy="fixed:4")
    watched.request(environment("e", cpu=3))
    watched.opened("e")
    watched.submit(action("a", units=(2, 4)))
    assert [] == watched.running()

    watched.close("e")
    watched.closed("e")

    assert 4 == watched.units("a")


def test_rigid_actions_run_as_they_are_under_a_fixed_width() -> None:
    watched = Watched(node(cpu=4), policy="fixed:4")

    watched.submit(action("a", cpu=1.5))

    assert 0 == watched.units("a")
