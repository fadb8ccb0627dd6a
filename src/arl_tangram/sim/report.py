"""Comparisons of policies as a page and as the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

from .case import STATIC
from .cluster import cluster, cores_of, gpu_nodes, gpus_of
from .comparison import FIGURES, Comparison
from .figures import act_curves, step_against_bound, units_over_time
from .page import Chapter, Panel, TableOf, page

BOUND = "bound"
NOTHING = "-"
"""Stands where there is no figure."""


def table_of(comparison: Comparison) -> TableOf:
    """One row for each policy and one for the bounds, as text."""
    with_static = STATIC in comparison.measures
    with_gpus = bool(comparison.scenario.gpus)
    with_cores = not with_gpus or any(
        comparison.mean(p, "units_used_s") for p in comparison.measures
    )
    heads = ["policy", "ACT mean s", "p50", "p99", "queue"]
    heads += ["restoring"] if with_gpus else []
    heads += ["run", "step s", "over bound"]
    heads += ["core hours held", "at work", "cores at work"] if with_cores else []
    heads += ["GPU hours held", "GPUs at work", "restores"] if with_gpus else []
    heads += ["ACT vs static", "step vs static"] if with_static else []
    rows = []
    for policy in comparison.measures:
        mean = {name: comparison.mean(policy, name) for name in FIGURES}
        waited = [mean["queue_mean_s"], mean["overhead_mean_s"]]
        row = [policy, *(_figure(mean[name]) for name in ("act_mean_s", "act_p50_s", "act_p99_s"))]
        row += map(_figure, waited if with_gpus else [sum(waited)])
        row += [_figure(mean["run_mean_s"]), _figure(mean["step_s"])]
        row.append(_ratio(comparison.step_over_bound(policy)))
        if with_cores:
            row += [_figure(mean[name] / 3600) for name in ("units_reserved_s", "units_used_s")]
            row.append(f"{mean['utilization']:.1%}")
        if with_gpus:
            row.append(_figure(mean["gpus_held_s"] / 3600))
            row += [f"{mean['gpu_utilization']:.1%}", f"{mean['restores']:,.0f}"]
        if not comparison.ran(policy):
            row[1:] = [NOTHING] * (len(row) - 1)
        if with_static:
            row.append(_ratio(comparison.gain(policy, "act_mean_s"), times=True))
            row.append(_ratio(comparison.gain(policy, "step_s"), times=True))
        rows.append(row)
    last = [""] * len(heads)
    last[0], last[1] = BOUND, _figure(comparison.act_bound_s)
    last[heads.index("step s")] = _figure(comparison.step_bound_s)
    last[heads.index("over bound")] = "1.000"
    rows.append(last)
    return TableOf(heads=heads, rows=rows)


def said_of(comparison: Comparison) -> str:
    """What was simulated, in a sentence or two."""
    scenario = comparison.scenario
    nodes = cluster(scenario.nodes)
    seeds = ", ".join(map(str, comparison.seeds))
    actions = comparison.mean(next(iter(comparison.measures)), "actions")
    said = (
        f"One step of {scenario.workload}: {comparison.trajectories:,} trajectories with "
        f"{actions:,.0f} actions on {len(nodes)} "
        f"{'node' if len(nodes) == 1 else 'nodes'} ({scenario.nodes}, {cores_of(nodes):,} cores)"
        f"{_gpus(scenario.gpus)}, "
        f"{'seed' if len(comparison.seeds) == 1 else 'seeds'} {seeds}; durations {_KNOWN[scenario.estimates]}."
    )
    if STATIC in comparison.measures and scenario.gpus:
        said += (
            " Under static instances of services stay for ever, as wide as there are GPUs for, "
            "their widths chosen with hindsight."
        )
    owned = comparison.measures.get(STATIC)
    if owned and any(measures.units_reserved_s for measures in owned):
        said += (
            f" Under static every trajectory owns a container of {scenario.static_cores} cores "
            f"from its first moment to its last."
        )
    if len(comparison.seeds) > 1:
        said += " Figures are means over the seeds; units over time are of the first."
    aborted = {p: n for p in comparison.measures if (n := comparison.aborted(p))}
    for policy, count in aborted.items():
        said += f" Under {policy}, {count:,} trajectories fit on no node and did not run."
    return said


def _gpus(spec: str) -> str:
    return f" and {gpus_of(gpu_nodes(spec))} GPUs ({spec})" if spec else ""


def report(comparisons: Sequence[Comparison]) -> str:
    """A page that compares the policies, to be opened in a browser without a network."""
    names = ", ".join(dict.fromkeys(c.scenario.workload for c in comparisons))
    return page(
        f"Simulated: {names}",
        about=(
            "The scheduler that runs in production, driven through virtual time. The action "
            "completion time (ACT) of an action is what it waits plus what it runs; a step ends "
            "with its last trajectory; the bounds are what no policy can beat on this workload "
            "and cluster."
        ),
        chapters=[_chapter(comparison) for comparison in comparisons],
    )


def _chapter(comparison: Comparison) -> Chapter:
    policies = [policy for policy in comparison.measures if comparison.ran(policy)]
    first = {policy: comparison.measures[policy][0] for policy in policies}
    capacity = cores_of(cluster(comparison.scenario.nodes))
    return Chapter(
        title=f"{comparison.scenario.workload} on {comparison.scenario.nodes}",
        about=said_of(comparison),
        panels=[
            Panel(
                title="Figures",
                about="Times in seconds; a ratio above 1 means better than static.",
                content=table_of(comparison),
            ),
            Panel(
                title="How long actions take to complete",
                about="Further to the left is better. The tail holds what trajectories wait for.",
                content=act_curves(
                    {policy: comparison.act_quantiles_s(policy) for policy in policies},
                    means={policy: comparison.mean(policy, "act_mean_s") for policy in policies},
                ),
            ),
            Panel(
                title="Units over time",
                about=(
                    "Held: granted to running actions or owned by containers. At work: what the "
                    "actions made use of, given their speed-up curves. Click a name to hide it."
                ),
                content=units_over_time(
                    {policy: first[policy].held for policy in policies},
                    used={policy: first[policy].used for policy in policies},
                    capacity=capacity,
                ),
            ),
            Panel(
                title="Step time against its lower bound",
                about=(
                    "The bound is the larger of the longest trajectory at its best speed and all "
                    "work over all cores."
                ),
                content=step_against_bound(
                    {policy: comparison.mean(policy, "step_s") for policy in policies},
                    bound_s=comparison.step_bound_s,
                ),
            ),
        ],
    )


_KNOWN = {"learned": "learned from what finished", "oracle": "told to the policies (oracle)"}


def _figure(value: float) -> str:
    return f"{value:,.1f}" if value >= 100 else f"{value:.3f}"


def _ratio(value: float | None, *, times: bool = False) -> str:
    if value is None:
        return ""
    return f"{value:.2f} x" if times else f"{value:.3f}"
