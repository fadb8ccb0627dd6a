from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl_tangram.demo.coding import LOOKS
from arl_tangram.demo.ledger import ENVIRONMENT, Span
from arl_tangram.demo.timeline import Block, blocks, timeline


def span(*held: tuple[float, float], until: float, kind: str = "reward", name: str = "t") -> Span:
    return Span(name, kind, held=list(held), ended_at=until)


@st.composite
def spans(draw: st.DrawFn) -> list[Span]:
    found = []
    for number in range(draw(st.integers(1, 8))):
        times = sorted(draw(st.lists(st.integers(0, 20), min_size=2, max_size=6, unique=True)))
        held = [(float(at), float(draw(st.integers(1, 4)))) for at in times[:-1]]
        found.append(span(*held, until=float(times[-1]), name=f"t{number}"))
    return found


def overlap(one: Block, other: Block) -> bool:
    return (
        one.began_at < other.ended_at
        and other.began_at < one.ended_at
        and one.lane < other.lane + other.height
        and other.lane < one.lane + one.height
    )


def area(drawn: list[Block]) -> float:
    return sum((block.ended_at - block.began_at) * block.height for block in drawn)


@given(spans())
def test_no_two_blocks_share_a_lane_at_a_time(some: list[Span]) -> None:
    drawn = blocks(some)

    assert not any(overlap(one, other) for one, other in combinations(drawn, 2))


@given(spans())
def test_the_area_of_all_blocks_is_what_was_held(some: list[Span]) -> None:
    assert pytest.approx(sum(each.unit_s for each in some)) == area(blocks(some))


@given(spans())
def test_no_more_lanes_are_used_than_units_were_held_at_once(some: list[Span]) -> None:
    times = {at for each in some for at, _ in each.held}
    most = max(
        sum(
            next((units for since, units in reversed(each.held) if since <= at), 0)
            for each in some
            if each.ended_at is not None and at < each.ended_at
        )
        for at in times
    )

    assert most >= max(block.lane + block.height for block in blocks(some))


def test_a_span_that_never_changes_is_one_block() -> None:
    assert [
        Block(trajectory="t", kind="reward", began_at=1.0, ended_at=3.0, lane=0, height=4)
    ] == blocks([span((1.0, 4), until=3.0)])


def test_an_action_without_units_is_drawn_over_those_of_its_environment() -> None:
    drawn = blocks(
        [
            span((0.0, 3), until=9.0, kind=ENVIRONMENT, name="a"),
            span((0.0, 3), until=9.0, kind=ENVIRONMENT, name="b"),
            span((4.0, 0), until=5.0, kind="bash", name="b"),
        ]
    )

    assert (
        Block(trajectory="b", kind="bash", began_at=4.0, ended_at=5.0, lane=3, height=3)
        == drawn[-1]
    )


def test_the_figure_has_a_colour_for_each_kind_that_was_seen() -> None:
    figure = timeline(
        [span((0.0, 2), until=2.0, kind="bash"), span((1.0, 3), until=4.0)],
        units=12,
        until_s=5.0,
        looks=LOOKS,
        unit="core",
    )

    assert ["shell", "reward"] == [trace["name"] for trace in figure["data"]]
    assert [0, 5.0] == figure["layout"]["xaxis"]["range"]
    assert "cores" == figure["layout"]["yaxis"]["title"]["text"]


def test_what_has_its_lanes_already_stays_on_them() -> None:
    fixed = Span("m", "resident", held=[(0.0, 2.0)], ended_at=3.0, lane=4)

    drawn = blocks([span((0.0, 1), until=2.0), fixed])

    assert [(0, 1), (4, 2)] == [(block.lane, block.height) for block in drawn]
