from __future__ import annotations

import unittest
from random import Random

from examples import examples
from free_busy import Block, first_fit, gaps, merge, overlap

DAY = (9 * 60, 18 * 60)


def meetings(rng: Random, count: int, longest: int = 90) -> list[Block]:
    """Random meetings with one inside another among them."""
    starts = [rng.randrange(1200) for _ in range(count)]
    around = rng.randrange(1200)
    inside = (around + 10, around + 20)
    return [(s, s + rng.randrange(1, longest)) for s in starts] + [(around, around + 60), inside]


def minutes(blocks: list[Block]) -> set[int]:
    return {minute for start, end in blocks for minute in range(start, end)}


class MergeTest(unittest.TestCase):
    def test_nothing_is_nothing(self) -> None:
        self.assertEqual([], merge([]))

    def test_apart_stays_apart(self) -> None:
        self.assertEqual([(1, 2), (3, 4)], merge([(3, 4), (1, 2)]))

    def test_overlapping_becomes_one(self) -> None:
        self.assertEqual([(1, 5)], merge([(1, 3), (2, 5)]))

    def test_touching_becomes_one(self) -> None:
        self.assertEqual([(1, 5)], merge([(1, 3), (3, 5)]))

    def test_a_meeting_inside_another_changes_nothing(self) -> None:
        self.assertEqual([(540, 1020)], merge([(540, 1020), (600, 630)]))

    def test_a_meeting_that_ends_before_it_starts_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            merge([(5, 3)])

    def test_the_order_of_meetings_does_not_matter(self) -> None:
        for rng in examples(2000):
            some = meetings(rng, 60)
            shuffled = rng.sample(some, len(some))
            self.assertEqual(merge(some), merge(shuffled))

    def test_merging_again_changes_nothing(self) -> None:
        for rng in examples(2000):
            once = merge(meetings(rng, 80, longest=10))
            self.assertEqual(once, merge(once))

    def test_blocks_do_not_touch(self) -> None:
        for rng in examples(2000):
            blocks = merge(meetings(rng, 80, longest=12))
            self.assertTrue(all(a[1] < b[0] for a, b in zip(blocks, blocks[1:])))

    def test_the_same_minutes_are_busy(self) -> None:
        for rng in examples(900):
            some = meetings(rng, 10)
            self.assertEqual(minutes(some), minutes(merge(some)))


class GapsTest(unittest.TestCase):
    def test_an_empty_day_is_free(self) -> None:
        self.assertEqual([DAY], gaps([], DAY))

    def test_meetings_outside_the_day_do_not_count(self) -> None:
        self.assertEqual([DAY], gaps([(0, 540), (1080, 1100)], DAY))

    def test_a_workshop_blocks_the_day_whatever_is_inside_it(self) -> None:
        self.assertEqual([(1020, 1080)], gaps([(540, 1020), (600, 630)], DAY))

    def test_every_minute_is_either_free_or_busy(self) -> None:
        for rng in examples(800):
            some = meetings(rng, 8)
            free = minutes(gaps(some, (0, 1440)))
            self.assertEqual(set(range(1440)), free | (minutes(some) & set(range(1440))))
            self.assertFalse(free & minutes(some))


class PeopleTest(unittest.TestCase):
    def test_the_first_gap_long_enough_is_taken(self) -> None:
        self.assertEqual(660, first_fit([[(540, 600)], [(610, 660)]], 30, DAY))

    def test_no_gap_is_long_enough(self) -> None:
        self.assertIsNone(first_fit([[(540, 1070)]], 30, DAY))

    def test_a_workshop_is_not_interrupted(self) -> None:
        self.assertEqual(1020, first_fit([[(540, 1020), (600, 630)]], 30, DAY))

    def test_everybody_busy_is_a_busy_minute_of_everybody(self) -> None:
        for rng in examples(500):
            people = [meetings(rng, 5) for _ in range(3)]
            shared = set.intersection(*(minutes(person) for person in people))
            self.assertEqual(shared, minutes(overlap(people)))


if __name__ == "__main__":
    unittest.main()
