"""A workload of the demo, made ready to be played, and what there is to say about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .played import Played, Told

Say = Callable[[str], None]


class Look(NamedTuple):
    """How the blocks of a kind are drawn."""

    name: str
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A step that can be played under one policy after another.

    Attributes:
        title: a heading for its page.
        about: how its page begins.
        machine: this machine, and how it enforces.
        unit: what is shared, in one word.
        units: what there is of it, as JSON values.
        actions: how many a step has.
        play: plays it.
        remarks: what a reader needs to know to judge the figures.
        looks: how kinds of blocks are drawn, those below first.
        notes: what a policy does, by its name.
    """

    title: str
    about: str
    machine: Mapping[str, str]
    unit: str
    units: Mapping[str, Any]
    actions: int
    play: Callable[[str, Told], Awaitable[Played]]
    remarks: Callable[[Sequence[Played]], Sequence[str]]
    looks: Mapping[str, Look]
    notes: Mapping[str, str] = field(default_factory=dict)
