"""Whose task comes next at something that tasks share: that which holds least, then each in turn."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import NamedTuple

from .model import TaskId

#: Tasks whose last turn is remembered; of those forgotten, each is like one that never had any.
REMEMBERED = 4_096


class Standing(NamedTuple):
    """Where a task stands among those that wait: the least comes first.

    Attributes:
        held: what it holds (max-min fairness).
        turn: the number of its last turn, which decides among those that hold as much (round
            robin); 0 if it has had none.
    """

    held: int
    turn: int


#: Before every task.
FIRST = Standing(-1, 0)


class Shares:
    """What each task has of one thing, such as the cores of all nodes, or the tokens of a quota.

    Args:
        by_turns: whether only turns count: what a rate allows is spent, not held.
    """

    def __init__(self, *, by_turns: bool = False) -> None:
        self.held: dict[TaskId, int] = defaultdict(int)
        self._by_turns = by_turns
        self._turns: OrderedDict[TaskId, int] = OrderedDict()
        self._turn = 0

    def take(self, task: TaskId, weight: int) -> None:
        """An action of a task begins: that was its turn."""
        self.held[task] += weight
        self._turn += 1
        self._turns[task] = self._turn
        self._turns.move_to_end(task)
        if len(self._turns) > REMEMBERED:
            self._turns.popitem(last=False)

    def give_back(self, task: TaskId, weight: int) -> None:
        """It ended."""
        self.held[task] -= weight
        if not self.held[task]:
            del self.held[task]

    def standing(self, task: TaskId) -> Standing:
        """Where a task stands now."""
        held = 0 if self._by_turns else self.held.get(task, 0)
        return Standing(held, self._turns.get(task, 0))
