"""The demo says when others were at work too."""

import pytest

from arl_tangram.demo import neighbours
from arl_tangram.demo.neighbours import Neighbours


@pytest.mark.parametrize(
    ("seen", "said"), [((2.0, 14.0), ""), ((3.0, 90.0, 1.0), "up to 90% of the processors")]
)
def test_the_busiest_look_counts(monkeypatch, seen, said):
    looks = iter(seen)
    monkeypatch.setattr(neighbours.psutil, "cpu_percent", lambda _: next(looks))
    machine = Neighbours()

    for _ in seen:
        machine.look()

    assert said in machine.warning
    assert bool(said) == bool(machine.warning)
