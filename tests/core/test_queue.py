"""Service order against the rule, spelled out slowly."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from arl_tangram.core.model import TaskId
from arl_tangram.core.queue import Queue
from arl_tangram.core.shares import Shares, Standing


@dataclass(frozen=True)
class Item:
    number: int
    task: TaskId
    priority: int
    weight: int
    queue: int

    @property
    def id(self) -> str:
        return str(self.number)


@st.composite
def crowds(draw: st.DrawFn) -> list[Item]:
    tasks = st.sampled_from([TaskId("t0"), TaskId("t1"), TaskId("t2")])
    rows = draw(
        st.lists(
            st.tuples(tasks, st.sampled_from([0, 0, 1]), st.integers(1, 4), st.integers(0, 1)),
            max_size=20,
        )
    )
    return [Item(i, *row) for i, row in enumerate(rows)]


@st.composite
def histories(draw: st.DrawFn) -> Shares:
    """What some tasks hold, and the order in which they had their turns."""
    shares = Shares()
    for task in draw(st.lists(st.sampled_from([TaskId("t0"), TaskId("t1")]), max_size=6)):
        weight = draw(st.integers(1, 9))
        shares.take(task, weight)
        if draw(st.booleans()):
            shares.give_back(task, weight)
    return shares


def nobody(_: Item) -> Standing:
    return Standing(0, 0)


def filled(items: list[Item]) -> list[Queue[Item]]:
    queues: list[Queue[Item]] = [Queue(), Queue()]
    for item in items:
        queues[item.queue].add(item)
    return queues


def slowly(items: list[Item], shares: Shares, promoted: list[Item]) -> list[Item]:
    """The rule: priority; those promoted; then the task that holds least, and in turn; the oldest."""
    left, order = list(items), []
    share, turn = anew(shares)
    while left:
        top = max(item.priority for item in left)
        level = [item for item in left if item.priority == top]
        first = [item for item in promoted if item in level]
        if first:
            chosen = first[0]
        else:
            oldest = {item.task: item for item in reversed(level)}
            chosen = min(
                oldest.values(), key=lambda item: (share[item.task], turn[item.task], item.number)
            )
            share[chosen.task] += chosen.weight
            turn[chosen.task] = 1000 + len(order)
        if not any(item.priority == top for item in left if item is not chosen):
            share, turn = anew(shares)  # each priority has a fair share of its own
        order.append(chosen)
        left.remove(chosen)
    return order


def anew(shares: Shares) -> tuple[Counter[TaskId], Counter[TaskId]]:
    standings = {task: shares.standing(task) for task in map(TaskId, ("t0", "t1"))}
    return (
        Counter({task: standing.held for task, standing in standings.items()}),
        Counter({task: standing.turn for task, standing in standings.items()}),
    )


@given(items=crowds(), shares=histories(), data=st.data())
def test_several_queues_are_served_as_one_by_the_rule(
    items: list[Item], shares: Shares, data: st.DataObject
) -> None:
    queues = filled(items)
    promoted = []
    for item in items:
        if data.draw(st.integers(0, 4)) == 0 and all(
            (p.priority, p.queue) != (item.priority, 1 - item.queue) for p in promoted
        ):
            queues[item.queue].promote(item)
            promoted.append(item)

    found = list(Queue.served(queues, lambda item: shares.standing(item.task)))

    assert slowly(items, shares, promoted) == found


@given(items=crowds(), data=st.data())
def test_a_queue_holds_what_was_added_and_not_taken_out(
    items: list[Item], data: st.DataObject
) -> None:
    queue: Queue[Item] = Queue()
    inside: list[Item] = []
    for item in items:
        match data.draw(st.integers(0, 3)):
            case 0 | 1:
                queue.add(item)
            case 2:
                queue.add_first(item)
            case _:
                queue.add(item)
                queue.promote(item)
                queue.promote(item)
        inside.append(item)
        if data.draw(st.booleans()):
            queue.remove(inside.pop(data.draw(st.integers(0, len(inside) - 1))))

        assert len(inside) == len(queue)
        assert sorted(inside, key=id) == sorted(queue, key=id)
        assert Counter(inside) == Counter(Queue.served([queue], nobody))
    for item in inside:
        queue.remove(item)
    assert {} == queue._levels


def test_who_was_promoted_first_is_the_one_that_is_overdue() -> None:
    queue: Queue[Item] = Queue()
    items = [Item(i, TaskId("t"), 0, 1, 0) for i in range(3)]
    high = Item(9, TaskId("t"), 1, 1, 0)
    for item in [*items, high]:
        queue.add(item)

    assert queue.overdue() is None
    queue.promote(items[2])
    queue.promote(items[0])
    assert items[2] is queue.overdue()
    queue.promote(high)
    assert high is queue.overdue()
    assert [high, items[2], items[0], items[1]] == list(Queue.served([queue], nobody))
