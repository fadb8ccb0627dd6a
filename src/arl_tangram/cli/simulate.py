"""`arl-tangram simulate`: a workload on a cluster under several policies, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..errors import ConfigError
from ..policies.registry import policy_named
from ..runtime.journal import Header, JournalWriter
from ..runtime.units import seconds, size_mib
from ..sim.case import (
    DEFAULT_EVICTION,
    Case,
    EstimatesName,
    EvictionName,
    Scenario,
    eviction_of,
)
from ..sim.comparison import Comparison, compared
from ..sim.page import TableOf
from ..sim.report import BOUND, said_of, table_of
from ..sim.report import report as report_of
from ..sim.written import write_trace

DEFAULT_POLICIES = ("static", "tangram", "inflight")
WIDTH_WITHOUT_TERMINAL = 160
SPARED_FIRST = (
    "at work",
    "core hours held",
    "GPU hours held",
    "restores",
    "cores at work",
    "p50",
    "run",
    "queue",
    "p99",
)


def simulate(
    workload: Annotated[
        list[str],
        typer.Argument(
            help="Built-in workloads (coding, deepsearch, mopd) or paths of traces; several run at once, on "
            "the same cluster."
        ),
    ],
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            help="inflight, tangram, fixed:K, equi, hesrpt or static; may be repeated.  "
            "[default: static, tangram, inflight]",
        ),
    ] = None,
    nodes: Annotated[
        str, typer.Option(help="The cluster: COUNTxCORES, CORES for one node, or some of these + .")
    ] = "15x256",
    gpus: Annotated[
        str, typer.Option(help="Nodes with GPUs: COUNTxGPUS as in 5x8, or several of these + .")
    ] = "",
    eviction: Annotated[
        EvictionName | None,
        typer.Option(
            help="Which instances of services make room for others; belady is told the future.",
            show_default="cost; under tangram on-demand",
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Trajectories in the step.", show_default="all")
    ] = None,
    estimates: Annotated[
        EstimatesName, typer.Option(help="What policies know of durations.")
    ] = "learned",
    seed: Annotated[int, typer.Option(help="Of a built-in workload.")] = 0,
    seeds: Annotated[
        str | None, typer.Option(help="Several seeds, as in 0-4 or 1,5,9; figures are means.")
    ] = None,
    static_cores: Annotated[
        int, typer.Option(min=1, help="Cores that a container owns under static.")
    ] = 3,
    node_memory: Annotated[str, typer.Option(help="Memory of a node.")] = "2.4TB",
    open_time: Annotated[str, typer.Option(help="How long an environment takes to open.")] = "0s",
    output: Annotated[
        Literal["table", "json"], typer.Option("--output", "-o", help="Print a table or JSON.")
    ] = "table",
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page with figures.")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every event and its commands (one policy)."),
    ] = None,
    write_trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the workload as a trace, and simulate nothing."),
    ] = None,
) -> None:
    """Run a step in virtual time under several policies, and compare them with the lower bounds."""
    policies = list(dict.fromkeys(policy or DEFAULT_POLICIES))
    for name in policies:
        policy_named(name)
    for name in workload:
        if workload.count(name) > 1:
            raise ConfigError(f"workload {name!r} is given twice; name each once")
    all_seeds = _seeds(seeds) if seeds is not None else (seed,)
    scenario = Scenario(
        workload="+".join(workload),
        seed=all_seeds[0],
        batch=batch,
        nodes=nodes,
        gpus=gpus,
        eviction=eviction,
        node_memory_mib=size_mib(node_memory, "node-memory"),
        static_cores=static_cores,
        open_s=0.0 if open_time in {"0", "0s"} else seconds(open_time, "open-time"),
        estimates=estimates,
    )
    if write_trace is not None:
        _write_trace(scenario, write_trace)
        return
    comparison = _compare(scenario, policies, all_seeds, journal)
    if report is not None:
        _write(report, [report_of([comparison])], option="report")
        Console(stderr=True).print(f"Report: {report}", soft_wrap=True, highlight=False)
    if output == "json":
        print(json.dumps(comparison.as_json(), indent=2))
    else:
        _print_table(comparison)
    _require_some(comparison)


def _compare(
    scenario: Scenario,
    policies: Sequence[str],
    seeds: Sequence[int],
    journal: Path | None,
) -> Comparison:
    with _progress(policies, runs=len(seeds)) as told:
        if journal is None:
            return compared([scenario], policies, seeds=seeds, progress=told)[0]
        if len(policies) * len(seeds) > 1:
            raise ConfigError(
                f"journal={str(journal)!r}: a journal holds one run; give one --policy and one seed"
            )
        if scenario.estimates == "oracle":
            raise ConfigError(
                f"journal={str(journal)!r}: a run that was told the true durations cannot be "
                f"replayed; leave out --estimates oracle"
            )
        eviction = eviction_of(scenario, policies[0])
        if eviction == "belady":
            raise ConfigError(
                f"journal={str(journal)!r}: a run that was told the future cannot be replayed; "
                f"leave out --eviction belady"
            )
        settings = {"eviction": eviction} if eviction != DEFAULT_EVICTION else {}
        writer = JournalWriter(journal, Header(policy=policies[0], settings=settings))
        try:
            return compared(
                [scenario], policies, seeds=seeds, progress=told, observers=[writer.happened]
            )[0]
        finally:
            writer.close()


@contextmanager
def _progress(policies: Sequence[str], *, runs: int) -> Iterator[Callable[[Case, float], None]]:
    """A bar for every policy, on standard error and only if that is a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        rows = {name: bars.add_task(name, total=float(runs)) for name in policies}
        done: dict[Case, float] = {}

        def told(case: Case, share: float) -> None:
            bars.advance(rows[case.policy], share - done.get(case, 0.0))
            done[case] = share

        yield told


