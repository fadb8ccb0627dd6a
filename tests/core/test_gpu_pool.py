"""Cells are aligned, never overlap, and are one larger cell again when neighbours come free."""

from __future__ import annotations

import pytest

from arl_tangram.core.model import InstanceId
from arl_tangram.core.pools.gpu import GpuPool
from arl_tangram.errors import InvariantError

A, B = InstanceId("a"), InstanceId("b")


def take(pool: GpuPool, cell: tuple[int, ...], by: InstanceId) -> None:
    pool.claim(cell, by)
    pool.occupy(cell, by)


def test_cells_start_at_a_multiple_of_their_width() -> None:
    pool = GpuPool(8)

    assert ((0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,)) == pool.cells(1)
    assert ((0, 1), (2, 3), (4, 5), (6, 7)) == pool.cells(2)
    assert ((0, 1, 2, 3), (4, 5, 6, 7)) == pool.cells(4)
    assert ((0, 1, 2, 3, 4, 5, 6, 7),) == pool.cells(8)


def test_a_node_of_six_has_one_cell_of_four_and_none_of_eight() -> None:
    pool = GpuPool(6)

    assert ((0, 1), (2, 3), (4, 5)) == pool.cells(2)
    assert ((0, 1, 2, 3),) == pool.cells(4)
    assert () == pool.cells(8)


def test_cells_that_come_free_are_one_larger_cell_again() -> None:
    pool = GpuPool(4)
    take(pool, (0, 1), A)
    take(pool, (2, 3), B)
    assert not pool.is_free((0, 1, 2, 3))

    pool.vacate((0, 1), A)
    pool.vacate((2, 3), B)

    assert pool.is_free((0, 1, 2, 3))


def test_a_free_cell_knows_how_wide_a_free_cell_it_is_a_part_of() -> None:
    pool = GpuPool(8)
    take(pool, (0,), A)

    assert [1, 2, 4] == [pool.neighbours_free(cell) for cell in ((1,), (2,), (4,))]


def test_a_claimed_cell_is_not_free_and_only_the_claimant_may_go_there() -> None:
    pool = GpuPool(2)
    pool.claim((0, 1), A)

    assert not pool.is_free((0,))
    with pytest.raises(InvariantError, match="device 0 is a's"):
        pool.occupy((0,), B)


def test_a_claim_can_be_given_up() -> None:
    pool = GpuPool(2)
    pool.claim((0, 1), A)

    pool.unclaim((0, 1), A)

    assert pool.is_free((0, 1))


def test_nobody_vacates_what_is_anothers() -> None:
    pool = GpuPool(2)
    take(pool, (0, 1), A)

    with pytest.raises(InvariantError, match="not b's"):
        pool.vacate((0,), B)
