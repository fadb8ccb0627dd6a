"""`arl-tangram demo`: recorded coding rollouts under several policies, on this machine, for real."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..demo.figures import disagreements, document
from ..demo.plan import Rollout, plan
from ..demo.play import Played, describe, play
from ..demo.recordings import recordings
from ..demo.rehearsal import rehearse
from ..demo.report import caution_said, share_said, table_of
from ..demo.report import report as report_of
from ..demo.setting import STATIC_UNITS, Setting, setting_for
from ..errors import ConfigError
from ..policies.registry import policy_named
from ..runtime.machine import this_machine

POLICIES = "static,tangram,inflight"
WAVES = 6
"""Trajectories for each that fits at once under `static`, if no number is given."""
WIDTH_WITHOUT_TERMINAL = 100


def demo(
    *,
    trajectories: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"Rollouts in the step.  [default: {WAVES} for each container that fits]"
        ),
    ] = None,
    policies: Annotated[
        str, typer.Option(help="Policies to compare, separated by commas.")
    ] = POLICIES,
    seed: Annotated[int, typer.Option(help="Of the rollouts, model gaps and suite sizes.")] = 0,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page with figures.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures as JSON.")
    ] = None,
    output: Annotated[
        Literal["table", "json"], typer.Option("--output", "-o", help="Print a table or JSON.")
    ] = "table",
) -> None:
    """Run recorded coding rollouts under several policies here, and compare them."""
    names = list(dict.fromkeys(filter(None, map(str.strip, policies.split(",")))))
    if not names:
        raise ConfigError(f"policies={policies!r}: name at least one, as in {POLICIES}")
    for name in names:
        policy_named(name)
    for path in filter(None, (report, json_file)):
        if not path.parent.is_dir():
            raise ConfigError(f"{str(path)!r}: there is no folder {str(path.parent)!r}")
    logging.getLogger("arl_tangram").setLevel(logging.ERROR)  # what it would say is printed below
    setting = setting_for(this_machine())
    recorded = recordings()
    said = Console(stderr=output == "json")
    if not said.is_terminal:
        said = Console(stderr=output == "json", width=WIDTH_WITHOUT_TERMINAL)
    machine = asyncio.run(describe(setting))
    _describe(said, machine, setting)
    pace = asyncio.run(rehearse(recorded, setting))
    count = trajectories or WAVES * setting.containers
    rollouts = plan(recorded, count=count, seed=seed, pace=pace)
    _introduce(said, rollouts, setting, seed)
    steps = _play(rollouts, names, setting, said)
    if report is not None:
        _write(report, report_of(steps, setting, machine=machine, seed=seed))
        said.print(f"Report: {report}", soft_wrap=True, highlight=False)
    figures = document(steps, setting, machine)
    if json_file is not None:
        _write(json_file, json.dumps(figures, indent=2) + "\n")
    if output == "json":
        print(json.dumps(figures, indent=2))
    else:
        _print_table(said, steps, setting)
    _check_rewards(said, steps)


def _introduce(said: Console, rollouts: Sequence[Rollout], setting: Setting, seed: int) -> None:
    actions = sum(rollout.actions for rollout in rollouts)
    said.print(
        f"{len(rollouts)} recorded coding rollouts with {actions} actions, seed {seed}. Under "
        f"static each owns {STATIC_UNITS} units for life, so {setting.containers} run at once.",
        highlight=False,
    )


def _play(
    rollouts: Sequence[Rollout], names: Sequence[str], setting: Setting, said: Console
) -> list[Played]:
    steps: list[Played] = []
    with _progress(rollouts, names, said) as told:
        for name in names:
            playing = play(rollouts, name, setting=setting, told=partial(told, name))
            steps.append(asyncio.run(playing))
            said.print(f"{name}: the step took {steps[-1].step_s:.1f} s.", highlight=False)
    return steps


@contextmanager
def _progress(
    rollouts: Sequence[Rollout], names: Sequence[str], said: Console
) -> Iterator[Callable[[str], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("actions"),
        TimeElapsedColumn(),
    )
    actions = sum(rollout.actions for rollout in rollouts)
    with Progress(*columns, console=said, transient=True, disable=not said.is_terminal) as bars:
        rows = {name: bars.add_task(name, total=actions, start=False) for name in names}

        def told(name: str) -> None:
            bars.start_task(rows[name])
            bars.advance(rows[name])

        yield told


def _describe(said: Console, machine: Mapping[str, str], setting: Setting) -> None:
    said.print(
        f"{machine['node']}: {setting}. Enforcement: {machine['enforcement']}. "
        f"Isolation: {machine['isolation']}.",
        highlight=False,
    )
    if machine.get("weaker"):
        said.print(f"Weaker than it could be: {machine['weaker']}", highlight=False)


def _print_table(said: Console, steps: Sequence[Played], setting: Setting) -> None:
    content = table_of(steps, setting)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for i, head in enumerate(content.heads):
        table.add_column(head, justify="left" if i == 0 else "right", no_wrap=True)
    for row in content.rows:
        table.add_row(*row)
    said.print()
    said.print(table)
    said.print("\nIn brackets: how many times better than static.", highlight=False)
    for remark in filter(None, (share_said(steps), caution_said(setting))):
        said.print(remark, highlight=False)


def _check_rewards(said: Console, steps: Sequence[Played]) -> None:
    for played in steps:
        for trajectory, trouble in played.troubles.items():
            said.print(f"{played.policy}, {trajectory}: {trouble}", highlight=False, style="yellow")
    if different := disagreements(steps):
        for line in different:
            said.print(line, highlight=False, style="bold red")
        said.print("These rewards are not the same under every policy.", style="bold red")
        raise typer.Exit(1)
    rewards: list[Any] = list(steps[0].rewards.values())
    said.print(
        f"All {len(rewards)} rewards are the same under {_joined([s.policy for s in steps])}; "
        f"their mean is {sum(rewards) / len(rewards):.3f}.",
        highlight=False,
    )


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{str(path)!r}: {error.strerror}") from None
