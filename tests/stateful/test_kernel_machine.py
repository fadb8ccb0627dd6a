"""The whole kernel against an account kept from its commands alone, under every policy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arl_tangram.core.entries import least_of
from arl_tangram.core.events import (
    ActionExited,
    ActionSubmitted,
    CancelRequested,
    CloseRequested,
    EnvironmentClosed,
    EnvironmentFailed,
    EnvironmentOpened,
    EnvironmentRequested,
    Event,
    NodeJoined,
    NodeLost,
    Woke,
)
from arl_tangram.core.kernel import Kernel
from arl_tangram.core.model import (
    CPU,
    MEMORY,
    Action,
    ActionId,
    Bundle,
    Elastic,
    Environment,
    EnvironmentId,
    Node,
    NodeId,
    Outcome,
    TaskId,
)
from arl_tangram.core.phases import Phase
from arl_tangram.core.pools.node import NodePool
from arl_tangram.policies.registry import policy_named
from arl_tangram.testing import strategies
from arl_tangram.testing.ledger import Ledger

T = TypeVar("T")
OPENING_LIMIT = 2
index = st.integers(0, 1000)
tasks = st.sampled_from([TaskId("t0"), TaskId("t0"), TaskId("t1"), TaskId("t2")])
priorities = st.sampled_from([0, 0, 0, 1, -1])
lag = st.sampled_from([0, 0, 0, 0, 1, -1])
spans = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, 3.0])


def pick(things: Sequence[T], at: int) -> T:
    return things[at % len(things)]


class KernelMachine(RuleBasedStateMachine):
    policy = "inflight"

    def __init__(self) -> None:
        super().__init__()
        self.kernel = Kernel(policy_named(self.policy), opening_limit=OPENING_LIMIT, patience_s=1.0)
        self.ledger = Ledger(OPENING_LIMIT)
        self.journal: list[tuple[Event, list[object]]] = []
        self.now = 0.0
        self.names = itertools.count()

    def feed(self, event: Event) -> None:
        commands = self.kernel.handle(event)
        self.journal.append((event, list(commands)))
        self.ledger.follow(event, commands)

    # -- nodes -------------------------------------------------------------------------------

    @precondition(lambda self: len(self.ledger.nodes) < 3)
    @rule(capacity=strategies.capacities, data=st.data())
    def a_node_joins(self, capacity: Bundle, data: st.DataObject) -> None:
        topology = data.draw(strategies.topologies(strategies.cores_in(capacity)))
        name = NodeId(f"n{next(self.names)}")
        node = Node(id=name, capacity=capacity, topology=topology)
        self.feed(NodeJoined(at=self.now, node=node))

    @precondition(lambda self: len(self.ledger.nodes) > 1)
    @rule(at=index, really=st.sampled_from([False, False, True]))
    def a_node_is_lost(self, at: int, really: bool) -> None:
        node = pick(list(self.ledger.nodes), at) if really else NodeId("never heard of")
        self.feed(NodeLost(at=self.now, node=node))

    # -- environments ------------------------------------------------------------------------

    @rule(
        needs=strategies.bundles(cpu=st.sampled_from([0, 0, 0, 300, 1000, 2000])),
        task=tasks,
        priority=priorities,
    )
    def an_environment_is_requested(self, needs: Bundle, task: TaskId, priority: int) -> None:
        name = EnvironmentId(f"e{next(self.names)}")
        environment = Environment(id=name, task=task, needs=needs, priority=priority)
        self.feed(EnvironmentRequested(at=self.now, environment=environment))

    @precondition(lambda self: self.ledger.places)
    @rule(at=index)
    def an_environment_is_requested_again(self, at: int) -> None:
        place = pick(list(self.ledger.places.values()), at)
        self.feed(EnvironmentRequested(at=self.now, environment=place.environment))

    @precondition(lambda self: self.ledger.places)
    @rule(at=index, opening=st.booleans(), lag=lag)
    def an_environment_opens(self, at: int, opening: bool, lag: int) -> None:
        places = list(self.ledger.places.values())
        places = [p for p in places if not opening or p.state == "opening"] or places
        place = pick(places, at)
        self.feed(
            EnvironmentOpened(
                at=self.now, environment=place.environment.id, attempt=place.attempt + lag
            )
        )

    @precondition(lambda self: self.ledger.places)
    @rule(at=index, lag=lag)
    def an_environment_fails(self, at: int, lag: int) -> None:
        place = pick(list(self.ledger.places.values()), at)
        self.feed(
            EnvironmentFailed(
                at=self.now,
                environment=place.environment.id,
                reason="it broke",
                attempt=place.attempt + lag,
            )
        )

    @precondition(lambda self: self.ledger.places)
    @rule(at=index)
    def an_environment_is_no_longer_wanted(self, at: int) -> None:
        place = pick(list(self.ledger.places.values()), at)
        self.feed(CloseRequested(at=self.now, environment=place.environment.id))

    @precondition(lambda self: self.ledger.places)
    @rule(at=index, asked=st.booleans())
    def an_environment_is_closed(self, at: int, asked: bool) -> None:
        places = list(self.ledger.places.values())
        places = [p for p in places if not asked or p.close_sent] or places
        place = pick(places, at)
        if place.state == "closing" and not place.close_sent:
            return  # an executor closes what it was told to close
        self.feed(EnvironmentClosed(at=self.now, environment=place.environment.id))

    @rule()
    def something_happens_to_unknown_environments(self) -> None:
        name = EnvironmentId("never heard of")
        self.feed(EnvironmentOpened(at=self.now, environment=name))
        self.feed(EnvironmentFailed(at=self.now, environment=name, reason="it broke"))
        self.feed(CloseRequested(at=self.now, environment=name))
        self.feed(EnvironmentClosed(at=self.now, environment=name))

    # -- actions -----------------------------------------------------------------------------

    @rule(
        needs=strategies.bundles(),
        elastic=st.none() | strategies.elastics,
        bound=st.booleans(),
        at=index,
        task=tasks,
        priority=priorities,
        kind=st.sampled_from(["bash", "reward"]),
        max_attempts=st.integers(1, 2),
    )
    def an_action_is_submitted(
        self,
        *,
        needs: Bundle,
        elastic: Elastic | None,
        bound: bool,
        at: int,
        task: TaskId,
        priority: int,
        kind: str,
        max_attempts: int,
    ) -> None:
        places = list(self.ledger.places)
        environment = pick(places, at) if bound and places else None
        self.feed(
            ActionSubmitted(
                at=self.now,
                action=Action(
                    id=ActionId(f"a{next(self.names)}"),
                    task=task,
                    kind=kind,
                    needs=needs,
                    elastic=elastic,
                    environment=environment,
                    priority=priority,
                    max_attempts=max_attempts,
                ),
            )
        )

    @precondition(lambda self: self.ledger.actions)
    @rule(at=index)
    def an_action_is_submitted_again(self, at: int) -> None:
        action = pick(list(self.ledger.actions.values()), at)
        self.feed(ActionSubmitted(at=self.now, action=action))

    @precondition(lambda self: self.ledger.leases)
    @rule(at=index, outcome=st.sampled_from(Outcome))
    def an_attempt_ends(self, at: int, outcome: Outcome) -> None:
        lease = pick(list(self.ledger.leases.values()), at)
        self.feed(
            ActionExited(at=self.now, action=lease.action, attempt=lease.attempt, outcome=outcome)
        )

    @precondition(lambda self: self.ledger.actions)
    @rule(at=index, attempt=st.integers(0, 2), outcome=st.sampled_from(Outcome))
    def an_echo_arrives(self, at: int, attempt: int, outcome: Outcome) -> None:
        action = pick(list(self.ledger.actions), at)
        self.feed(ActionExited(at=self.now, action=action, attempt=attempt, outcome=outcome))

    @precondition(lambda self: self.ledger.actions)
    @rule(at=index)
    def an_action_is_cancelled(self, at: int) -> None:
        action = pick(list(self.ledger.actions), at)
        self.feed(CancelRequested(at=self.now, action=action))

    # -- time --------------------------------------------------------------------------------

    @rule(span=spans)
    def time_passes(self, span: float) -> None:
        self.now += span

    @rule()
    def it_wakes(self) -> None:
        self.feed(Woke(at=self.now))

    # -- what must hold ----------------------------------------------------------------------

    @invariant()
    def the_books_agree(self) -> None:
        self.kernel.check()

    @invariant()
    def phases_are_what_the_commands_told(self) -> None:
        for action in self.ledger.actions:
            assert self.ledger.phase_of(action) is self.kernel.phase_of(action)
            assert self.ledger.resolved.get(action) is self.kernel.outcome_of(action)

    @invariant()
    def every_wait_has_an_explanation(self) -> None:
        for action in self.ledger.unresolved():
            explanation = self.kernel.explain(action)
            waits = self.ledger.phase_of(action) is Phase.QUEUED

            assert waits == bool(explanation.waits_for)
            assert min(explanation.ahead, 10) == len(explanation.behind)

    def teardown(self) -> None:
        self.drain()
        twin = Kernel(policy_named(self.policy), opening_limit=OPENING_LIMIT, patience_s=1.0)
        assert [c for _, c in self.journal] == [twin.handle(e) for e, _ in self.journal]

    def drain(self) -> None:
        """Let all that runs end and close everything; then nothing may be left."""
        huge = {CPU: 64_000, MEMORY: 64_000, strategies.GPU: 64}
        self.feed(NodeJoined(at=self.now, node=Node(id=NodeId("huge"), capacity=huge)))
        for _ in range(200):
            if not self.ledger.unresolved() and self.all_gone():
                break
            self.now += 1.0
            self.progress()
        assert [] == self.ledger.unresolved()
        cluster = self.kernel._cluster
        assert {} == cluster.entries
        assert {} == cluster.environments
        assert {} == cluster.shares.held
        assert {} == cluster.placed.held
        for node in cluster.nodes.values():
            assert node.pool.capacity[CPU] == node.pool.cpu.free_milli
            assert {CPU: node.pool.capacity[CPU], **node.pool.counts} == node.pool.capacity
            assert [{}, {}, {}] == [node.running, node.resizable, node.environments]
            assert [0, 0] == [node.opening, len(node.queue)]

    def all_gone(self) -> bool:
        return all(place.state == "gone" for place in self.ledger.places.values())

    def progress(self) -> None:
        if self.ledger.wake_at is not None and self.ledger.wake_at <= self.now:
            self.feed(Woke(at=self.now))
        for lease in list(self.ledger.leases.values()):
            self.feed(
                ActionExited(
                    at=self.now,
                    action=lease.action,
                    attempt=lease.attempt,
                    outcome=Outcome.SUCCEEDED,
                )
            )
        stuck = not self.ledger.leases and not self.opening()
        for name, place in list(self.ledger.places.items()):
            if place.state == "opening":
                self.feed(EnvironmentOpened(at=self.now, environment=name, attempt=place.attempt))
            elif place.close_sent and place.state == "closing":
                self.feed(EnvironmentClosed(at=self.now, environment=name))
            elif stuck or not self.in_use(name):
                # Environments may hold for life what each other's actions wait for: only closing
                # one helps then. Nothing else may leave actions waiting.
                assert not stuck or self.blockers() or not self.ledger.unresolved()
                stuck = False
                self.feed(CloseRequested(at=self.now, environment=name))

    def opening(self) -> bool:
        return any(place.state in {"opening", "closing"} for place in self.ledger.places.values())

    def blockers(self) -> list[str]:
        """What waits for amounts that environments hold."""
        waiting: list[str] = [n for n, p in self.ledger.places.items() if p.state == "wanted"]
        for name in self.ledger.unresolved():
            action = self.ledger.actions[name]
            place = self.ledger.places.get(action.environment or EnvironmentId(""))
            if place is not None and place.node is not None:
                pool = NodePool(self.ledger.nodes[place.node])
                for amounts, _ in sorted(self.ledger.holdings(place.node), key=str):
                    pool.take(amounts)
                if not pool.draft().take(least_of(action)):
                    waiting.append(name)
        return waiting

    def in_use(self, environment: EnvironmentId) -> bool:
        actions = self.ledger.actions
        return any(actions[a].environment == environment for a in self.ledger.unresolved())


@pytest.mark.parametrize(
    "policy", ["inflight", "tangram", "fixed:1", "fixed:3", "equi", "hesrpt", "static"]
)
def test_the_kernel_keeps_its_promises_under(policy: str) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    machine = type("Machine", (KernelMachine,), {"policy": policy})
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=100, stateful_step_count=50),
    )
