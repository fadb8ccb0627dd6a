"""The standings as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .contest import Standing
from .machine import Watch
from .measuring import Figures
from .rows import OURS, Goal

NAMES = {
    "p50_s": "p50",
    "p99_s": "p99",
    "rate_per_s": "per second",
    "resizing_share": "events that resize",
    "step_over_bound": "step / bound",
    "wall_s": "time to simulate",
    "added_p50_s": "added",
    "direct_p50_s": "direct p50",
    "gib_per_s": "bandwidth",
}
WIDTH = 30
COLUMN = 22


def as_text(standings: Sequence[Standing], watch: Watch) -> Iterator[str]:
    """Lines for people."""
    machine = watch.as_json()
    yield f"{machine['cores']} cores, {machine['processor']}, Python {machine['python']}"
    yield (
        f"load average {watch.load_at_start:.1f} at the start; others used {watch.busy_share:.0%} "
        f"of the processors between measurements"
    )
    for standing in standings:
        yield ""
        yield from _row(standing)
    yield ""
    verdicts = [goal.met(s.medians) for s in standings for goal in s.row.goals]
    yield (
        f"{verdicts.count(True)} goals met, {verdicts.count(False)} missed, "
        f"{verdicts.count(None)} not measured"
    )
    if watch.warning:
        yield f"WARNING: {watch.warning}"


def _row(standing: Standing) -> Iterator[str]:
    row, medians, ratios = standing.row, standing.medians, standing.ratios()
    yield row.title
    heads = "".join(f"{NAMES[figure]:>{COLUMN}}" for figure in row.figures)
    yield f"  {'':{WIDTH}}{heads}{'ours / this' if ratios else '':>{COLUMN}}".rstrip()
    for entrant in row.entrants:
        if entrant.name in standing.absent:
            yield f"  {entrant.name:{WIDTH}}  absent: {standing.absent[entrant.name]}"
            continue
        if entrant.name not in medians:
            yield f"  {entrant.name:{WIDTH}}  not measured"
            continue
        rounds = standing.rounds[entrant.name]
        cells = "".join(
            f"{shown(figure, medians[entrant.name][figure]) + _range(figure, rounds):>{COLUMN}}"
            for figure in row.figures
        )
        ratio = f"{ratios[entrant.name]:.2f} x" if entrant.name in ratios else ""
        yield f"  {entrant.name:{WIDTH}}{cells}{ratio:>{COLUMN}}".rstrip()
    if row.about:
        yield f"  {row.about}"
    for goal in row.goals:
        yield f"  {_verdict(goal, medians)}"
    if standing.cut_short:
        yield "  The time was over before all rounds were run; --limit gives more."


def _range(figure: str, rounds: Sequence[Figures]) -> str:
    low, high = min(r[figure] for r in rounds), max(r[figure] for r in rounds)
    return f" ±{(high - low) / (high + low):.0%}" if low < high else "    "


def _verdict(goal: Goal, medians: Mapping[str, Figures]) -> str:
    value = goal.value(medians)
    if value is None:
        return f"[     ?] {goal.text}: not measured"
    reached = f"{value:.2f} x" if goal.beside else shown(goal.figure, value)
    return f"[{'   met' if goal.met(medians) else 'MISSED'}] {goal.text}: {reached}"


def shown(figure: str, value: float) -> str:
    """A figure with its unit, three digits of it."""
    if figure == "rate_per_s":
        return f"{value:,.0f}/s"
    if figure == "gib_per_s":
        return f"{value:.3g} GiB/s"
    if figure.endswith("_share"):
        return f"{value:.0%}"
    if figure.endswith("_s"):
        for unit, scale in (("s", 1.0), ("ms", 1e-3)):
            if value >= scale:
                return f"{value / scale:.3g} {unit}"
        return f"{value / 1e-6:.3g} µs"
    return f"{value:.3f}"


def as_json(
    standings: Sequence[Standing], watch: Watch, *, about: Mapping[str, object], seconds: float
) -> dict[str, object]:
    """The same for programs, with the figures of every round."""
    return {
        "machine": watch.as_json(),
        "seconds_per_measurement": seconds,
        "contestants": dict(about),
        "rows": {standing.row.name: _row_as_json(standing) for standing in standings},
    }


def _row_as_json(standing: Standing) -> dict[str, object]:
    row, medians, ratios = standing.row, standing.medians, standing.ratios()
    entrants: dict[str, object] = {}
    for entrant in row.entrants:
        if entrant.name in standing.absent:
            entrants[entrant.name] = {"absent": standing.absent[entrant.name]}
            continue
        if entrant.name not in medians:
            continue
        entrants[entrant.name] = {
            "median": medians[entrant.name],
            "rounds": standing.rounds[entrant.name],
            "ours_over_this": 1.0 if entrant.name == OURS else ratios.get(entrant.name),
        }
    return {
        "title": row.title,
        "figure": row.figures[0],
        "entrants": entrants,
        "goals": [
            {"goal": goal.text, "reached": goal.value(medians), "met": goal.met(medians)}
            for goal in row.goals
        ],
        "cut_short": standing.cut_short,
    }
