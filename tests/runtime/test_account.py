"""Where the time of an action went, attempt by attempt."""

from __future__ import annotations

from arl_tangram.core.model import CPU, ActionId, Grant, Lease, NodeId
from arl_tangram.runtime.account import Account


def lease(attempt: int, milli: int) -> Lease:
    grant = Grant(amounts={CPU: milli})
    return Lease(action=ActionId("a"), attempt=attempt, node=NodeId("n"), grant=grant)


def test_an_action_that_never_ran_was_queued_all_its_life() -> None:
    account = Account(10.0)

    assert (5.0, 0.0, 0.0) == account.timing(15.0)
    assert (0.0, ()) == (account.unit_s(), account.grants())


def test_what_is_neither_queue_nor_run_is_overhead() -> None:
    account = Account(10.0)
    account.started(lease(1, 1000), 12.0)
    account.ended(17.0)

    assert (2.0, 1.5, 4.0) == account.timing(17.5, 4.0)
    assert 7.5 == account.timing(17.5, 4.0).act_s


def test_without_an_executors_word_the_whole_attempt_was_run() -> None:
    account = Account(10.0)
    account.started(lease(1, 1000), 12.0)
    account.ended(17.0)

    assert (2.0, 0.5, 5.0) == account.timing(17.5)
    assert (2.0, 0.5, 5.0) == account.timing(17.5, 99.0)  # it cannot have run for longer


def test_a_lost_attempt_is_overhead_and_the_wait_after_it_is_queue() -> None:
    account = Account(0.0)
    account.started(lease(1, 2000), 1.0)
    account.ended(4.0)
    account.started(lease(2, 1000), 6.0)
    account.ended(16.0)

    assert (3.0, 3.0, 10.0) == account.timing(16.0, 10.0)
    assert (2, 2.0 * 3 + 1.0 * 10) == (account.attempts, account.unit_s())


def test_every_amount_held_is_told_from_the_start_of_the_attempt() -> None:
    account = Account(0.0)
    account.started(lease(1, 4000), 1.0)
    account.resized(lease(1, 1000), 3.0)
    account.resized(lease(1, 2500), 7.0)
    account.ended(9.0)

    assert ((0.0, 4.0), (2.0, 1.0), (6.0, 2.5)) == account.grants()
    assert 4.0 * 2 + 1.0 * 4 + 2.5 * 2 == account.unit_s()
