"""`arl-tangram doctor`: what this machine offers, what is weaker than the best, and the mend."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from ..core.model import MILLI
from ..executors import probe
from ..runtime.machine import Machine, this_machine


def doctor(
    *,
    require: Annotated[
        list[str] | None,
        typer.Option(help="Fail unless this is guaranteed, or 'all'; may be repeated."),
    ] = None,
    output: Annotated[
        Literal["text", "json"], typer.Option("--output", "-o", help="Text or JSON.")
    ] = "text",
) -> None:
    """Show the machine, how grants are enforced on it and environments isolated, and what to mend."""
    found = probe.choose()
    try:
        found.require(require)
        facts = document(this_machine(), found.report, bwrap=found.bwrap)
    finally:
        found.groups.close()
    if output == "json":
        typer.echo(json.dumps(facts, indent=2))
    else:
        _print(facts)


def document(machine: Machine, report: probe.Report, *, bwrap: str) -> dict[str, Any]:
    """All of it as JSON values."""
    return {
        "version": version("arl-tangram"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "user": os.getuid(),
        "machine": {
            "node": machine.name,
            "cores": machine.usable_milli / MILLI,
            "cpus": list(machine.cpus),
            "quota_cores": None if machine.quota_milli is None else machine.quota_milli / MILLI,
            "domains": [list(domain) for domain in machine.topology.domains],
            "siblings": [list(group) for group in machine.topology.siblings],
            "memory_mib": machine.memory_mib,
        },
        "enforcement": report.enforcement,
        "isolation": report.isolation,
        "bwrap": bwrap or None,
        "guarantees": {name: name in report.guarantees for name in probe.GUARANTEES},
        "weaker": list(report.weaker),
        "mend": list(report.mend),
    }


def _print(facts: dict[str, Any]) -> None:
    console = Console(soft_wrap=True)
    machine = facts["machine"]
    domains, siblings = len(machine["domains"]), len(machine["siblings"])
    threads = f", {siblings} of them two hardware threads of one core" if siblings else ""
    quota = f", held to {machine['quota_cores']:g} by a quota" if machine["quota_cores"] else ""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("machine", f"{machine['node']}, Linux {facts['kernel']}")
    table.add_row("arl-tangram", f"{facts['version']} on Python {facts['python']}")
    table.add_row("cores", f"{len(machine['cpus'])} in {domains} NUMA domain(s){threads}{quota}")
    table.add_row("memory", f"{machine['memory_mib']:,} MiB")
    table.add_row("enforcement", facts["enforcement"])
    table.add_row("isolation", facts["isolation"])
    console.print(table)
    console.print()
    held = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, holds in facts["guarantees"].items():
        mark = "[green]yes[/]" if holds else "[red]no[/]"
        held.add_row(mark, name, probe.GUARANTEES[name])
    console.print(held)
    for title in ("weaker", "mend"):
        if facts[title]:
            console.print(f"\n[bold]{title}[/]")
            for sentence in facts[title]:
                console.print(f"  {sentence}", markup=False)
    if not facts["weaker"]:
        console.print("\nNothing that can be held is weaker here than it can be.")
