from __future__ import annotations

import unittest
from random import Random

from build_order import CycleError, affected, layers, order
from examples import examples

DIAMOND = {"app": ["ui", "api"], "ui": ["core"], "api": ["core"], "core": []}


def tree(rng: Random, size: int = 60) -> dict[str, list[str]]:
    """Every target is needed by one other at most."""
    return {f"t{i:03}": [f"t{i + 1:03}"] if i + 1 < size else [] for i in range(size)} | {
        f"leaf{i}": [] for i in range(rng.randrange(1, 20))
    }


def graph(rng: Random, size: int = 40) -> dict[str, list[str]]:
    """Targets that share needs, in a random order of names; a diamond is always among them."""
    names = rng.sample([f"n{i:03}" for i in range(size)], size)
    needs = {
        name: rng.sample(names[:i], k=min(i, rng.randrange(4))) for i, name in enumerate(names)
    }
    return DIAMOND | needs


class OrderTest(unittest.TestCase):
    def test_nothing_to_build(self) -> None:
        self.assertEqual([], order({}))

    def test_needs_come_first(self) -> None:
        self.assertEqual(["c", "b", "a"], order({"a": ["b"], "b": ["c"], "c": []}))

    def test_needs_without_an_entry_of_their_own_are_built_too(self) -> None:
        self.assertEqual(["zlib", "app"], order({"app": ["zlib"]}))

    def test_targets_that_do_not_matter_to_each_other_come_by_name(self) -> None:
        for rng in examples(2000):
            names = [f"{rng.random()}" for _ in range(80)]
            self.assertEqual(sorted(names), order({name: [] for name in names}))

    def test_shared_needs_are_no_cycle(self) -> None:
        self.assertEqual(["core", "api", "ui", "app"], order(DIAMOND))

    def test_chains_come_out_backwards(self) -> None:
        for rng in examples(1000):
            chain = [target for target in order(tree(rng)) if target.startswith("t")]
            self.assertEqual(sorted(chain, reverse=True), chain)

    def test_each_target_comes_once_and_after_its_needs(self) -> None:
        for rng in examples(900):
            needs = graph(rng)
            done = order(needs)
            self.assertEqual(sorted(needs), sorted(done))
            place = {target: i for i, target in enumerate(done)}
            self.assertTrue(all(place[n] < place[t] for t in needs for n in needs[t]))


class CycleTest(unittest.TestCase):
    def test_a_target_that_needs_itself(self) -> None:
        with self.assertRaisesRegex(CycleError, "^a -> a$"):
            order({"a": ["a"]})

    def test_the_cycle_is_named(self) -> None:
        with self.assertRaisesRegex(CycleError, "^b -> c -> b$"):
            order({"a": ["b"], "b": ["c"], "c": ["b"]})

    def test_what_is_finished_is_not_part_of_the_cycle(self) -> None:
        with self.assertRaisesRegex(CycleError, "^a -> c -> a$"):
            order({"a": ["b", "c"], "b": [], "c": ["a"]})

    def test_a_cycle_behind_a_diamond_is_found(self) -> None:
        with self.assertRaises(CycleError) as caught:
            order(DIAMOND | {"core": ["tools"], "tools": ["core"]})
        self.assertEqual({"core", "tools"}, set(caught.exception.cycle))

    def test_a_long_cycle_is_found_whole(self) -> None:
        for rng in examples(1000):
            size = rng.randint(2, 60)
            ring = {f"t{i}": [f"t{(i + 1) % size}"] for i in range(size)}
            with self.assertRaises(CycleError) as caught:
                order(ring)
            self.assertEqual(size + 1, len(caught.exception.cycle))


class LayersTest(unittest.TestCase):
    def test_a_diamond_has_three_layers(self) -> None:
        self.assertEqual([["core"], ["api", "ui"], ["app"]], layers(DIAMOND))

    def test_a_chain_has_a_layer_for_each(self) -> None:
        for rng in examples(900):
            self.assertEqual(60, len(layers(tree(rng))))

    def test_no_layer_needs_itself(self) -> None:
        for rng in examples(800, seed=2):
            needs = graph(rng)
            for layer in layers(needs):
                self.assertFalse({n for target in layer for n in needs[target]} & set(layer))


class AffectedTest(unittest.TestCase):
    def test_what_needs_it_is_built_again(self) -> None:
        self.assertEqual(["b", "a"], list(affected({"a": ["b"], "b": ["c"]}, "b")))

    def test_in_a_diamond_everything_needs_the_core(self) -> None:
        self.assertEqual(["core", "api", "ui", "app"], list(affected(DIAMOND, "core")))

    def test_a_change_deep_in_a_chain_affects_all_above(self) -> None:
        for rng in examples(1000):
            self.assertEqual(60, len(list(affected(tree(rng), "t059"))))


if __name__ == "__main__":
    unittest.main()
