"""Finds the cheapest way over a map with A*."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

Cell = tuple[int, int]
Grid = Sequence[str]

WALL = "#"


def route(grid: Grid, start: Cell, goal: Cell) -> list[Cell] | None:
    """The cells of the cheapest way from `start` to `goal`, both included."""
    for cell in (start, goal):
        if not _is_open(grid, cell):
            raise ValueError(f"{cell} is a wall or off the map")
    came_from: dict[Cell, Cell] = {start: start}
    spent: dict[Cell, int] = {start: 0}
    frontier = [(_estimate(start, goal), start)]
    while frontier:
        _, cell = heappop(frontier)
        if cell == goal:
            return _trace(came_from, goal)
        for neighbour in _neighbours(grid, cell):
            price = spent[cell] + int(grid[neighbour[0]][neighbour[1]])
            if neighbour not in spent:
                spent[neighbour] = price
                came_from[neighbour] = cell
                heappush(frontier, (price + _estimate(neighbour, goal), neighbour))
    return None


def cost(grid: Grid, way: Sequence[Cell]) -> int:
    """What a way costs; the first cell is where you are already."""
    return sum(int(grid[row][column]) for row, column in way[1:])


def reachable(grid: Grid, start: Cell, budget: int) -> set[Cell]:
    """The cells that can be reached for at most `budget`."""
    spent = {start: 0}
    frontier = [(0, start)]
    while frontier:
        price, cell = heappop(frontier)
        if price > spent[cell]:
            continue
        for neighbour in _neighbours(grid, cell):
            further = price + int(grid[neighbour[0]][neighbour[1]])
            if further <= budget and further < spent.get(neighbour, budget + 1):
                spent[neighbour] = further
                heappush(frontier, (further, neighbour))
    return set(spent)


def _estimate(cell: Cell, goal: Cell) -> int:
    """Never more than it really costs: every step costs 1 at least."""
    return abs(cell[0] - goal[0]) + abs(cell[1] - goal[1])


def _neighbours(grid: Grid, cell: Cell) -> Iterator[Cell]:
    row, column = cell
    for next_cell in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
        if _is_open(grid, next_cell):
            yield next_cell


def _is_open(grid: Grid, cell: Cell) -> bool:
    row, column = cell
    return 0 <= row < len(grid) and 0 <= column < len(grid[row]) and grid[row][column] != WALL


def _trace(came_from: dict[Cell, Cell], goal: Cell) -> list[Cell]:
    way = [goal]
    while came_from[way[-1]] != way[-1]:
        way.append(came_from[way[-1]])
    return way[::-1]
