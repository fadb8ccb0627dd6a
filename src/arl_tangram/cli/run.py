"""`arl-tangram run`: one command, on as many cores as it may have and as are free."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..core.model import Outcome
from ..errors import ConfigError, Unavailable
from ..runtime import units
from ..runtime.environment import Environment
from ..runtime.handle import to_its_end
from ..runtime.requests import CommandOptions
from ..runtime.results import Result
from ..runtime.tangram import Tangram
from . import stopping
from .streams import STREAMS, Passage, write_all

CONTEXT_SETTINGS = {"ignore_unknown_options": False, "allow_interspersed_args": False}

_EXIT = {
    Outcome.SUCCEEDED: 0,
    Outcome.FAILED: 1,
    Outcome.TIMED_OUT: 124,
    Outcome.OUT_OF_MEMORY: 137,
    Outcome.CANCELLED: 137,
    Outcome.REJECTED: 1,
    Outcome.LOST: 1,
}


def run(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- CMD…", help="A program and its arguments, or one line for the shell."
        ),
    ],
    *,
    cpus: Annotated[
        str, typer.Option(help="Cores: 2, 0.5, a range such as 1:8, or a list such as 1,2,4.")
    ] = "1",
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The most it may hold, such as 2GiB.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="The limit on its run time, such as 60s.")
    ] = None,
    idle_timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="The limit on the time without output.")
    ] = None,
    workspace: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where it runs.", show_default="here")
    ] = None,
    isolated: Annotated[
        bool,
        typer.Option(
            "--isolated",
            help="In a fresh environment: an empty workspace, the system read-only, no network. "
            "Its output comes at the end.",
        ),
    ] = False,
    network: Annotated[
        bool, typer.Option("--network", help="With --isolated: it may reach the network.")
    ] = False,
    stdin: Annotated[
        bool,
        typer.Option("--stdin", "-i", help="Give it what stands on standard input, read first."),
    ] = False,
    require: Annotated[
        list[str] | None,
        typer.Option(help="What must be guaranteed, as doctor lists it; may be repeated."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say at the end what it took.")
    ] = False,
    output: Annotated[
        Literal["text", "json"], typer.Option("--output", "-o", help="Text, or JSON at the end.")
    ] = "text",
) -> None:
    """Run a command here with the cores it may have, held to them by the kernel.

    It sees its grant in its affinity and in variables such as OMP_NUM_THREADS, so that
    `make -j$(nproc)` and `pytest -n auto` fit it. It works in the current folder as if it had been
    called directly, unless --isolated is given. Exit status: the command's own; 124 if it ran
    into a time limit; 137 if it was killed or ran out of memory; 1 if it could not be run at all.
    """
    if isolated and workspace is not None:
        raise ConfigError("--workspace: with --isolated it works in an empty one; leave one out")
    if network and not isolated:
        raise ConfigError(
            "--network: without --isolated it reaches the network anyway; leave it out"
        )
    request = Request(
        command=_command(command),
        options=CommandOptions(
            cpus=cpus,
            timeout=timeout,
            idle_timeout=idle_timeout,
            kind="run",
            stdin=sys.stdin.buffer.read() if stdin else None,
            output_limit="16MiB",
        ),
        memory=memory,
        workspace=None if isolated else (workspace or Path.cwd()),
        network=network,
        streaming=output == "text" and not isolated,
    )
    result = stopping.run(_run(request, require or None))
    if output == "json":
        typer.echo(json.dumps(document(result)))
    else:
        _print(result, verbose=verbose)
    code = result.exit_code if result.outcome is Outcome.FAILED else None
    raise typer.Exit(_EXIT[result.outcome] if code is None else code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be run, and where."""

    command: list[str]
    options: CommandOptions
    memory: str | None
    workspace: Path | None
    network: bool
    streaming: bool


def document(result: Result) -> dict[str, Any]:
    """A result as JSON values."""
    return {
        "outcome": result.outcome.value,
        "exit_code": result.exit_code,
        "reason": result.reason,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "stdout_bytes": result.stdout_bytes,
        "stderr_bytes": result.stderr_bytes,
        "truncated": result.truncated,
        "timing": {**result.timing._asdict(), "act_s": result.timing.act_s},
        "usage": result.usage._asdict(),
        "grants": [list(held) for held in result.grants],
        "node": result.node,
        "enforcement": result.enforcement,
    }


async def _run(request: Request, require: list[str] | None) -> Result:
    async with (
        Tangram.local(require=require) as tangram,
        tangram.environment(
            task="run",
            memory=request.memory,
            network=request.network,
            workspace=request.workspace,
            pids=32_768 if request.workspace else 1024,
        ) as environment,
    ):
        if not request.streaming:
            return await environment.run(request.command, **request.options)
        with Passage() as passage:
            try:
                result = await _streamed(environment, request, passage)
            finally:
                await environment.close()  # what it left behind may hold the pipes open
        if passage.trouble:
            raise Unavailable(passage.trouble)
        return result


async def _streamed(environment: Environment, request: Request, passage: Passage) -> Result:
    options = request.options.copy()
    limit = options.pop("idle_timeout", None)
    idle_s = None if limit is None else units.seconds(limit, "idle_timeout")
    handle = environment.submit(passage.through(request.command), **options)
    if idle_s is None:
        return await to_its_end(handle)
    # The executor does not see this output, so the silence is measured here.
    watching = asyncio.create_task(_silence(passage, idle_s))
    watching.add_done_callback(lambda _: handle.cancel())
    try:
        result = await to_its_end(handle)
    finally:
        silent = watching.done()
        watching.cancel()
    if silent and result.outcome is Outcome.CANCELLED:
        reason = f"it printed nothing for {idle_s:g} s"
        return replace(result, outcome=Outcome.TIMED_OUT, reason=reason)
    return result


async def _silence(passage: Passage, seconds: float) -> None:
    """Wait until nothing has come through for so long."""
    while (left := passage.heard_at + seconds - time.monotonic()) > 0:  # noqa: ASYNC110
        await asyncio.sleep(left)


def _command(words: list[str]) -> list[str]:
    if not words[0].strip():
        raise ConfigError("the command is empty: give a program, or a line for the shell")
    return ["/bin/sh", "-c", words[0]] if len(words) == 1 else words


def _print(result: Result, *, verbose: bool) -> None:
    for number, raw in ((1, result.raw_stdout), (2, result.raw_stderr)):
        try:
            write_all(number, raw)
        except OSError as error:
            raise Unavailable(f"{STREAMS[number]}: {error.strerror}") from None
    if result.outcome not in {Outcome.SUCCEEDED, Outcome.FAILED} or verbose:
        said = result.outcome.value.replace("_", " ")
        reason = f": {result.reason}" if result.reason else ""
        typer.echo(f"arl-tangram: {said}{reason}", err=True)
    if verbose:
        cores = " → ".join(f"{held.cores:g}" for held in result.grants[:8])
        typer.echo(
            f"arl-tangram: {result.timing.run_s:.2f} s on {cores or 'no'} cores, "
            f"{result.usage.cpu_s:.2f} CPU seconds, "
            f"at most {result.usage.peak_memory_bytes / units.MIB:.0f} MiB "
            f"({result.enforcement or 'never ran'})",
            err=True,
        )
