"""Figures of runs under several policies, as Plotly's plain data: `{"data": ..., "layout": ...}`.

Nothing here knows where the numbers come from, so simulated and real runs are drawn alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Figure = dict[str, Any]
Curve = Sequence[tuple[float, float]]

INK = "#1f2933"
FAINT = "#e4e7eb"
BOUND = "#9aa5b1"
COLOURS: Mapping[str, str] = {  # told apart by people with any colour vision
    "static": "#d55e00",
    "tangram": "#0072b2",
    "inflight": "#009e73",
}
OTHER_COLOURS = ("#cc79a7", "#e69f00", "#56b4e9", "#7b61a8", "#8c6d31", "#52606d")
NARROWEST_S = 0.001


def colours_of(policies: Sequence[str]) -> dict[str, str]:
    """A colour for every policy, the same in every figure."""
    others = [policy for policy in policies if policy not in COLOURS]
    extra = {policy: OTHER_COLOURS[i % len(OTHER_COLOURS)] for i, policy in enumerate(others)}
    return {policy: COLOURS.get(policy) or extra[policy] for policy in policies}


def act_curves(quantiles: Mapping[str, Curve], *, means: Mapping[str, float]) -> Figure:
    """The share of actions that are complete within so many seconds, by policy.

    Args:
        quantiles: for each policy, (share of the actions, ACT in seconds), ascending.
        means: for each policy the mean ACT, told in the legend.
    """
    colours = colours_of(list(quantiles))
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"{policy} (mean {_short(means[policy])} s)",
            "x": [max(seconds, NARROWEST_S) for _, seconds in curve],
            "y": [share for share, _ in curve],
            "line": {"color": colours[policy], "width": 2.5},
            "hovertemplate": "%{y:.1%} of actions within %{x:.3g} s<extra>" + policy + "</extra>",
        }
        for policy, curve in quantiles.items()
    ]
    layout = _layout(x="action completion time (s, logarithmic)", y="share of actions complete")
    layout["xaxis"] |= {"type": "log", "dtick": 1, "exponentformat": "none"}
    layout["yaxis"] |= {"tickformat": ".0%", "range": [0, 1.01]}
    return {"data": data, "layout": layout}


def units_over_time(
    held: Mapping[str, Curve], *, used: Mapping[str, Curve], capacity: int, unit: str = "cores"
) -> Figure:
    """Units held over time by policy, and, drawn thinner, how many of them were at work.

    Args:
        held: for each policy, (second, units from then on), ascending.
        used: the same, of units that did work.
        capacity: how many units there are.
        unit: what a unit is, in the plural.
    """
    colours = colours_of(list(held))
    data: list[dict[str, Any]] = []
    for policy, curve in held.items():
        data.append(_steps(f"{policy}: held", policy, curve, colours[policy], width=2.5))
        data.append(_steps(f"{policy}: at work", policy, used[policy], colours[policy], width=1.0))
    layout = _layout(x="time in the step (s)", y=unit)
    layout["yaxis"] |= {"rangemode": "tozero"}
    layout["shapes"] = [_level(capacity)]
    layout["annotations"] = [_note(f"all {capacity:,} {unit}", y=capacity)]
    return {"data": data, "layout": layout}


def step_against_bound(steps_s: Mapping[str, float], *, bound_s: float) -> Figure:
    """The step time of every policy as a bar, and the time that none can beat as a line."""
    colours = colours_of(list(steps_s))
    data = [
        {
            "type": "bar",
            "x": list(steps_s),
            "y": list(steps_s.values()),
            "marker": {"color": [colours[policy] for policy in steps_s]},
            "text": [f"{_short(s)} s, {s / bound_s:.2f} x bound" for s in steps_s.values()]
            if bound_s
            else [f"{_short(s)} s" for s in steps_s.values()],
            "textposition": "inside",
            "insidetextanchor": "start",
            "textfont": {"color": "white"},
            "hovertemplate": "%{x}: %{y:.4g} s<extra></extra>",
        }
    ]
    layout = _layout(x="policy", y="step time (s)")
    layout["showlegend"] = False
    layout["xaxis"] |= {"type": "category"}
    layout["yaxis"] |= {"rangemode": "tozero"}
    layout["shapes"] = [_level(bound_s)]
    note = _note(f"dashed: no policy can be faster than {_short(bound_s)} s", y=1.01)
    layout["annotations"] = [note | {"yref": "paper"}]
    return {"data": data, "layout": layout}


def _steps(name: str, policy: str, curve: Curve, colour: str, *, width: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": policy,
        "x": [at for at, _ in curve],
        "y": [units for _, units in curve],
        "line": {"color": colour, "width": width, "shape": "hv"},
        "hovertemplate": "%{y:.4g} at %{x:.4g} s<extra>" + name + "</extra>",
    }


def _layout(*, x: str, y: str) -> dict[str, Any]:
    axis = {"gridcolor": FAINT, "linecolor": BOUND, "zeroline": False, "automargin": True}
    return {
        "font": {"family": "system-ui, sans-serif", "size": 14, "color": INK},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "margin": {"l": 70, "r": 30, "t": 30, "b": 60},
        "height": 420,
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "xaxis": {"title": {"text": x}, **axis},
        "yaxis": {"title": {"text": y}, **axis},
    }


def _level(y: float) -> dict[str, Any]:
    line = {"color": INK, "width": 1.5, "dash": "dash"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def _note(text: str, *, y: float) -> dict[str, Any]:
    return {
        "xref": "paper",
        "x": 1,
        "xanchor": "right",
        "y": y,
        "yanchor": "bottom",
        "text": text,
        "showarrow": False,
        "bgcolor": "rgba(255,255,255,0.8)",
    }


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
