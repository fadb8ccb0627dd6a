"""Policies and actions that need less than a core."""

from __future__ import annotations

import pytest

from arl_tangram.core.commands import Start
from arl_tangram.core.estimates import Oracle
from arl_tangram.core.events import ActionExited, ActionSubmitted, NodeJoined
from arl_tangram.core.kernel import Kernel
from arl_tangram.core.model import CPU, Action, ActionId, Elastic, Node, NodeId, Outcome
from arl_tangram.policies.registry import NAMES, policy_named


@pytest.mark.parametrize("policy", [name.replace("K", "4") for name in NAMES])
def test_putting_off_a_part_of_a_core_frees_no_whole_core_for_another(policy: str) -> None:
    work = {"first": 1.0, "wide": 100.0, "part1": 1.0, "part2": 1.0}
    kernel = Kernel(policy_named(policy), Oracle({ActionId(k): v for k, v in work.items()}))
    kernel.handle(NodeJoined(at=0.0, node=Node(id=NodeId("n"), capacity={CPU: 2000})))
    for action in (
        Action(id=ActionId("first"), needs={CPU: 2000}),
        Action(id=ActionId("wide"), elastic=Elastic(units=(1, 2))),
        Action(id=ActionId("part1"), needs={CPU: 250}),
        Action(id=ActionId("part2"), needs={CPU: 250}),
    ):
        kernel.handle(ActionSubmitted(at=0.0, action=action))

    commands = kernel.handle(
        ActionExited(at=1.0, action=ActionId("first"), attempt=1, outcome=Outcome.SUCCEEDED)
    )

    assert "wide" in [command.lease.action for command in commands if isinstance(command, Start)]
    kernel.check()
