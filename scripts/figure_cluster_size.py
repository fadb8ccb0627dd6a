"""Draws mean ACT and step time against the size of the cluster, for every policy, as SVG.

    python scripts/figure_cluster_size.py             simulate (long), keep the figures, draw
    python scripts/figure_cluster_size.py --redraw    draw again from the figures that were kept

The workload is `coding`; the figures lie beside the drawing in docs/explanation/.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from arl_tangram.sim.case import Case, Scenario
from arl_tangram.sim.cluster import cluster, cores_of
from arl_tangram.sim.comparison import compared
from arl_tangram.sim.figures import BOUND, FAINT, INK, colours_of

PLACE = Path(__file__).resolve().parents[1] / "docs/explanation/coding-cluster-size"
SIZES = tuple(f"15x{cores}" for cores in (14, 20, 27, 40, 73, 128, 256))
POLICIES = ("static", "fixed:16", "fixed:4", "tangram", "inflight", "equi", "hesrpt")
DASHES = {"equi": "6 3", "hesrpt": "2 3"}


@dataclass(frozen=True)
class Panel:
    """One diagram with logarithmic axes, `left` to `left + width` on the drawing."""

    left: float
    title: str
    figure: str
    bound: str
    width: float = 380.0
    top: float = 92.0
    height: float = 300.0

    def draw(self, rows: Sequence[dict[str, Any]]) -> Iterable[str]:
        """The parts of the diagram, as SVG elements."""
        cores = [row["cores"] for row in rows]
        values = [each[self.figure] for row in rows for each in row["policies"].values()]
        values += [row["bounds"][self.bound] for row in rows]
        low, high = math.log10(min(values)) - 0.03, math.log10(max(values)) + 0.03
        first, last = math.log10(min(cores)) - 0.03, math.log10(max(cores)) + 0.03

        def x_of(value: float) -> float:
            return self.left + self.width * (math.log10(value) - first) / (last - first)

        def y_of(value: float) -> float:
            return self.top + self.height * (1 - (math.log10(value) - low) / (high - low))

        bottom, right = self.top + self.height, self.left + self.width
        yield text(self.left, self.top - 14, self.title, weight=600)
        for tick in ticks(10**low, 10**high):
            yield line((self.left, y_of(tick)), (right, y_of(tick)), colour=FAINT)
            yield text(self.left - 8, y_of(tick) + 4, f"{tick:,g}", anchor="end")
        for count in cores:
            yield line((x_of(count), self.top), (x_of(count), bottom), colour=FAINT)
            yield text(x_of(count), bottom + 18, f"{count:,}", anchor="middle", size=11)
        yield line((self.left, bottom), (right, bottom), colour=BOUND)
        middle = self.left + self.width / 2
        yield text(middle, bottom + 40, "cores in the cluster (15 nodes)", anchor="middle")
        for policy, colour in colours_of(POLICIES).items():
            points = [
                (x_of(row["cores"]), y_of(row["policies"][policy][self.figure])) for row in rows
            ]
            width = 3.2 if policy == "inflight" else 1.8
            yield path(points, colour=colour, dash=DASHES.get(policy), width=width)
            for x, y in points:
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width:.1f}" fill="{colour}"/>'
        bounds = [(x_of(row["cores"]), y_of(row["bounds"][self.bound])) for row in rows]
        yield path(bounds, colour=INK, dash="7 4", width=1.5)


def drawing(rows: Sequence[dict[str, Any]], *, about: str) -> str:
    """The whole SVG."""
    panels = (
        Panel(60, "mean action completion time (s)", "act_mean_s", "act_mean_s"),
        Panel(520, "step time (s)", "step_s", "step_s"),
    )
    parts = [
        (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 930 470" '
            'font-family="system-ui, sans-serif" role="img">'
        ),
        f"<title>{escape(about)}</title>",
        '<rect width="930" height="470" fill="white"/>',
    ]
    left = 60.0
    for name, colour in [*colours_of(POLICIES).items(), ("lower bound", INK)]:
        dash = "7 4" if name == "lower bound" else DASHES.get(name)
        parts.append(path([(left, 34), (left + 26, 34)], colour=colour, dash=dash, width=3))
        parts.append(text(left + 32, 38, name))
        left += 52 + 7.2 * len(name)
    for panel in panels:
        parts += panel.draw(rows)
    parts.append(text(60, 462, about, size=11))
    return "\n".join([*parts, "</svg>\n"])


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between the two, closer together if they span less than a power of ten."""
    digits = (1, 2, 5) if high / low > 10 else (1, 1.5, 2, 3, 5, 7)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    all_ticks = [digit * 10.0**power for power in powers for digit in digits]
    return [tick for tick in all_ticks if low <= tick <= high]


def text(
    x: float, y: float, words: str, *, anchor: str = "start", size: int = 13, weight: int = 400
) -> str:
    """Words at a point."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" fill="{INK}">{escape(words)}</text>'
    )


def line(start: tuple[float, float], end: tuple[float, float], *, colour: str) -> str:
    """A thin straight line."""
    return path([start, end], colour=colour, width=1)


def path(
    points: Sequence[tuple[float, float]], *, colour: str, width: float, dash: str | None = None
) -> str:
    """A line through the points."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed} '
        f'stroke-linejoin="round"/>'
    )


def simulated(seeds: int) -> dict[str, Any]:
    """The figures of every policy on every size, as means over the seeds."""

    def told(case: Case, share: float) -> None:
        if share == 1.0:
            print(case.scenario.nodes, case.policy, case.scenario.seed, file=sys.stderr)

    scenarios = [Scenario(workload="coding", nodes=nodes) for nodes in SIZES]
    found = compared(scenarios, POLICIES, seeds=range(seeds), progress=told)
    rows = [
        {
            "nodes": comparison.scenario.nodes,
            "cores": cores_of(cluster(comparison.scenario.nodes)),
            "bounds": {
                "step_s": comparison.step_bound_s,
                "act_mean_s": comparison.act_bound_s,
            },
            "policies": {
                policy: {name: comparison.mean(policy, name) for name in ("act_mean_s", "step_s")}
                for policy in POLICIES
            },
        }
        for comparison in found
    ]
    return {"seeds": seeds, "trajectories": found[0].trajectories, "rows": rows}


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate unless told to redraw, then write the drawing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--redraw", action="store_true", help="use the figures that were kept")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 on")
    options = parser.parse_args(arguments)
    kept = PLACE.with_suffix(".json")
    if not options.redraw:
        kept.write_text(json.dumps(simulated(options.seeds), indent=1) + "\n")
    figures = json.loads(kept.read_text())
    seeds = "seed 0" if figures["seeds"] == 1 else f"means over {figures['seeds']} seeds"
    about = (
        f"coding, {figures['trajectories']:,} trajectories, learned estimates, containers of 3 "
        f"cores under static; {seeds}; both axes logarithmic"
    )
    PLACE.with_suffix(".svg").write_text(drawing(figures["rows"], about=about))


if __name__ == "__main__":
    main()
