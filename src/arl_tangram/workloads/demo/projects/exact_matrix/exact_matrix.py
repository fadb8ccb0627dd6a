"""Linear algebra without rounding errors: Gauss-Jordan elimination on fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Row = list[Fraction]
Matrix = Sequence[Sequence[Fraction | int]]


class SingularError(ArithmeticError):
    """The rows depend on each other, so there is no answer, or more than one."""


def determinant(m: Matrix) -> Fraction:
    _check_square(m)
    rows, pivots, factor = _eliminate(m, len(m))
    return factor if len(pivots) == len(rows) else Fraction(0)


def rank(m: Matrix) -> int:
    return len(_eliminate(m, len(m[0]))[1])


def inverse(m: Matrix) -> list[Row]:
    _check_square(m)
    size = len(m)
    identity = [[Fraction(i == j) for j in range(size)] for i in range(size)]
    rows, pivots, _ = _eliminate([[*row, *unit] for row, unit in zip(m, identity)], size)
    if len(pivots) < size:
        raise SingularError(f"a {size} by {size} matrix of rank {len(pivots)} has no inverse")
    return [row[size:] for row in rows]


def solve(m: Matrix, b: Sequence[Fraction | int]) -> Row:
    """The one x with ``m x = b``."""
    _check_square(m)
    rows, pivots, _ = _eliminate([[*row, right] for row, right in zip(m, b)], len(m))
    if len(pivots) < len(m):
        raise SingularError("the equations do not have exactly one solution")
    return [row[-1] for row in rows]


def product(a: Matrix, b: Matrix) -> list[Row]:
    if len(a[0]) != len(b):
        raise ValueError(f"rows of {len(a[0])} times columns of {len(b)}")
    columns = list(zip(*b))
    return [
        [sum((Fraction(x) * y for x, y in zip(row, col)), Fraction(0)) for col in columns]
        for row in a
    ]


def _eliminate(m: Matrix, width: int) -> tuple[list[Row], list[int], Fraction]:
    """Reduce the first `width` columns.

    Returns the reduced rows, the columns that have a pivot, and the factor by which the
    determinant of the first rows was divided on the way.
    """
    rows = [[Fraction(value) for value in row] for row in m]
    pivots: list[int] = []
    factor = Fraction(1)
    for column in range(width):
        top = len(pivots)
        found = next((i for i in range(top, len(rows)) if rows[i][column]), None)
        if found is None:
            continue
        rows[top], rows[found] = rows[found], rows[top]
        pivot = rows[top][column]
        factor *= pivot
        rows[top] = [value / pivot for value in rows[top]]
        for i, row in enumerate(rows):
            if i != top and row[column]:
                times = row[column]
                rows[i] = [value - times * above for value, above in zip(row, rows[top])]
        pivots.append(column)
    return rows, pivots, factor


def _check_square(m: Matrix) -> None:
    if any(len(row) != len(m) for row in m):
        raise ValueError("a square matrix, please")
