"""The parts of the documentation that the code itself tells.

A page has a part where a line ``<!-- generated: NAME -->`` stands; what follows, up to ``<!-- end -->``,
is replaced.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import get_args

from api import command_line, python_api
from prometheus_client import CollectorRegistry

from arl_tangram import errors
from arl_tangram.core import commands, events
from arl_tangram.core.phases import ENVIRONMENT_TRANSITIONS, TRANSITIONS
from arl_tangram.executors.grants import THREAD_COUNTS
from arl_tangram.executors.probe import GUARANTEES
from arl_tangram.runtime.metrics import counters

PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def renewed(text: str) -> str:
    """The page with its generated parts as the code has them now."""

    def part(match: re.Match[str]) -> str:
        start, name, end = match.groups()
        return f"{start}{PARTS[name]()}\n{end}"

    return PART.sub(part, text)


def diagram(transitions: Mapping[Enum, frozenset[Enum]]) -> str:
    """A Mermaid state diagram of a transition table."""
    first, lines = next(iter(transitions)), []
    for old, followers in transitions.items():
        lines += [f"    {old.value} --> {new.value}" for new in transitions if new in followers]
        if not followers:
            lines.append(f"    {old.value} --> [*]")
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {first.value}", *lines, "```"])


def union(members: object) -> str:
    """A table of the classes of a union, with their fields and first sentences."""
    rows = ["| name | fields | meaning |", "|---|---|---|"]
    for member in get_args(members):
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(member))
        rows.append(f"| `{member.__name__}` | {fields} | {summary(member)} |")
    return "\n".join(rows)


def summary(thing: object) -> str:
    """The first paragraph of a docstring on one line; empty if there is none of its own."""
    text = inspect.cleandoc(getattr(thing, "__doc__", None) or "")
    first = text.split("\n\n", maxsplit=1)[0].replace("\n", " ")
    made_by_dataclass = isinstance(thing, type) and first.startswith(f"{thing.__name__}(")
    return "" if made_by_dataclass else first


def error_tree() -> str:
    """The tree in the docstring of the module of exceptions."""
    _, _, tree = inspect.cleandoc(errors.__doc__ or "").partition("\n\n")
    return f"```text\n{tree}\n```"


def error_table() -> str:
    """Every exception with its builtin parents and its sentence."""
    rows = ["| exception | is also a | meaning |", "|---|---|---|"]
    for name, error in vars(errors).items():
        if isinstance(error, type) and error.__module__ == errors.__name__:
            also = [
                f"`{base.__name__}`" for base in error.__bases__ if base.__module__ == "builtins"
            ]
            also = [base for base in also if base != "`Exception`"]
            rows.append(f"| `{name}` | {', '.join(also)} | {summary(error)} |")
    return "\n".join(rows)


def guarantees() -> str:
    """A table of what an executor may promise."""
    rows = ["| name | holds when it is in force |", "|---|---|"]
    return "\n".join(
        [*rows, *(f"| `{name}` | {meaning} |" for name, meaning in GUARANTEES.items())]
    )


def metrics() -> str:
    """A table of every metric."""
    registry = CollectorRegistry()
    counters(registry)
    rows = ["| metric | type | meaning |", "|---|---|---|"]
    for metric in registry.collect():
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        rows.append(f"| `{name}` | {metric.type} | {metric.documentation} |")
    return "\n".join(rows)


PARTS: Mapping[str, Callable[[], str]] = {
    "action-phases": lambda: diagram(TRANSITIONS),
    "environment-phases": lambda: diagram(ENVIRONMENT_TRANSITIONS),
    "events": lambda: union(events.Event),
    "commands": lambda: union(commands.Command),
    "error-tree": error_tree,
    "error-table": error_table,
    "guarantees": guarantees,
    "thread-counts": lambda: ", ".join(f"`{name}`" for name in THREAD_COUNTS),
    "metrics": metrics,
    "command-line": command_line,
    "python-api": python_api,
}
