from __future__ import annotations

import pytest

from arl_tangram.executors.api import Response
from arl_tangram.runtime.repeats import size_of


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (None, 8),
        ("four", 4),
        (Response(status=200, body=bytes(70)), 70),
        ({"ab": [1.5, "abc"], "c": (True,)}, 2 + 8 + 3 + 1 + 8),
    ],
)
def test_the_size_of_a_reply_is_about_what_it_takes(value: object, size: int) -> None:
    assert size == size_of(value)
