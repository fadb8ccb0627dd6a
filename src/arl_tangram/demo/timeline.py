"""Draws who held which units when: time to the right, a lane for every unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from ..core.model import Seconds
from ..sim.figures import Figure
from .ledger import ENVIRONMENT, Span
from .scene import Look

LANE_PIXELS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A rectangle: units of neighbouring lanes, held by one action or environment."""

    trajectory: str
    kind: str
    began_at: Seconds
    ended_at: Seconds
    lane: int
    height: int


def blocks(spans: Sequence[Span]) -> list[Block]:
    """A place for every span, so that no two share a lane at a time.

    Units of a span that grows or shrinks are added and taken at its upper end. An action that
    holds no units of its own is drawn over those of its environment.
    """
    changes = sorted(
        (
            change
            for number, span in enumerate(spans)
            if span.lane is None
            for change in _changes(number, span)
        ),
        key=itemgetter(0, 1),
    )
    lanes: list[tuple[int, Seconds] | None] = []  # the span that has the lane, and since when
    stays: list[tuple[int, int, Seconds, Seconds]] = []  # span, lane, from, to
    for at, _, number, units in changes:
        mine = [i for i, lane in enumerate(lanes) if lane is not None and lane[0] == number]
        for i in mine[units:]:
            _, since = lanes[i] or (number, at)
            stays.append((number, i, since, at))
            lanes[i] = None
        for _ in range(units - len(mine)):
            free = next((i for i, lane in enumerate(lanes) if lane is None), len(lanes))
            lanes[free : free + 1] = [(number, at)]
    owned = _rectangles(spans, stays)
    homes = {block.trajectory: block for block in owned if block.kind == ENVIRONMENT}
    guests = [
        _block(span, home.lane, home.height, span.held[0][0], span.ended_at)
        for span in spans
        if span.ended_at is not None
        and not any(units for _, units in span.held)
        and (home := homes.get(span.trajectory)) is not None
    ]
    return owned + [block for span in spans for block in _fixed(span)] + guests


def timeline(
    spans: Sequence[Span], *, units: int, until_s: Seconds, looks: Mapping[str, Look], unit: str
) -> Figure:
    """The blocks of a step as a figure; `until_s` lets several have the same scale."""
    drawn = blocks(spans)
    data: list[dict[str, Any]] = []
    for kind, look in looks.items():
        some = [block for block in drawn if block.kind == kind]
        if not some:
            continue
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": look.name,
                "base": [round(block.began_at, 4) for block in some],
                "x": [round(block.ended_at - block.began_at, 4) for block in some],
                "y": [block.lane + block.height / 2 for block in some],
                "width": [block.height for block in some],
                "text": [f"{block.trajectory}, {block.height} {unit}s" for block in some],
                "textposition": "none",
                "hovertemplate": "%{text}, %{x:.3f} s<extra>" + kind + "</extra>",
                "marker": {"color": look.colour, "line": {"color": "white", "width": 0.5}},
            }
        )
    axis = {"gridcolor": "#e4e7eb", "zeroline": False, "automargin": True}
    return {
        "data": data,
        "layout": {
            "barmode": "overlay",
            "font": {"family": "system-ui, sans-serif", "size": 14, "color": "#1f2933"},
            "paper_bgcolor": "white",
            "plot_bgcolor": "white",
            "height": 130 + LANE_PIXELS * units,
            "margin": {"l": 60, "r": 30, "t": 20, "b": 50},
            "hovermode": "closest",
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "xaxis": {"title": {"text": "time in the step (s)"}, "range": [0, until_s], **axis},
            "yaxis": {"title": {"text": f"{unit}s"}, "range": [0, units], "dtick": 3, **axis},
        },
    }


def _fixed(span: Span) -> list[Block]:
    """The block of a span that has its lanes already."""
    if span.lane is None or span.ended_at is None:
        return []
    (began_at, units), *_ = span.held
    return [_block(span, span.lane, round(units), began_at, span.ended_at)]


def _changes(number: int, span: Span) -> list[tuple[Seconds, int, int, int]]:
    """(time, give back first, span, units from then on)."""
    if span.ended_at is None:
        return []
    amounts = [(at, round(units)) for at, units in span.held] + [(span.ended_at, 0)]
    before = [0, *(units for _, units in amounts)]
    return [
        (at, 0 if units <= was else 1, number, units)
        for (at, units), was in zip(amounts, before, strict=False)
    ]


def _rectangles(
    spans: Sequence[Span], stays: Sequence[tuple[int, int, Seconds, Seconds]]
) -> list[Block]:
    """Join the stays of one span that lie on neighbouring lanes from and to the same time."""
    found = []
    ordered = sorted(stays, key=itemgetter(0, 2, 3, 1))
    for (number, began, ended), group in groupby(ordered, key=itemgetter(0, 2, 3)):
        lanes = [lane for _, lane, _, _ in group]
        for _, run in groupby(enumerate(lanes), key=lambda pair: pair[1] - pair[0]):
            neighbours = [lane for _, lane in run]
            found.append(_block(spans[number], neighbours[0], len(neighbours), began, ended))
    return found


def _block(span: Span, lane: int, height: int, began_at: Seconds, ended_at: Seconds) -> Block:
    return Block(
        trajectory=span.trajectory,
        kind=span.kind,
        began_at=began_at,
        ended_at=ended_at,
        lane=lane,
        height=height,
    )
