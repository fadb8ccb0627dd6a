"""The demo's results as a table, and as a page to be opened in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..sim.figures import act_curves
from ..sim.measure import quantile
from ..sim.page import Chapter, Panel, TableOf, page
from .figures import Figures, figures_of, ratio
from .played import STATIC, Played
from .scene import Scene
from .timeline import timeline


class _Row(NamedTuple):
    name: str
    field: str
    unit: str = " s"


_ROWS = (
    _Row("mean ACT", "act_mean_s"),
    _Row("  queue", "queue_mean_s"),
    _Row("  overhead", "overhead_mean_s"),
    _Row("  run", "run_mean_s"),
    _Row("ACT p50", "act_p50_s"),
    _Row("ACT p99", "act_p99_s"),
    _Row("step time", "step_s"),
    _Row("{unit}-seconds reserved", "units_reserved_s", ""),
    _Row("{unit}-seconds used", "units_used_s", ""),
)


def table_of(steps: Sequence[Played], scene: Scene) -> TableOf:
    """A row for each figure and a column for each policy, with the ratio to `static` beside it."""
    figures = {played.policy: figures_of(played) for played in steps}
    static = figures.get(STATIC)
    rows = [[f"{scene.unit}s", *(str(played.units) for played in steps)]]
    rows += [
        [row.name.format(unit=scene.unit), *(_cell(row, each, static) for each in figures.values())]
        for row in _ROWS
    ]
    names = dict.fromkeys(name for played in steps for name in played.counts)
    rows += [[name, *(str(played.counts.get(name, "")) for played in steps)] for name in names]
    return TableOf(heads=["", *figures], rows=rows)


def report(steps: Sequence[Played], scene: Scene) -> str:
    """A page that compares the policies, in one file that needs no network."""
    until_s = max(played.step_s for played in steps)
    acts = {played.policy: sorted(act.act_s for act in played.acts) for played in steps}
    return page(
        scene.title,
        about=scene.about,
        chapters=[
            Chapter(
                title="Figures",
                about=" ".join(scene.remarks(steps)),
                panels=[
                    Panel(
                        title="Side by side",
                        about="Behind each figure: how many times better than static.",
                        content=table_of(steps, scene),
                    ),
                    Panel(
                        title="How long actions take to complete",
                        about="Further to the left is better.",
                        content=act_curves(
                            {
                                policy: [(i / 200, quantile(some, i / 200)) for i in range(201)]
                                for policy, some in acts.items()
                            },
                            means={policy: sum(some) / len(some) for policy, some in acts.items()},
                        ),
                    ),
                ],
            ),
            Chapter(
                title=f"{scene.unit.capitalize()}s over time",
                about=(
                    f"Each block is an action, as wide as it took and as high as the {scene.unit}s "
                    f"it held; point at one to see which. All have the same scale."
                ),
                panels=[
                    Panel(
                        title=played.policy,
                        about=scene.notes.get(played.policy, ""),
                        content=timeline(
                            played.spans,
                            units=played.units,
                            until_s=until_s,
                            looks=scene.looks,
                            unit=scene.unit,
                        ),
                    )
                    for played in steps
                ],
            ),
        ],
    )


def _cell(row: _Row, figures: Figures, static: Figures | None) -> str:
    value = float(getattr(figures, row.field))
    text = (f"{value:.0f}" if value >= 100 else f"{value:.3g}") + row.unit
    if static is None or static is figures:
        return text
    times = ratio(float(getattr(static, row.field)), value)
    return text + ("" if times is None else f"  ({_times(times)} x)")


def _times(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"
