from __future__ import annotations

import unittest

from examples import examples
from rate_limiter import SECOND, TokenBucket

MILLISECOND = SECOND // 1000


def drained(rate: int, burst: int) -> TokenBucket:
    bucket = TokenBucket(rate, burst)
    assert bucket.allow(0, burst)
    return bucket


class BurstTest(unittest.TestCase):
    def test_it_starts_full(self) -> None:
        bucket = TokenBucket(rate=1, burst=3)
        self.assertEqual([True] * 3 + [False], [bucket.allow(0) for _ in range(4)])

    def test_it_never_keeps_more_than_a_burst(self) -> None:
        for rng in examples(8000):
            burst = rng.randint(1, 40)
            bucket = TokenBucket(rng.randint(1, 500), burst)
            later = 1000 * SECOND
            self.assertEqual(burst, sum(bucket.allow(later) for _ in range(100)))

    def test_a_long_pause_gives_one_burst(self) -> None:
        bucket = drained(rate=10, burst=5)
        self.assertTrue(bucket.allow(3600 * SECOND, 5))
        self.assertFalse(bucket.allow(3600 * SECOND))

    def test_costs_add_up(self) -> None:
        for rng in examples(20000):
            costs = [rng.randint(1, 9) for _ in range(20)]
            bucket = TokenBucket(rate=1, burst=sum(costs))
            self.assertTrue(all(bucket.allow(0, cost) for cost in costs))
            self.assertFalse(bucket.allow(0))

    def test_a_refused_request_takes_nothing(self) -> None:
        bucket = TokenBucket(rate=1, burst=3)
        self.assertFalse(bucket.allow(0, 4))
        self.assertTrue(bucket.allow(0, 3))


class RateTest(unittest.TestCase):
    def test_a_token_takes_its_time(self) -> None:
        bucket = drained(rate=100, burst=1)
        self.assertFalse(bucket.allow(10 * MILLISECOND - 1))
        self.assertTrue(bucket.allow(10 * MILLISECOND + 1))

    def test_polling_does_not_lose_time(self) -> None:
        bucket = drained(rate=100, burst=1)
        served = sum(bucket.allow(i * MILLISECOND) for i in range(1, 1001))
        self.assertEqual(100, served)

    def test_polling_at_random_serves_the_full_rate(self) -> None:
        for rng in examples(200):
            bucket, now, served = drained(rate=50, burst=10), 0, 0
            while now < 20 * SECOND:
                now += rng.randint(1, 19 * MILLISECOND)
                served += bucket.allow(now)
            self.assertIn(now * 50 // SECOND - served, range(11))

    def test_no_window_passes_more_than_it_may(self) -> None:
        for rng in examples(500):
            rate, burst = rng.choice((1, 4, 10, 25, 50, 125, 250)), rng.randint(1, 20)
            bucket, now, passed = TokenBucket(rate, burst), 0, 0
            for _ in range(800):
                now += rng.randrange(20 * MILLISECOND)
                passed += bucket.allow(now)
                self.assertLessEqual(passed, burst + now * rate // SECOND)

    def test_an_odd_rate_is_exact_after_three_minutes(self) -> None:
        bucket = drained(rate=3, burst=2)
        served = sum(bucket.allow(tick * SECOND // 10) for tick in range(1, 1801))
        self.assertEqual(3 * 180, served)

    def test_a_high_rate_is_exact_too(self) -> None:
        bucket = drained(rate=700_000, burst=5)
        self.assertEqual(700, sum(bucket.allow(now) for now in range(1, 1001)))


class WaitTest(unittest.TestCase):
    def test_no_wait_when_the_tokens_are_there(self) -> None:
        self.assertEqual(0, TokenBucket(rate=1, burst=2).wait(5, 2))

    def test_the_wait_is_just_long_enough(self) -> None:
        for rng in examples(20000):
            rate, cost = rng.randint(1, 2000), rng.randint(1, 20)
            wait = drained(rate, 20).wait(0, cost)
            self.assertTrue(drained(rate, 20).allow(wait, cost))
            self.assertFalse(drained(rate, 20).allow(wait - 1, cost))

    def test_asking_does_not_make_it_longer(self) -> None:
        bucket = drained(rate=10, burst=1)
        waits = [bucket.wait(now) for now in range(0, 100_000, 30_000)]
        self.assertEqual([100_000, 70_000, 40_000, 10_000], waits)

    def test_more_than_a_burst_never_comes(self) -> None:
        with self.assertRaises(ValueError):
            TokenBucket(rate=1, burst=2).wait(0, 3)


class ErrorTest(unittest.TestCase):
    def test_an_empty_bucket_is_refused(self) -> None:
        for rate, burst in ((0, 1), (1, 0), (-1, 5)):
            with self.subTest(rate=rate, burst=burst), self.assertRaises(ValueError):
                TokenBucket(rate, burst)

    def test_time_runs_forwards(self) -> None:
        bucket = TokenBucket(rate=1, burst=1)
        bucket.allow(10)
        with self.assertRaises(ValueError):
            bucket.allow(5)


if __name__ == "__main__":
    unittest.main()
