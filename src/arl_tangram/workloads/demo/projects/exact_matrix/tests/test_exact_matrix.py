from __future__ import annotations

import unittest
from fractions import Fraction
from itertools import permutations
from random import Random

from exact_matrix import SingularError, determinant, inverse, product, rank, solve
from examples import examples


def matrix(rng: Random, size: int = 5) -> list[list[int]]:
    """A random matrix of full rank whose first pivot is not in the first row."""
    while True:
        m = [[rng.randint(-9, 9) for _ in range(size)] for _ in range(size)]
        m[0][0] = 0
        if rank(m) == size:
            return m


def dominant(rng: Random, size: int = 5) -> list[list[int]]:
    """A random matrix in which no rows need to be exchanged."""
    return [
        [rng.randint(60, 90) if i == j else rng.randint(-9, 9) for j in range(size)]
        for i in range(size)
    ]


def identity(size: int) -> list[list[int]]:
    return [[int(i == j) for j in range(size)] for i in range(size)]


def leibniz(m: list[list[int]]) -> int:
    """The determinant by its definition."""
    total = 0
    for order in permutations(range(len(m))):
        swaps = sum(a > b for i, a in enumerate(order) for b in order[i + 1 :])
        term = (-1) ** swaps
        for row, column in enumerate(order):
            term *= m[row][column]
        total += term
    return total


class DeterminantTest(unittest.TestCase):
    def test_of_the_identity(self) -> None:
        self.assertEqual(1, determinant(identity(4)))

    def test_of_an_exchange(self) -> None:
        self.assertEqual(-1, determinant([[0, 1], [1, 0]]))

    def test_of_two_exchanges(self) -> None:
        self.assertEqual(1, determinant([[0, 1, 0], [0, 0, 1], [1, 0, 0]]))

    def test_of_dependent_rows(self) -> None:
        for rng in examples(200):
            m = dominant(rng)
            m[4] = [a + b for a, b in zip(m[0], m[1])]
            self.assertEqual(0, determinant(m))

    def test_is_the_one_of_the_definition(self) -> None:
        for small in ([[0, 2], [3, 4]], [[2, 1], [0, 3]]):
            self.assertEqual(leibniz(small), determinant(small))
        for rng in examples(100):
            m = matrix(rng)
            self.assertEqual(leibniz(m), determinant(m))

    def test_of_a_product_is_the_product(self) -> None:
        for rng in examples(90):
            a, b = dominant(rng), dominant(rng)
            self.assertEqual(determinant(a) * determinant(b), determinant(product(a, b)))

    def test_exchanging_rows_turns_the_sign(self) -> None:
        self.assertEqual(-6, determinant([[0, 3], [2, 0]]))
        for rng in examples(100):
            m = dominant(rng)
            m[1][0] = 0
            self.assertEqual(-determinant(m), determinant([m[1], m[0], *m[2:]]))

    def test_of_a_triangle_is_its_diagonal(self) -> None:
        for rng in examples(200):
            m = [[rng.randint(1, 9) if j >= i else 0 for j in range(6)] for i in range(6)]
            diagonal = 1
            for i in range(6):
                diagonal *= m[i][i]
            self.assertEqual(diagonal, determinant(m))


class InverseTest(unittest.TestCase):
    def test_of_a_small_matrix(self) -> None:
        half = Fraction(1, 2)
        self.assertEqual([[half, 0], [0, 2]], inverse([[2, 0], [0, half]]))

    def test_times_the_matrix_is_the_identity(self) -> None:
        for rng in examples(80):
            m = matrix(rng)
            self.assertEqual(identity(5), product(inverse(m), m))

    def test_of_the_inverse_is_the_matrix(self) -> None:
        for rng in examples(70):
            m = matrix(rng)
            self.assertEqual(m, inverse(inverse(m)))

    def test_of_dependent_rows_does_not_exist(self) -> None:
        with self.assertRaises(SingularError):
            inverse([[1, 2], [2, 4]])


class SolveTest(unittest.TestCase):
    def test_the_solution_solves_it(self) -> None:
        for rng in examples(100):
            m, x = matrix(rng), [rng.randint(-9, 9) for _ in range(5)]
            b = [row[0] for row in product(m, [[value] for value in x])]
            self.assertEqual(x, solve(m, b))

    def test_no_single_solution(self) -> None:
        with self.assertRaises(SingularError):
            solve([[1, 1], [1, 1]], [1, 2])


class RankTest(unittest.TestCase):
    def test_of_nothing_but_zeros(self) -> None:
        self.assertEqual(0, rank([[0, 0], [0, 0]]))

    def test_of_an_outer_product_is_one(self) -> None:
        for rng in examples(700):
            a = [rng.randint(1, 9) for _ in range(6)]
            self.assertEqual(1, rank([[x * y for y in a] for x in a]))

    def test_of_wide_and_tall_matrices(self) -> None:
        self.assertEqual((2, 2), (rank([[1, 0, 5], [0, 1, 5]]), rank([[1, 0], [0, 1], [5, 5]])))


class ShapeTest(unittest.TestCase):
    def test_only_square_matrices_have_a_determinant(self) -> None:
        with self.assertRaises(ValueError):
            determinant([[1, 2, 3], [4, 5, 6]])

    def test_shapes_must_match_in_a_product(self) -> None:
        with self.assertRaises(ValueError):
            product([[1, 2]], [[1, 2]])


if __name__ == "__main__":
    unittest.main()
