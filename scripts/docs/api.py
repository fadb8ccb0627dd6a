"""Reference pages of the command line and of the Python interface, from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import typer

import arl_tangram
from arl_tangram.cli.main import COMMANDS, build

SECTION = re.compile(r"^(Attributes|Args|Raises|Yields|Returns):$", re.MULTILINE)


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
    name = parameter.human_readable_name.strip("[].").upper()
    dots = "..." if parameter.nargs == -1 else ""
    return f"{name}{dots}" if parameter.required else f"[{name}{dots}]"


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
    """A section for each public class and function, then tables of the other names."""
    public = {name: getattr(arl_tangram, name) for name in sorted(arl_tangram.__all__)}
    errors = {
        n for n, thing in public.items() if isinstance(thing, type) and issubclass(thing, Exception)
    }
    sections = [_section(name, thing) for name, thing in public.items() if name not in errors]
    listed = ", ".join(f"`{name}`" for name in sorted(errors))
    return "\n\n".join(
        [*sections, f"## Errors\n\n{listed}: see [Outcomes and errors](outcomes-and-errors.md)."]
    )


def _section(name: str, thing: Any) -> str:
    lines = [f"## `{name}`", ""]
    if isinstance(thing, type) and issubclass(thing, Enum):
        return "\n".join([*lines, _docstring(thing), "", ", ".join(f"`{m.value}`" for m in thing)])
    if not isinstance(thing, type) and not inspect.isfunction(thing):
        return "\n".join([*lines, f"`{_type_text(thing)}`"])
    doc = _docstring(thing)
    lines += [doc, ""] if doc else []
    if isinstance(thing, type):
        lines += [f"- `{signature}`: {meaning}" for signature, meaning in _members(thing)]
    else:
        lines += ["```text", f"{name}{_signature(thing)}", "```"]
    return "\n".join(lines).rstrip()


def _members(owner: type) -> Iterator[tuple[str, str]]:
    for name, member in vars(owner).items():
        if name.startswith("_"):
            continue
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(plain, property):
            yield name, _cell(_first(plain.fget))
        elif inspect.isfunction(plain):
            word = "await " if inspect.iscoroutinefunction(plain) else ""
            yield f"{word}{name}{_signature(plain)}", _cell(_first(plain))


def _signature(function: Any) -> str:
    shown = inspect.signature(function)
    parameters = [p for p in shown.parameters.values() if p.name not in ("self", "cls")]
    text = str(shown.replace(parameters=parameters))
    return text.replace("'", "").replace("|", "or")


def _type_text(thing: Any) -> str:
    return str(thing).replace("typing.", "").replace("collections.abc.", "").replace("|", "or")


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
        if SECTION.fullmatch(line.strip()) and not line.startswith(" "):
            out += [f"*{line.strip()}*"[:-2] + "*", ""]
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


def _first(thing: Any) -> str:
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "").split("\n\n", maxsplit=1)[0]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
