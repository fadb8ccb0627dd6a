"""The `arl-tangram` command: finds the subcommand that was asked for and turns errors into lines.

Each subcommand is a module of this package with a function of the same name, written the way Typer
reads functions; a constant `CONTEXT_SETTINGS` beside it, if there is one, goes to the parser. Only
the module that was named is imported, so that a short command is not slowed by a long one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from ..errors import RequestError, TangramError

COMMANDS: tuple[str, ...] = ("demo", "doctor", "run", "simulate")
"""The subcommands, in the order of the help text."""

EXIT_ERROR = 1
EXIT_USAGE = 2


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the shape of a Typer callback
    if wanted:
        typer.echo(f"arl-tangram {installed_version('arl-tangram')}")
        raise typer.Exit


def _root(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Run every action of an agentic-RL rollout when, where and on as many units as serve best."""


def build(arguments: Sequence[str]) -> typer.Typer:
    """The application for these arguments: with the one command they name, or else with all."""
    named = next((word for word in arguments if not word.startswith("-")), None)
    names = (named,) if named in COMMANDS else () if "--version" in arguments else COMMANDS
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help=_root.__doc__,
    )
    app.callback()(_root)
    for name in names:
        module = import_module(f"{__package__}.{name}")
        settings = getattr(module, "CONTEXT_SETTINGS", None)
        app.command(name=name, context_settings=settings)(getattr(module, name))
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with the shell's exit status.

    A mistake of the caller ends in status 2, any other failure of ours in 1; what a command says
    about the program it ran (124 for a timeout, 137 for a kill) is its own.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        build(words)(words, prog_name="arl-tangram")
    except TangramError as error:
        typer.echo(f"arl-tangram: {error}", err=True)
        sys.exit(EXIT_USAGE if isinstance(error, RequestError) else EXIT_ERROR)
