from __future__ import annotations

import unittest

from examples import examples
from job_queue import JobQueue

# The left branch starts at 10, the right one at 1, and the last entry, 3, is in the right one.
BRANCHES = [0, 10, 1, 11, 12, 20, 2, 13, 14, 15, 16, 22, 23, 24, 3]


def queue(*priorities: float) -> JobQueue:
    """Jobs named by their place in the arguments."""
    jobs = JobQueue()
    for job, priority in enumerate(priorities):
        jobs.push(job, priority)
    return jobs


def drain(jobs: JobQueue) -> list[object]:
    return [jobs.pop() for _ in range(len(jobs))]


def is_heap(jobs: JobQueue) -> bool:
    heap = jobs._heap
    return all(heap[(i - 1) // 2] < heap[i] for i in range(1, len(heap)))


class OrderTest(unittest.TestCase):
    def test_lower_numbers_go_first(self) -> None:
        self.assertEqual([1, 2, 0], drain(queue(9, 1, 5)))

    def test_equals_go_in_the_order_they_came(self) -> None:
        for rng in examples(1000):
            size = rng.randint(50, 70)
            self.assertEqual(list(range(size)), drain(queue(*[rng.random()] * size)))

    def test_random_priorities_come_out_sorted(self) -> None:
        for rng in examples(1000):
            priorities = [rng.random() for _ in range(60)]
            jobs = drain(queue(*priorities))
            self.assertEqual(sorted(priorities), [priorities[job] for job in jobs])

    def test_peeking_takes_nothing(self) -> None:
        jobs = queue(2, 1)
        self.assertEqual((1, 2), (jobs.peek(), len(jobs)))

    def test_pushes_and_pops_may_alternate(self) -> None:
        for rng in examples(800):
            jobs = JobQueue()
            for job in range(100):
                jobs.push(job, rng.randrange(10))
                if rng.random() < 0.4:
                    jobs.pop()
            self.assertTrue(is_heap(jobs))


class CancelTest(unittest.TestCase):
    def test_a_cancelled_job_never_comes_out(self) -> None:
        jobs = queue(3, 1, 2)
        jobs.cancel(1)
        self.assertEqual([2, 0], drain(jobs))

    def test_the_only_job_can_be_cancelled(self) -> None:
        jobs = queue(1)
        jobs.cancel(0)
        self.assertEqual(0, len(jobs))

    def test_the_last_entry_can_be_cancelled(self) -> None:
        jobs = queue(1, 2, 3)
        jobs.cancel(2)
        self.assertEqual([0, 1], drain(jobs))

    def test_an_urgent_job_that_fills_a_hole_stays_urgent(self) -> None:
        jobs = queue(*BRANCHES)
        jobs.cancel(7)
        self.assertEqual([0, 2, 6, 14], [jobs.pop() for _ in range(4)])

    def test_the_heap_stays_a_heap(self) -> None:
        jobs = queue(*BRANCHES)
        jobs.cancel(7)
        self.assertTrue(is_heap(jobs))

    def test_cancelling_leaves_the_order_of_the_rest(self) -> None:
        for rng in examples(700, seed=7):
            jobs = queue(*BRANCHES)
            jobs.cancel(7)
            for job in range(100, 160):
                jobs.push(job, rng.random())
            for job in rng.sample(range(100, 160), 20):
                jobs.cancel(job)
                self.assertTrue(is_heap(jobs))

    def test_an_unknown_job_cannot_be_cancelled(self) -> None:
        with self.assertRaises(LookupError):
            queue(1).cancel("other")


class ReprioritiseTest(unittest.TestCase):
    def test_a_job_can_become_urgent(self) -> None:
        jobs = queue(1, 2, 3)
        jobs.reprioritise(2, 0)
        self.assertEqual([2, 0, 1], drain(jobs))

    def test_a_job_can_become_less_urgent(self) -> None:
        for rng in examples(1000):
            jobs = queue(*(rng.random() for _ in range(60)))
            jobs.reprioritise(jobs.peek(), 2)
            self.assertTrue(is_heap(jobs))

    def test_among_equals_it_keeps_its_order(self) -> None:
        jobs = queue(1, 5, 1)
        jobs.reprioritise(1, 1)
        self.assertEqual([0, 1, 2], drain(jobs))

    def test_a_thousand_changes(self) -> None:
        for rng in examples(200):
            jobs = queue(*(rng.random() for _ in range(50)))
            for _ in range(200):
                jobs.reprioritise(rng.randrange(50), rng.random())
            self.assertTrue(is_heap(jobs))


class BooksTest(unittest.TestCase):
    def test_a_job_waits_once(self) -> None:
        jobs = queue(1)
        with self.assertRaises(ValueError):
            jobs.push(0, 2)

    def test_an_empty_queue_has_nothing_to_give(self) -> None:
        with self.assertRaises(LookupError):
            JobQueue().pop()

    def test_it_knows_where_each_job_is(self) -> None:
        for rng in examples(1000):
            jobs = queue(*(rng.random() for _ in range(80)))
            for job in rng.sample(range(80), 30):
                jobs.cancel(job)
                self.assertNotIn(job, jobs)
            self.assertTrue(all(jobs._heap[place][1] == job for job, place in jobs._place.items()))


if __name__ == "__main__":
    unittest.main()