def _print_table(comparison: Comparison) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_WITHOUT_TERMINAL)
    console.print(said_of(comparison), highlight=False)
    content = table_of(comparison)
    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = _fitting(content, width=console.width)
    for i in shown:
        table.add_column(
            content.heads[i],
            justify="right" if i else "left",
            vertical="bottom",
            width=_width(content, i),
        )
    for row in content.rows:
        table.add_row(*(row[i] for i in shown), style="dim" if row[0] == BOUND else None)
    console.print(table)


def _fitting(content: TableOf, *, width: int) -> list[int]:
    """The columns that a line of this width has room for, the least telling left out first."""
    shown = list(range(len(content.heads)))
    for spared in SPARED_FIRST:
        if sum(_width(content, i) + 2 for i in shown) - 2 <= width:
            break
        shown = [i for i in shown if content.heads[i] != spared]
    return shown


def _width(content: TableOf, column: int) -> int:
    words = content.heads[column].split()
    return max(map(len, [*words, *(row[column] for row in content.rows)]))


def _require_some(comparison: Comparison) -> None:
    """Raise `ConfigError` if the cluster had no room for any trajectory under any policy."""
    if not any(comparison.ran(policy) for policy in comparison.measures):
        scenario = comparison.scenario
        raise ConfigError(
            f"nodes={scenario.nodes!r}: no trajectory of {scenario.workload} fits on a node; give "
            f"larger ones, more --node-memory or fewer --static-cores"
        )


def _write_trace(scenario: Scenario, path: Path) -> None:
    workload, _ = scenario.build()
    _write(path, write_trace(workload), option="write-trace")


def _write(path: Path, parts: Iterable[str], *, option: str) -> None:
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(parts)
    except OSError as error:
        raise ConfigError(f"{option}={str(path)!r}: {error.strerror}") from None


def _seeds(text: str) -> tuple[int, ...]:
    """Seeds from `0-4`, `1,5,9`, or both mixed."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConfigError(f"seeds={text!r}: give a range as in 0-4, or a list as in 1,5,9")
        found += range(int(first), int(last if dash else first) + 1)
    if not found:
        raise ConfigError(f"seeds={text!r}: the range is empty; give the smaller seed first")
    return tuple(dict.fromkeys(found))
