from __future__ import annotations

import unittest
from random import Random

from examples import examples
from route_planner import Cell, cost, reachable, route

SWAMP = [
    "11111",
    "19991",
    "19991",
    "19991",
    "11111",
]
HILLS = [
    "15591",
    "59511",
    "11199",
]
BAIT = [
    "1911",
    "1111",
]


def country(
    rng: Random, size: int = 14, digits: str = "123456789", walls: float = 0.1
) -> list[str]:
    """A random map with open corners."""
    rows = [
        ["#" if rng.random() < walls else rng.choice(digits) for _ in range(size)]
        for _ in range(size)
    ]
    rows[0][0] = rows[-1][-1] = digits[0]
    return ["".join(row) for row in rows]


def cheapest(grid: list[str], start: Cell, goal: Cell) -> int | None:
    """The price of the best way, by trying budgets."""
    low, high = 0, 9 * len(grid) * len(grid[0])
    if goal not in reachable(grid, start, high):
        return None
    while low < high:
        middle = (low + high) // 2
        if goal in reachable(grid, start, middle):
            high = middle
        else:
            low = middle + 1
    return low


class RouteTest(unittest.TestCase):
    def test_here_is_here(self) -> None:
        self.assertEqual([(0, 0)], route(["1"], (0, 0), (0, 0)))

    def test_straight_on(self) -> None:
        self.assertEqual([(0, 0), (0, 1), (0, 2)], route(["111"], (0, 0), (0, 2)))

    def test_around_a_wall(self) -> None:
        way = route(["1#1", "111"], (0, 0), (0, 2))
        self.assertEqual([(0, 0), (1, 0), (1, 1), (1, 2), (0, 2)], way)

    def test_no_way(self) -> None:
        self.assertIsNone(route(["1#1"], (0, 0), (0, 2)))

    def test_each_step_goes_to_a_neighbour(self) -> None:
        for rng in examples(300):
            way = route(country(rng, walls=0), (0, 0), (13, 13)) or []
            steps = [abs(a - c) + abs(b - d) for (a, b), (c, d) in zip(way, way[1:])]
            self.assertEqual({1}, set(steps))

    def test_no_way_crosses_a_wall(self) -> None:
        for rng in examples(300):
            grid = country(rng, walls=0.25)
            way = route(grid, (0, 0), (13, 13)) or []
            self.assertNotIn("#", {grid[row][column] for row, column in way})

    def test_there_is_a_way_exactly_if_the_goal_is_reachable(self) -> None:
        for rng in examples(300):
            grid = country(rng, walls=0.35)
            expected = (13, 13) in reachable(grid, (0, 0), 10_000)
            self.assertEqual(expected, route(grid, (0, 0), (13, 13)) is not None)


class CheapestTest(unittest.TestCase):
    def test_the_road_around_the_swamp(self) -> None:
        way = route(SWAMP, (2, 0), (2, 4))
        self.assertEqual(8, cost(SWAMP, way or []))

    def test_the_valley_below_the_hills(self) -> None:
        way = route(HILLS, (0, 0), (0, 4))
        self.assertEqual(16, cost(HILLS, way or []))

    def test_a_dear_short_cut_is_not_taken(self) -> None:
        way = route(BAIT, (0, 0), (0, 2))
        self.assertEqual(4, cost(BAIT, way or []))

    def test_on_even_ground_the_way_is_as_short_as_can_be(self) -> None:
        for rng in examples(400):
            size = rng.randint(10, 16)
            way = route(["1" * size] * size, (0, 0), (size - 1, size - 1)) or []
            self.assertEqual(2 * size - 1, len(way))

    def test_no_cheaper_way_exists(self) -> None:
        self.assertEqual(16, cost(HILLS, route(HILLS, (0, 0), (0, 4)) or []))
        for rng in examples(40):
            grid = country(rng)
            way = route(grid, (0, 0), (13, 13))
            expected = cheapest(grid, (0, 0), (13, 13))
            self.assertEqual(expected, None if way is None else cost(grid, way))

    def test_the_way_back_over_even_ground_costs_the_same(self) -> None:
        for rng in examples(200):
            grid = country(rng, digits="1")
            there = route(grid, (0, 0), (13, 13)) or []
            back = route(grid, (13, 13), (0, 0)) or []
            self.assertEqual(cost(grid, there), cost(grid, back))

    def test_the_way_back_through_rough_country_costs_the_same(self) -> None:
        there, back = route(HILLS, (0, 0), (0, 4)), route(HILLS, (0, 4), (0, 0))
        self.assertEqual((16, 16), (cost(HILLS, there or []), cost(HILLS, back or [])))
        for rng in examples(100):
            grid = country(rng, digits="159")
            there = route(grid, (0, 0), (13, 13)) or []
            back = route(grid, (13, 13), (0, 0)) or []
            self.assertEqual(cost(grid, there), cost(grid, back))


class ReachableTest(unittest.TestCase):
    def test_nothing_can_be_had_for_nothing(self) -> None:
        self.assertEqual({(0, 0)}, reachable(SWAMP, (0, 0), 0))

    def test_the_budget_is_kept(self) -> None:
        self.assertEqual({(0, 0), (0, 1), (1, 0)}, reachable(SWAMP, (0, 0), 1))

    def test_a_bigger_budget_reaches_no_less(self) -> None:
        for rng in examples(100):
            grid = country(rng)
            self.assertLessEqual(reachable(grid, (0, 0), 20), reachable(grid, (0, 0), 40))


class ErrorTest(unittest.TestCase):
    def test_a_wall_is_no_place_to_start(self) -> None:
        with self.assertRaises(ValueError):
            route(["#1"], (0, 0), (0, 1))

    def test_off_the_map_is_no_place_to_go(self) -> None:
        with self.assertRaises(ValueError):
            route(["11"], (0, 0), (0, 2))


if __name__ == "__main__":
    unittest.main()
