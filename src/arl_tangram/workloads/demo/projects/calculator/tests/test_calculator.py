from __future__ import annotations

import unittest
from fractions import Fraction
from random import Random

from calculator import evaluate, tokens
from examples import examples


def numbers(rng: Random, count: int) -> list[int]:
    return [rng.randint(1, 99) for _ in range(count)]


class TokensTest(unittest.TestCase):
    def test_spaces_do_not_matter(self) -> None:
        self.assertEqual(["1.5", "+", "x_1", "*", "("], tokens(" 1.5+ x_1 *( "))

    def test_joined_tokens_are_the_text(self) -> None:
        for rng in examples(2000):
            text = "".join(rng.choice("0123456789+-*/^()") for _ in range(100))
            self.assertEqual(text, "".join(tokens(text)))


class ValueTest(unittest.TestCase):
    def test_a_decimal_is_exact(self) -> None:
        self.assertEqual(Fraction(3, 10), evaluate("0.1 + 0.2"))

    def test_long_sums(self) -> None:
        for rng in examples(500):
            some = numbers(rng, 60)
            self.assertEqual(sum(some), evaluate(" + ".join(map(str, some))))

    def test_differences_go_from_the_left(self) -> None:
        for rng in examples(500):
            first, *rest = numbers(rng, 60)
            self.assertEqual(first - sum(rest), evaluate("-".join(map(str, [first, *rest]))))

    def test_quotients_go_from_the_left(self) -> None:
        self.assertEqual(Fraction(2), evaluate("12 / 3 / 2"))

    def test_products_before_sums(self) -> None:
        for rng in examples(2000):
            a, b, c, d = numbers(rng, 4)
            self.assertEqual(a + b * c - d * d, evaluate(f"{a}+{b}*{c}-{d}*{d}"))

    def test_parentheses_first(self) -> None:
        for rng in examples(2000):
            a, b, c, d = numbers(rng, 4)
            self.assertEqual((a + b) * (c - d), evaluate(f"({a}+{b})*({c}-{d})"))

    def test_deep_nesting(self) -> None:
        for rng in examples(200):
            n = rng.randint(1, 99)
            self.assertEqual(n, evaluate("(" * 90 + str(n) + ")" * 90))

    def test_variables(self) -> None:
        self.assertEqual(Fraction(7), evaluate("x * y + 1", {"x": Fraction(2), "y": Fraction(3)}))

    def test_functions(self) -> None:
        for rng in examples(1000):
            some = numbers(rng, 12)
            text = ", ".join(map(str, some))
            self.assertEqual(max(some) - min(some), evaluate(f"max({text}) - min({text})"))
            self.assertEqual(some[0], evaluate(f"abs(-{some[0]})"))


class PowerTest(unittest.TestCase):
    def test_powers_go_from_the_right(self) -> None:
        self.assertEqual(Fraction(512), evaluate("2^3^2"))

    def test_towers(self) -> None:
        for rng in examples(3000):
            a, b, c = rng.randint(2, 5), rng.randint(2, 3), rng.randint(2, 3)
            self.assertEqual(Fraction(a ** (b**c)), evaluate(f"{a}^{b}^{c}"))

    def test_powers_before_products(self) -> None:
        for rng in examples(2000):
            a, b, c = rng.randint(2, 9), rng.randint(2, 9), rng.randint(2, 9)
            self.assertEqual(Fraction(a * b**c), evaluate(f"{a}*{b}^{c}"))

    def test_a_sign_comes_after_a_power(self) -> None:
        self.assertEqual(Fraction(-4), evaluate("-2^2"))

    def test_a_sign_in_an_exponent(self) -> None:
        self.assertEqual(Fraction(1, 8), evaluate("2^-3"))

    def test_parentheses_beat_the_rule(self) -> None:
        self.assertEqual(Fraction(64), evaluate("(2^3)^2"))


class ErrorTest(unittest.TestCase):
    def test_what_is_not_an_expression_is_refused(self) -> None:
        for text in ("", "1 +", "(1", "1)", "1 2", "* 3", "max(", "nobody"):
            with self.subTest(text), self.assertRaises(SyntaxError):
                evaluate(text)

    def test_an_expression_cut_after_an_operator_is_refused(self) -> None:
        for rng in examples(1000):
            a, b, c = numbers(rng, 3)
            with self.assertRaises(SyntaxError):
                evaluate(f"({a} + {b}) * {c} {rng.choice('+-*/^')}")

    def test_a_missing_parenthesis_is_found(self) -> None:
        for rng in examples(1000):
            a, b, c = numbers(rng, 3)
            with self.assertRaises(SyntaxError):
                evaluate(f"({a} + {b} * {c}")


if __name__ == "__main__":
    unittest.main()
