"""Which cores an action gets: whole ones together, parts on one, siblings side by side."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arl_tangram.core.model import CPU, CpuTopology, Node, NodeId
from arl_tangram.core.pools.cpu import CpuPool
from arl_tangram.core.pools.draft import Draft
from arl_tangram.core.pools.node import NodePool
from arl_tangram.testing import strategies
from arl_tangram.testing.builders import bundle, node

TWO_DOMAINS = CpuTopology(domains=((0, 1, 2, 3), (4, 5, 6, 7)))


def test_whole_cores_come_from_the_domain_they_fill_best() -> None:
    pool = CpuPool(8000, TWO_DOMAINS)
    assert (0, 1) == pool.take(2000)

    assert (2, 3) == pool.take(2000)  # not (4, 5), which would leave neither domain whole
    assert (4, 5, 6, 7) == pool.take(4000)


def test_an_action_that_fits_in_no_domain_takes_as_few_domains_as_it_can() -> None:
    pool = CpuPool(8000, TWO_DOMAINS)
    pool.take(1000)

    cores = pool.take(6000)

    assert {4, 5, 6, 7} <= set(cores)
    assert 6 == len(cores)


def test_growth_stays_in_the_domain_it_is_in_while_there_is_room() -> None:
    pool = CpuPool(8000, TWO_DOMAINS)
    first = pool.take(1000)
    pool.take(4000)  # the other domain

    assert (1, 2) == pool.take(2000, near=first)


def test_growth_beyond_its_domain_goes_on_in_another() -> None:
    pool = CpuPool(8000, TWO_DOMAINS)
    first = pool.take(3000)

    assert (3, 4) == pool.take(2000, near=first)


def test_shrinking_gives_up_the_domain_it_has_least_in() -> None:
    pool = CpuPool(8000, TWO_DOMAINS)
    cores = (0, 1, 2, 4, 5)

    assert (5, 4) == pool.surplus_of(cores, 2)
    assert (2,) == pool.surplus_of((0, 1, 2), 1)


def test_hardware_threads_of_one_core_go_together() -> None:
    siblings = tuple((i, i + 4) for i in range(4))
    pool = CpuPool(8000, CpuTopology(domains=(tuple(range(8)),), siblings=siblings))

    assert (0, 4) == pool.take(2000)
    assert (1, 5) == pool.take(2000)


def test_parts_share_the_core_with_the_tightest_room() -> None:
    pool = CpuPool(4000)
    assert (0,) == pool.take(700)
    assert (1,) == pool.take(500)

    assert (1,) == pool.take(500)
    assert (0,) == pool.take(300)
    assert (2,) == pool.take(100)
    assert 1 == pool.whole


def test_a_shared_core_is_whole_again_once_every_part_is_back() -> None:
    pool = CpuPool(1000)
    pool.take(300)
    pool.take(700)
    pool.give_back(300, (0,))
    pool.give_back(700, (0,))

    assert {} == pool.rooms
    assert (0,) == pool.take(1000)


def test_the_part_of_a_core_that_a_node_ends_with_is_only_for_parts() -> None:
    pool = CpuPool(1500)

    assert (1,) == pool.take(500)
    assert (0,) == pool.take(1000)
    pool.give_back(500, (1,))
    assert {1: 500} == pool.rooms
    assert 500 == pool.free_milli


def test_a_topology_with_too_few_cores_is_refused() -> None:
    with pytest.raises(ValueError, match="cpu=9000: the topology names only 8 cores"):
        CpuPool(9000, TWO_DOMAINS)


def test_a_topology_with_more_cores_than_may_be_used_is_cut_to_size() -> None:
    pool = CpuPool(2500, CpuTopology(domains=((0, 2, 4, 6), (1, 3, 5, 7))))

    assert (4,) == pool.take(500)
    assert (0, 2) == pool.take(2000)


# -- drafts ----------------------------------------------------------------------------------


def test_a_draft_takes_all_or_nothing() -> None:
    draft = NodePool(node(cpu=2, memory=100)).draft()

    assert not draft.take(bundle(cpu=1, memory=101))
    assert not draft.take(bundle(cpu=3, memory=1))
    assert (2, 100) == (draft.whole, draft.counts["memory"])
    assert draft.take(bundle(cpu=2, memory=100))
    assert (0, 0) == (draft.units(CPU), draft.units("memory"))
    assert 0 == draft.units("never heard of")


def test_a_draft_is_a_copy_that_leaves_the_books_alone() -> None:
    pool = NodePool(node(cpu=2, memory=100))
    draft = pool.draft()
    draft.take(bundle(cpu=0.5, memory=50))

    assert (2, {"memory": 100}) == (pool.cpu.whole, pool.counts)
    assert (1, [500], {"memory": 50}) == (draft.whole, draft.rooms, draft.counts)


@pytest.mark.parametrize(
    ("needs", "missing"),
    [
        (bundle(cpu=1), 0),
        (bundle(cpu=4), 2),
        (bundle(cpu=2.4), 0),  # the part fits beside the one there is
        (bundle(cpu=2.6), 1),
        (bundle(cpu=4, memory=100), 2),
        (bundle(cpu=4, memory=101), None),
        (bundle(cpu=4, gpu=1), None),
    ],
)
def test_a_shortage_counts_whole_units_of_one_resource(
    needs: dict[str, int], missing: int | None
) -> None:
    draft = Draft(whole=2, rooms=[500], counts={"memory": 100})

    assert missing == draft.shortage(CPU, needs)


def test_a_shortage_of_a_count_is_what_is_missing_of_it() -> None:
    draft = Draft(whole=2, rooms=[], counts={"gpu": 1})

    assert 3 == draft.shortage("gpu", {"gpu": 4, CPU: 1000})
    assert draft.shortage("gpu", {"gpu": 4, CPU: 3000}) is None


@pytest.mark.parametrize(
    ("needs", "whole", "rooms"),
    [
        (bundle(cpu=1), 1, [500, 300]),
        (bundle(cpu=3), 0, [300]),  # and the core that may be whole again soonest
        (bundle(cpu=5), 0, []),
        (bundle(cpu=0.3), 2, [500]),  # the room that is tightest
        (bundle(cpu=0.6), 1, [500, 300, 400]),  # a new core, the rest of which others may use
        (bundle(cpu=2.6), 0, [300, 400]),
        (bundle(cpu=2.2), 0, [500, 100]),
    ],
)
def test_what_is_kept_for_a_big_action_is_not_for_others(
    needs: dict[str, int], whole: int, rooms: list[int]
) -> None:
    draft = Draft(whole=2, rooms=[500, 300], counts={})

    draft.hold(needs)

    assert (whole, sorted(rooms)) == (draft.whole, sorted(draft.rooms))


def test_where_no_core_has_room_the_roomiest_is_kept() -> None:
    draft = Draft(whole=0, rooms=[200, 400], counts={"memory": 10})

    draft.hold(bundle(cpu=0.5, memory=100))

    assert (0, [200], {"memory": 0}) == (draft.whole, draft.rooms, draft.counts)
    draft.hold({"gpu": 1})
    assert 0 == draft.units("gpu")


def test_the_part_of_a_core_that_a_node_ends_with_is_no_hope_for_a_whole_one() -> None:
    draft = Draft(whole=0, rooms=[500, 250, 100], counts={}, ragged=True)

    draft.hold(bundle(cpu=1))

    assert [100] == draft.rooms


whole_cores = st.sampled_from([0, 1000, 2000, 3000])


@given(
    capacity=strategies.capacities,
    held=st.lists(strategies.bundles(), max_size=6),
    kept=strategies.bundles(cpu=whole_cores),
    others=st.lists(strategies.bundles(), max_size=6),
)
def test_whatever_others_take_what_was_kept_still_fits(
    capacity: dict[str, int],
    held: list[dict[str, int]],
    kept: dict[str, int],
    others: list[dict[str, int]],
) -> None:
    """Keeping for someone who fits, then letting others take, then taking: that always works."""
    pool = NodePool(Node(id=NodeId("n"), capacity=capacity))
    for each in held:
        if pool.draft().take(each):
            pool.take(each)
    draft = pool.draft()
    assume(draft.take(kept))
    draft = pool.draft()
    draft.hold(kept)

    for each in others:
        if draft.take(each):
            pool.take(each)

    assert pool.draft().take(kept)


@given(
    capacity=strategies.capacities,
    held=st.lists(strategies.bundles(), max_size=6),
    kept=strategies.bundles(),
    others=st.lists(strategies.bundles(), max_size=6),
)
def test_whatever_others_take_no_less_is_free_on_the_core_that_was_kept(
    capacity: dict[str, int],
    held: list[dict[str, int]],
    kept: dict[str, int],
    others: list[dict[str, int]],
) -> None:
    """Keeping for someone who does not fit: the roomiest cores lose nothing meanwhile."""
    pool = NodePool(Node(id=NodeId("n"), capacity=capacity))
    for each in held:
        if pool.draft().take(each):
            pool.take(each)
    assume(not pool.draft().whole and not pool.draft().take({CPU: kept.get(CPU, 0)}))
    draft = pool.draft()
    draft.hold(kept)
    before = max(pool.cpu.rooms.values(), default=0)

    for each in others:
        if draft.take(each):
            pool.take(each)

    assert before == max(pool.cpu.rooms.values(), default=0)
