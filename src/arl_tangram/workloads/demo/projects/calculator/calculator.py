"""Evaluates arithmetic expressions with a precedence-climbing parser."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([A-Za-z_]\w*)|(.))")
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "^": 4}
SIGN = 3  # a sign binds tighter than a product and looser than a power
FUNCTIONS = {
    "min": lambda *values: min(values),
    "max": lambda *values: max(values),
    "abs": lambda value: abs(value),
}


def evaluate(text: str, variables: Mapping[str, Fraction] | None = None) -> Fraction:
    """The exact value of an expression."""
    parser = _Parser(tokens(text), variables or {})
    value = parser.expression(0)
    if parser.peek() is not None:
        raise SyntaxError(f"unexpected {parser.peek()!r}")
    return value


def tokens(text: str) -> list[str]:
    return ["".join(match.groups(default="")) for match in TOKEN.finditer(text.rstrip())]


class _Parser:
    def __init__(self, parts: list[str], variables: Mapping[str, Fraction]) -> None:
        self._parts = parts
        self._variables = variables
        self._at = 0

    def peek(self) -> str | None:
        return self._parts[self._at] if self._at < len(self._parts) else None

    def take(self, expected: str | None = None) -> str:
        part = self.peek()
        if part is None or expected not in (None, part):
            raise SyntaxError(f"expected {expected or 'more'}, found {part or 'the end'}")
        self._at += 1
        return part

    def expression(self, binding: int) -> Fraction:
        """Everything from here on that binds at least as tight as `binding`."""
        left = self.operand()
        while (operator := self.peek()) in PRECEDENCE and PRECEDENCE[operator] >= binding:
            self.take()
            right = self.expression(PRECEDENCE[operator] + 1)
            left = apply(operator, left, right)
        return left

    def operand(self) -> Fraction:
        part = self.take()
        if part == "-":
            return -self.expression(SIGN)
        if part == "(":
            value = self.expression(0)
            self.take(")")
            return value
        if part in FUNCTIONS:
            return FUNCTIONS[part](*self.arguments())
        if part in self._variables:
            return self._variables[part]
        if part[0].isdigit():
            return Fraction(part)
        raise SyntaxError(f"unexpected {part!r}")

    def arguments(self) -> list[Fraction]:
        self.take("(")
        values = [self.expression(0)]
        while self.peek() == ",":
            self.take()
            values.append(self.expression(0))
        self.take(")")
        return values


def apply(operator: str, left: Fraction, right: Fraction) -> Fraction:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "/":
        return left / right
    return Fraction(left**right)
