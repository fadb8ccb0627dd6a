"""What every policy owes: plans that fit, and an end for everyone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arl_tangram.core.model import Action, ActionId, Node, NodeId
from arl_tangram.core.phases import Phase
from arl_tangram.testing import strategies
from arl_tangram.testing.builders import environment
from arl_tangram.testing.watched import Watched

POLICIES = ["inflight", "tangram", "fixed:1", "fixed:3", "equi", "hesrpt"]

requests = st.lists(
    st.tuples(
        strategies.bundles(),
        st.none() | strategies.elastics,
        st.booleans(),
        st.sampled_from([0.0, 0.2, 3.0]),
    ),
    min_size=1,
    max_size=14,
)


def asked(i: int, needs: dict[str, int], elastic: object, *, bound: bool) -> Action:
    return Action(
        id=ActionId(f"a{i}"),
        kind="bash" if i % 2 else "reward",
        needs=needs,
        elastic=elastic,  # type: ignore[arg-type]
        environment=environment("e").id if bound else None,
    )


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=60)
@given(capacity=strategies.capacities, requests=requests, at_once=st.booleans(), data=st.data())
def test_its_plans_fit_whatever_waits_and_runs(
    policy: str,
    capacity: dict[str, int],
    requests: list[tuple[dict[str, int], object, bool, float]],
    *,
    at_once: bool,
    data: st.DataObject,
) -> None:
    """Those in the environment are decided on together or one by one; then all run to their end."""
    topology = data.draw(strategies.topologies(strategies.cores_in(capacity)))
    node = Node(id=NodeId("n0"), capacity=capacity, topology=topology)
    watched = Watched(node, policy=policy)
    watched.request(environment("e"))
    if not at_once:
        watched.opened("e")
    for i, (needs, elastic, bound, gap) in enumerate(requests):
        watched.submit(asked(i, needs, elastic, bound=bound))
        watched.wait(gap)
    if at_once:
        watched.opened("e")

    while watched.running():
        watched.wait(data.draw(st.sampled_from([0.0, 0.3])))
        watched.exit(data.draw(st.sampled_from(watched.running())))

    assert [] == watched.ledger.unresolved()


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=30)
@given(requests=requests)
def test_it_leaves_no_core_idle_that_somebody_waits_for(
    policy: str, requests: list[tuple[dict[str, int], object, bool, float]]
) -> None:
    """An empty node takes at least one of those who wait and fit."""
    capacity = {"cpu": 4000, "memory": 2000, strategies.GPU: 4}
    watched = Watched(Node(id=NodeId("n0"), capacity=capacity), policy=policy)
    watched.open(environment("e"))
    for i, (needs, elastic, bound, _) in enumerate(requests):
        watched.submit(asked(i, needs, elastic, bound=bound))

        waits = [a for a in watched.ledger.unresolved() if watched.phase(a) is Phase.QUEUED]
        assert watched.running() or not waits
