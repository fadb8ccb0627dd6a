"""The books of one node against a plain account of which core holds what."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from arl_tangram.core.model import CPU, MILLI, Bundle, Grant, Node, NodeId
from arl_tangram.core.pools.node import NodePool
from arl_tangram.testing import strategies
from arl_tangram.testing.ledger import core_sizes

index = st.integers(0, 1000)


class NodePoolMachine(RuleBasedStateMachine):
    """Grants are taken, grown, shrunk and given back in any order."""

    grants: list[Grant]

    @initialize(capacity=strategies.capacities, data=st.data())
    def a_node(self, capacity: Bundle, data: st.DataObject) -> None:
        topology = data.draw(strategies.topologies(strategies.cores_in(capacity)))
        self.node = Node(id=NodeId("n"), capacity=capacity, topology=topology)
        self.pool = NodePool(self.node)
        self.grants = []

    def free_on(self) -> dict[int, int]:
        """Millicores free on each core, from the grants alone."""
        free = core_sizes(self.node)
        for grant in self.grants:
            whole, part = divmod(grant.cpu_milli, MILLI)
            for core in grant.cores[:whole]:
                free[core] -= MILLI
            if part:
                free[grant.cores[-1]] -= part
        return free

    def fits(self, bundle: Bundle) -> bool:
        """Whether it can be had: whole cores nobody has a part of, and one home for the part."""
        held: Counter[str] = Counter()
        for grant in self.grants:
            held.update(grant.amounts)
        for name, amount in bundle.items():
            if name != CPU and held[name] + amount > self.node.capacity.get(name, 0):
                return False
        whole, part = divmod(bundle.get(CPU, 0), MILLI)
        free = self.free_on().values()
        untouched = sum(milli == MILLI for milli in free)
        if part and not any(part <= milli < MILLI for milli in free):
            untouched -= 1
        return untouched >= whole

    @rule(bundle=strategies.bundles())
    def take(self, bundle: Bundle) -> None:
        draft = self.pool.draft()
        before = self.free_on()

        assert self.fits(bundle) == draft.take(bundle)

        if not self.fits(bundle):
            return
        grant = self.pool.take(bundle)
        self.grants.append(grant)
        whole = bundle.get(CPU, 0) // MILLI
        self.local(before, grant.cores[:whole])
        self.agrees(draft)

    def agrees(self, draft: object) -> None:
        now = self.pool.draft()
        drafted = (draft.whole, sorted(r for r in draft.rooms if r), draft.counts)  # type: ignore[attr-defined]
        assert (now.whole, sorted(r for r in now.rooms if r), now.counts) == drafted

    def local(self, before: dict[int, int], cores: tuple[int, ...]) -> None:
        """Whole cores come from one domain whenever one domain has enough."""
        domains = self.node.topology.domains if self.node.topology else ()
        for domain in domains:
            if sum(before.get(core) == MILLI for core in domain) >= len(cores):
                assert any(set(cores) <= set(d) for d in domains)

    @rule(bundles=st.lists(strategies.bundles(), max_size=6))
    def what_a_draft_takes_the_pool_can_take(self, bundles: list[Bundle]) -> None:
        draft = self.pool.draft()
        taken = [bundle for bundle in bundles if draft.take(bundle)]
        grants = [self.pool.take(bundle) for bundle in taken]
        self.agrees(draft)
        for grant in grants:
            self.pool.give_back(grant)

    @precondition(lambda self: self.grants)
    @rule(at=index)
    def give_back(self, at: int) -> None:
        self.pool.give_back(self.grants.pop(at % len(self.grants)))

    @precondition(lambda self: self.grants)
    @rule(at=index, units=st.integers(1, 5))
    def resize(self, at: int, units: int) -> None:
        i = at % len(self.grants)
        before = self.grants[i]
        if before.cpu_milli < MILLI:
            return
        fixed = before.cpu_milli - MILLI * max(before.units, 1)
        before = Grant(amounts=before.amounts, units=max(before.units, 1), cores=before.cores)
        draft = self.pool.draft()
        draft.give(CPU, before.units - units)
        if draft.whole < 0 or units == before.units:
            return
        amounts = {**before.amounts, CPU: fixed + units * MILLI}
        after = self.pool.resize(before, amounts, units=units, resource=CPU)
        self.grants[i] = after
        self.agrees(draft)
        if units < before.units:
            assert set(after.cores) < set(before.cores)
        else:
            assert set(before.cores) <= set(after.cores)
        if fixed % MILLI:
            assert before.cores[-1] == after.cores[-1]  # a part stays at home

    @rule(count=st.integers(-1, 2))
    def resize_a_plain_count(self, count: int) -> None:
        free = self.pool.counts[strategies.GPU]
        if not 1 <= count <= free:
            return
        grant = self.pool.take({strategies.GPU: 1}, units=1)
        grown = self.pool.resize(
            grant, {strategies.GPU: count}, units=count, resource=strategies.GPU
        )
        assert free - count == self.pool.counts[strategies.GPU]
        self.pool.give_back(grown)

    @invariant()
    def nothing_is_held_twice_and_nothing_is_lost(self) -> None:
        if not hasattr(self, "pool"):
            return
        free = self.free_on()
        assert all(milli >= 0 for milli in free.values())
        assert sum(free.values()) == self.pool.cpu.free_milli
        assert sum(milli == MILLI for milli in free.values()) == self.pool.cpu.whole
        shared = {core: milli for core, milli in free.items() if 0 < milli < MILLI}
        assert shared == {core: room for core, room in self.pool.cpu.rooms.items() if room}
        for grant in self.grants:
            assert len(set(grant.cores)) == len(grant.cores) == -(-grant.cpu_milli // MILLI)

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        while self.grants:
            self.pool.give_back(self.grants.pop())
        fresh = NodePool(self.node)
        assert fresh.cpu.whole == self.pool.cpu.whole
        assert fresh.cpu.rooms == self.pool.cpu.rooms
        assert fresh.counts == self.pool.counts
        assert [sorted(heap) for heap in fresh.cpu._free] == [
            sorted(heap) for heap in self.pool.cpu._free
        ]


def test_the_books_of_a_node_add_up_whatever_is_taken_and_given_back() -> None:
    run_state_machine_as_test(
        NodePoolMachine, settings=settings(max_examples=150, stateful_step_count=40)
    )
