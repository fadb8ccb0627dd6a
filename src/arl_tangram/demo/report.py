"""The demo's results as a table, and as a page to be opened in a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..sim.figures import act_curves
from ..sim.measure import quantile
from ..sim.page import Chapter, Panel, TableOf, page
from .figures import PUBLISHED_SHARE, Figures, figures_of, ratio, share_in_actions
from .play import STATIC, Played
from .setting import STATIC_UNITS, Setting
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
    _Row("unit-seconds reserved", "units_reserved_s", ""),
    _Row("unit-seconds used", "units_used_s", ""),
)


def table_of(steps: Sequence[Played], setting: Setting) -> TableOf:
    """A row for each figure and a column for each policy, with the ratio to `static` beside it."""
    figures = {played.policy: figures_of(played, setting) for played in steps}
    static = figures.get(STATIC)
    return TableOf(
        heads=["", *figures],
        rows=[
            [row.name, *(_cell(row, each, static) for each in figures.values())] for row in _ROWS
        ],
    )


def share_said(steps: Sequence[Played]) -> str | None:
    """How much of a trajectory's life its actions take; None unless `static` was played."""
    for played in steps:
        if played.policy == STATIC:
            low, high = PUBLISHED_SHARE
            return (
                f"On its own units and without queueing, a trajectory spends "
                f"{share_in_actions(played):.2f} of its life in actions (published measurements: "
                f"{low:.2f} to {high:.2f})."
            )
    return None


def caution_said(setting: Setting) -> str | None:
    """What units that are parts of a core do to the comparison; None where they are whole."""
    if setting.unit_cores >= 1:
        return None
    return (
        f"A step with one thread can use one core, {setting.core_units} units here: under static it "
        f"has the {STATIC_UNITS} of its environment, otherwise 1 to {setting.core_units} as the "
        f"load allows."
    )


def report(
    steps: Sequence[Played], setting: Setting, *, machine: Mapping[str, str], seed: int
) -> str:
    """A page that compares the policies, in one file that needs no network."""
    until_s = max(played.step_s for played in steps)
    acts = {played.policy: sorted(act.act_s for act in played.acts) for played in steps}
    trajectories, actions = len(steps[0].rewards), len(steps[0].acts)
    return page(
        "The same rollouts under several policies",
        about=(
            f"{trajectories} recorded coding rollouts with {actions} actions, seed {seed}, run for "
            f"real on {machine['node']} ({setting}; enforcement: {machine['enforcement']}, "
            f"isolation: {machine['isolation']}). The action completion time (ACT) is what an "
            f"agent waits for an action: queue, overhead and run. Under static every trajectory "
            f"owns a container of {STATIC_UNITS} units from its first moment to its last."
        ),
        chapters=[
            Chapter(
                title="Figures",
                about=" ".join(filter(None, (share_said(steps), caution_said(setting)))),
                panels=[
                    Panel(
                        title="Side by side",
                        about="Behind each figure: how many times better than static.",
                        content=table_of(steps, setting),
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
                title="Units over time",
                about=(
                    "Each block is an action, as wide as it took and as high as the units it "
                    "held; point at one to see which. All have the same scale."
                ),
                panels=[
                    Panel(
                        title=played.policy,
                        about=_ABOUT.get(played.policy, ""),
                        content=timeline(played.spans, units=setting.units, until_s=until_s),
                    )
                    for played in steps
                ],
            ),
        ],
    )


_ABOUT = {
    STATIC: "Grey: a container that waits for its model, and lets nobody else in.",
    "tangram": "The paper's algorithm: an amount is chosen when an action starts, and stays.",
    "inflight": "Running test suites grow when units are idle, and shrink when others arrive.",
}


def _cell(row: _Row, figures: Figures, static: Figures | None) -> str:
    value = float(getattr(figures, row.field))
    text = (f"{value:.0f}" if value >= 100 else f"{value:.3g}") + row.unit
    if static is None or static is figures:
        return text
    times = ratio(float(getattr(static, row.field)), value)
    return text + ("" if times is None else f"  ({_times(times)} x)")


def _times(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"
