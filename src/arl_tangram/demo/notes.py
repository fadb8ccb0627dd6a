"""The notes that the demo's agents search in, and the questions they are to answer from them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note, and a question that it answers.

    Attributes:
        reference: a right answer, in other words than the note's.
        queries: searches that lead to the note.
    """

    title: str
    text: str
    question: str
    reference: str
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """All of them.

    Attributes:
        vague: searches that lead nowhere in particular.
    """

    notes: tuple[Note, ...]
    vague: tuple[str, ...]


def notes() -> Notes:
    """The notes that ship with the package."""
    file = files("arl_tangram.workloads").joinpath("demo/search/notes.toml")
    table = tomllib.loads(file.read_text("utf-8"))
    return Notes(
        notes=tuple(Note(**{**each, "queries": tuple(each["queries"])}) for each in table["notes"]),
        vague=tuple(table["vague"]),
    )
