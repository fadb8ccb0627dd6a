"""Seeded random cases for tests that check a property on many of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random


def examples(count: int, seed: int = 0) -> Iterator[Random]:
    """Yield one random source `count` times, scaled by ``DEMO_WORK``, and never fewer than once."""
    rng = Random(seed)
    for _ in range(max(1, round(count * float(os.environ.get("DEMO_WORK", "1"))))):
        yield rng
