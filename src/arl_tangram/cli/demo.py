"""`arl-tangram demo`: recorded coding rollouts under several policies, on this machine, for real."""

from __future__ import annotations

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

from ..demo.coding import coding
from ..demo.deepsearch import deepsearch
from ..demo.figures import disagreements, document
from ..demo.mopd import mopd
from ..demo.neighbours import Neighbours
from ..demo.played import Played
from ..demo.report import report as report_of
from ..demo.report import table_of
from ..demo.scene import Say, Scene
from ..errors import ConfigError
from ..policies.registry import policy_named
from . import stopping

SCENES: Mapping[str, Callable[[int | None, int, Say], Scene]] = {
    "coding": coding,
    "mopd": mopd,
    "deepsearch": deepsearch,
}
POLICIES = "static,tangram,inflight"
WIDTH_WITHOUT_TERMINAL = 100


def demo(
    *,
    workload: Annotated[
        Literal["coding", "mopd", "deepsearch"],
        typer.Option(
            help="Coding agents on cores; teacher models on devices; a search API and a judge."
        ),
    ] = "coding",
    trajectories: Annotated[
        int | None,
        typer.Option(
            min=1, help="Rollouts in the step.  [default: what keeps this machine busy for a while]"
        ),
    ] = None,
    policies: Annotated[
        str, typer.Option(help="Policies to compare, separated by commas.")
    ] = POLICIES,
    seed: Annotated[
        int, typer.Option(help="Of the rollouts, and of all that is drawn for them.")
    ] = 0,
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
    """Run rollouts under several policies on this machine, for real, and compare them."""
    names = list(dict.fromkeys(filter(None, map(str.strip, policies.split(",")))))
    if not names:
        raise ConfigError(f"policies={policies!r}: name at least one, as in {POLICIES}")
    for name in names:
        policy_named(name)
    for path in filter(None, (report, json_file)):
        if not path.parent.is_dir():
            raise ConfigError(f"{str(path)!r}: there is no folder {str(path.parent)!r}")
    logging.getLogger("arl_tangram").setLevel(logging.ERROR)  # what it would say is printed below
    said = Console(stderr=output == "json")
    if not said.is_terminal:
        said = Console(stderr=output == "json", width=WIDTH_WITHOUT_TERMINAL)

    def say(text: str) -> None:
        said.print(text, highlight=False)

    scene = SCENES[workload](trajectories, seed, say)
    neighbours = Neighbours()
    steps = _play(scene, names, said, neighbours)
    if report is not None:
        _write(report, report_of(steps, scene))
        said.print(f"Report: {report}", soft_wrap=True, highlight=False)
    figures = document(steps, scene)
    if json_file is not None:
        _write(json_file, json.dumps(figures, indent=2) + "\n")
    if output == "json":
        print(json.dumps(figures, indent=2))
    else:
        _print_table(said, steps, scene)
    if neighbours.warning:
        said.print(neighbours.warning, highlight=False, style="yellow")
    _check_rewards(said, steps)


def _play(
    scene: Scene, names: Sequence[str], said: Console, neighbours: Neighbours
) -> list[Played]:
    steps: list[Played] = []
    with _progress(scene.actions, names, said) as told:
        for name in names:
            neighbours.look()
            steps.append(stopping.run(scene.play(name, partial(told, name))))
            said.print(f"{name}: the step took {steps[-1].step_s:.1f} s.", highlight=False)
    return steps


@contextmanager
def _progress(actions: int, names: Sequence[str], said: Console) -> Iterator[Callable[[str], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("actions"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=said, transient=True, disable=not said.is_terminal) as bars:
        rows = {name: bars.add_task(name, total=actions, start=False) for name in names}

        def told(name: str) -> None:
            bars.start_task(rows[name])
            bars.advance(rows[name])

        yield told


def _print_table(said: Console, steps: Sequence[Played], scene: Scene) -> None:
    content = table_of(steps, scene)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for i, head in enumerate(content.heads):
        table.add_column(head, justify="left" if i == 0 else "right", no_wrap=True)
    for row in content.rows:
        table.add_row(*row)
    said.print()
    said.print(table)
    said.print("\nIn brackets: how many times better than static.", highlight=False)
    for remark in scene.remarks(steps):
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
