"""Reference pages of the command line and of the Python interface, from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args

import typer

import arl_tangram
from arl_tangram.cli.main import COMMANDS, build
from arl_tangram.runtime.requests import CommandOptions, FreshOptions
from arl_tangram.runtime.service_options import ServiceOptions

SECTION = re.compile(r"(Attributes|Args|Keys|Raises|Yields|Returns):")
WIDTH = 80


def command_line() -> str:
    """A section for each subcommand, with a table of its options."""
    root: Any = typer.main.get_command(build([]))
    return "\n\n".join(_command(name, root.commands[name]) for name in COMMANDS)


def _command(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join(["arl-tangram", name, "[OPTIONS]", *(_argument(p) for p in arguments)])
    lines = [
        f"## `arl-tangram {name}`",
        "",
        _prose(command.help or ""),
        "",
        "```text",
        usage,
        "```",
    ]
    lines += ["", "| option | default | meaning |", "|---|---|---|"]
    lines += [
        f"| {_names(p)} | {_default(p)} | {_cell(p.help or '')} |" for p in (*arguments, *options)
    ]
    return "\n".join(lines)


def _argument(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    name = parameter.name.upper() + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_argument(parameter)}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    value = parameter.default
    if isinstance(value, Enum):
        value = value.value
    if value is None or value in ("", []) or value is False or callable(value):
        return ""
    return f"`{value}`"


def python_api() -> str:
    """A section for each public class, then what can be said about a command, then the errors."""
    public = {name: getattr(arl_tangram, name) for name in sorted(arl_tangram.__all__)}
    errors = [n for n, thing in public.items() if _is(thing, Exception)]
    sections = [_section(name, thing) for name, thing in public.items() if name not in errors]
    options = (CommandOptions, FreshOptions, ServiceOptions)
    sections += [_section(kind.__name__, kind) for kind in options]
    listed = ", ".join(f"`{name}`" for name in errors)
    sections.append(f"## Errors\n\n{listed}: see [Outcomes and errors](outcomes-and-errors.md).")
    return "\n\n".join(sections)


def _is(thing: Any, parent: type) -> bool:
    return isinstance(thing, type) and issubclass(thing, parent)


def _section(name: str, thing: Any) -> str:
    paragraphs = [f"## `{name}`"]
    if _is(thing, Enum):
        paragraphs += [_docstring(thing), ", ".join(f"`{m.value}`" for m in thing)]
    elif isinstance(thing, type):
        paragraphs += [_docstring(thing), _properties(thing), *_methods(thing)]
    else:  # a name for another type
        origin = getattr(thing, "__supertype__", None)
        parts = [origin] if origin else get_args(thing)
        paragraphs.append(" or ".join(f"`{part.__name__}`" for part in parts))
    return "\n\n".join(filter(None, paragraphs))


def _properties(owner: type) -> str:
    rows = []
    for name, member in vars(owner).items():
        if isinstance(member, property) and not name.startswith("_"):
            meaning = _cell(inspect.getdoc(member) or "")
            rows.append(f"- `{name}`: {meaning}" if meaning else f"- `{name}`")
    return "\n".join(rows)


def _methods(owner: type) -> Iterator[str]:
    """The documented methods; one without a docstring is for other rooms, not for users."""
    ours = [part for part in owner.__mro__ if part.__module__.startswith("arl_tangram.runtime")]
    members = {name: member for part in reversed(ours) for name, member in vars(part).items()}
    for name, member in (members or vars(owner)).items():
        plain = getattr(member, "__func__", member)
        if inspect.isfunction(plain) and plain.__doc__ and not name.startswith("_"):
            word = "await " if inspect.iscoroutinefunction(plain) else ""
            subject = owner.__name__ if plain is not member else owner.__name__.lower()
            call = f"{word}{subject}.{name}{_signature(plain)}"
            yield f"### `{owner.__name__}.{name}`\n\n```text\n{call}\n```\n\n{_docstring(plain)}"


def _signature(function: Any) -> str:
    shown = inspect.signature(function)
    words: list[str] = []
    keywords = False
    for parameter in list(shown.parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            words.append("*")
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        words.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
    line = f"({', '.join(words)}) -> {shown.return_annotation}"
    if len(line) <= WIDTH:
        return line
    spread = "".join(f"    {word},\n" for word in words)
    return f"(\n{spread}) -> {shown.return_annotation}"


def _docstring(thing: Any) -> str:
    text = inspect.cleandoc(getattr(thing, "__doc__", None) or "")
    if text.startswith(f"{getattr(thing, '__name__', '')}("):
        return ""  # the signature that a dataclass gives itself
    return _prose(text)


def _prose(text: str) -> str:
    """A docstring as Markdown: its sections become lists."""
    out: list[str] = []
    inside = False
    for line in text.splitlines():
        if match := SECTION.fullmatch(line):
            out += [f"*{match[1]}*", ""]
            inside = True
        elif inside and re.match(r"^    \S", line):
            name, _, meaning = line.strip().partition(": ")
            out.append(f"- `{name}`: {meaning}")
        elif inside and line.startswith("        "):
            out.append(f"  {line.strip()}")
        else:
            inside = inside and not line.strip()
            out.append(line)
    return "\n".join(out).strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
