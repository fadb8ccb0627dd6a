from __future__ import annotations

import unittest
from random import Random

from examples import examples
from text_diff import Conflict, Delete, Insert, Keep, apply, diff, invert, unified


def text(rng: Random, size: int = 40) -> list[str]:
    return [rng.choice("abcdefgh") for _ in range(size)]


def edited(rng: Random, lines: list[str]) -> list[str]:
    """A copy without two lines in a row, and with a few other changes."""
    copy = [line for line in lines if rng.random() < 0.9]
    for _ in range(4):
        copy.insert(rng.randrange(len(copy)), rng.choice("xyz"))
    del copy[5:7]
    return copy


class DiffTest(unittest.TestCase):
    def test_equal_texts_are_kept(self) -> None:
        self.assertEqual([Keep(2)], diff(["a", "b"], ["a", "b"]))

    def test_two_empty_texts(self) -> None:
        self.assertEqual([], diff([], []))

    def test_everything_is_new(self) -> None:
        self.assertEqual([Insert(("a", "b"))], diff([], ["a", "b"]))

    def test_a_line_is_replaced(self) -> None:
        expected = [Keep(1), Delete(("b",)), Insert(("x",)), Keep(1)]
        self.assertEqual(expected, diff(["a", "b", "c"], ["a", "x", "c"]))

    def test_it_is_the_shortest(self) -> None:
        for rng in examples(400):
            a = [str(i) for i in range(40)]
            gone = set(rng.sample(a, 8))
            changes = diff(a, [line for line in a if line not in gone])
            self.assertEqual(8, sum(len(c.lines) for c in changes if isinstance(c, Delete)))
            self.assertEqual(32, sum(c.count for c in changes if isinstance(c, Keep)))

    def test_neighbouring_changes_are_of_different_kinds(self) -> None:
        for rng in examples(400):
            kinds = [type(change) for change in diff(text(rng), text(rng))]
            self.assertTrue(all(one is not other for one, other in zip(kinds, kinds[1:])))


class ApplyTest(unittest.TestCase):
    def test_insertions(self) -> None:
        for rng in examples(400):
            a = text(rng, 30)
            b = list(a)
            for _ in range(10):
                b.insert(rng.randrange(len(b)), "new")
            self.assertEqual(b, apply(a, diff(a, b)))

    def test_one_line_is_deleted(self) -> None:
        for rng in examples(400):
            a = [str(i) for i in range(40)]
            b = list(a)
            b.pop(rng.randrange(40))
            self.assertEqual(b, apply(a, diff(a, b)))

    def test_two_lines_in_a_row_are_deleted(self) -> None:
        self.assertEqual(["c"], apply(["a", "b", "c"], [Delete(("a", "b")), Keep(1)]))

    def test_everything_is_deleted(self) -> None:
        self.assertEqual([], apply(["a", "b"], [Delete(("a", "b"))]))

    def test_the_difference_makes_the_second_text(self) -> None:
        for rng in examples(400):
            a = text(rng)
            b = edited(rng, a)
            self.assertEqual(b, apply(a, diff(a, b)))

    def test_the_difference_of_unlike_texts_works_too(self) -> None:
        for rng in examples(400):
            a, b = ["1", "2", *text(rng)], text(rng)
            self.assertEqual(b, apply(a, diff(a, b)))


class ConflictTest(unittest.TestCase):
    def test_another_line_is_there(self) -> None:
        with self.assertRaisesRegex(Conflict, "line 2"):
            apply(["a", "x"], [Keep(1), Delete(("b",))])

    def test_the_text_is_too_short(self) -> None:
        with self.assertRaisesRegex(Conflict, "fewer are left"):
            apply(["a"], [Keep(2)])

    def test_the_text_is_too_long(self) -> None:
        for rng in examples(400):
            a, b = text(rng), text(rng)
            with self.assertRaises(Conflict):
                apply([*a, "one more"], diff(a, b))


class InvertTest(unittest.TestCase):
    def test_the_way_back(self) -> None:
        for rng in examples(400):
            a = text(rng)
            b = [*edited(rng, a), "x", "y"]
            self.assertEqual(a, apply(b, invert(diff(a, b))))

    def test_inverting_twice_changes_nothing(self) -> None:
        for rng in examples(400):
            changes = diff(text(rng), text(rng))
            self.assertEqual(changes, invert(invert(changes)))


class UnifiedTest(unittest.TestCase):
    def test_people_can_read_it(self) -> None:
        self.assertEqual("@ 1\n-b\n+x", unified([Keep(1), Delete(("b",)), Insert(("x",))]))


if __name__ == "__main__":
    unittest.main()
