from __future__ import annotations

import unittest
from random import Random

from examples import examples
from lru_cache import LruCache


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def filled(*keys: str, capacity: int = 3) -> LruCache:
    cache = LruCache(capacity)
    for key in keys:
        cache.put(key, key.upper())
    return cache


class StorageTest(unittest.TestCase):
    def test_what_was_put_can_be_got(self) -> None:
        for rng in examples(4000):
            cache = LruCache(50)
            values = {rng.randrange(1000): rng.random() for _ in range(50)}
            for key, value in values.items():
                cache.put(key, value)
            self.assertEqual(list(values.values()), [cache.get(key) for key in values])

    def test_putting_twice_keeps_the_later_value(self) -> None:
        for rng in examples(6000):
            cache = LruCache(8)
            for _ in range(20):
                value = rng.random()
                cache.put("key", rng.random())
                cache.put("key", value)
                self.assertEqual(value, cache.get("key"))

    def test_a_missing_key_gives_the_default(self) -> None:
        self.assertEqual("none", filled("a").get("b", "none"))

    def test_deleting_tells_whether_it_was_there(self) -> None:
        cache = filled("a")
        self.assertEqual([True, False], [cache.delete("a"), cache.delete("a")])

    def test_an_empty_cache_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            LruCache(0)

    def test_it_never_holds_more_than_its_capacity(self) -> None:
        for rng in examples(2000):
            cache = LruCache(rng.randint(1, 20))
            for _ in range(100):
                cache.put(rng.randrange(60), None)
                self.assertLessEqual(len(cache._entries), cache.capacity)


class RecencyTest(unittest.TestCase):
    def test_the_oldest_entry_goes_first(self) -> None:
        self.assertEqual(["b", "c", "d"], filled("a", "b", "c", "d").keys())

    def test_reading_is_a_use(self) -> None:
        cache = filled("a", "b", "c")
        cache.get("a")
        cache.put("d", 1)
        self.assertIn("a", cache)
        self.assertNotIn("b", cache)

    def test_writing_is_a_use(self) -> None:
        cache = filled("a", "b", "c")
        cache.put("a", 1)
        self.assertEqual(["b", "c", "a"], cache.keys())

    def test_looking_is_not_a_use(self) -> None:
        cache = filled("a", "b", "c")
        self.assertIn("a", cache)
        cache.put("d", 1)
        self.assertNotIn("a", cache)

    def test_a_hot_key_survives_a_scan(self) -> None:
        for rng in examples(1000):
            cache = LruCache(4)
            cache.put("hot", 1)
            for _ in range(150):
                cache.put(rng.random(), None)
                self.assertEqual(1, cache.get("hot"))

    def test_it_behaves_like_a_list_sorted_by_use(self) -> None:
        for rng in examples(700, seed=1):
            self.compare_with_a_list(rng, capacity=rng.randint(2, 12))

    def compare_with_a_list(self, rng: Random, capacity: int) -> None:
        cache, used = LruCache(capacity), []
        for key in [*range(capacity), 0, capacity, *(rng.randrange(20) for _ in range(120))]:
            if key in used and rng.random() < 0.9:
                cache.get(key)
                used.remove(key)
            else:
                cache.put(key, key)
                if key in used:
                    used.remove(key)
            used = [*used, key][-capacity:]
        self.assertEqual(used, cache.keys())


class AgeTest(unittest.TestCase):
    def test_an_entry_is_good_until_its_time_to_live(self) -> None:
        clock = Clock()
        cache = LruCache(3, ttl=10, clock=clock)
        cache.put("a", 1)
        clock.now = 9.9
        self.assertIn("a", cache)
        clock.now = 10.0
        self.assertNotIn("a", cache)

    def test_reading_does_not_make_it_younger(self) -> None:
        for rng in examples(10000):
            clock = Clock()
            cache = LruCache(3, ttl=10, clock=clock)
            cache.put("a", 1)
            for _ in range(10):
                clock.now = min(clock.now + rng.random(), 9.0)
                self.assertEqual(1, cache.get("a"))
            clock.now = 10.0
            self.assertIsNone(cache.get("a"))

    def test_hits_and_misses_are_counted(self) -> None:
        for rng in examples(6000):
            cache = LruCache(100)
            hits = 0
            for _ in range(30):
                key = rng.randrange(100)
                hits += key in cache
                if cache.get(key) is None:
                    cache.put(key, True)
            self.assertEqual((hits, 30 - hits), (cache.hits, cache.misses))


if __name__ == "__main__":
    unittest.main()
