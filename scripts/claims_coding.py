"""Measures what is claimed of the policies on the workload `coding`, in the simulator.

    python scripts/claims_coding.py [--seeds 5] [--json FILE]

prints a line for every claim: the measured ratio (of means over the seeds), the goal, and whether it
was reached. It takes some minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from arl_tangram.sim.case import Case, Scenario
from arl_tangram.sim.comparison import Comparison, compared

FULL, SAVING, TIGHT = "15x256", "15x73", "15x27"
POLICIES = ("static", "tangram", "inflight", "fixed:4", "fixed:16")
BATCHES = (256, 512, 1024, 1280, 1536)
ACT, STEP = "act_mean_s", "step_s"


@dataclass(frozen=True)
class Claim:
    """Something that is measured: a ratio, above 1 where `inflight` is better."""

    text: str
    measured: float
    goal: float
    at_most: bool = False

    @property
    def reached(self) -> bool:
        """Equal figures pass a goal of 1, whatever the last bits say."""
        slack = 1e-9
        if self.at_most:
            return self.measured <= self.goal + slack
        return self.measured >= self.goal - slack

    def __str__(self) -> str:
        verdict = "PASS" if self.reached else "FAIL"
        relation = "<=" if self.at_most else ">="
        return f"{verdict}  {self.measured:7.3f} {relation} {self.goal:<5g} {self.text}"


def claims_of(by_nodes: dict[str, Comparison]) -> list[Claim]:
    """The claims about clusters."""

    def ratio(figure: str, other: str, nodes: str, *, other_nodes: str | None = None) -> float:
        theirs = by_nodes[other_nodes or nodes].mean(other, figure)
        return theirs / by_nodes[nodes].mean("inflight", figure)

    tight = by_nodes[TIGHT]
    over_bound = tight.mean("inflight", STEP) / tight.step_bound_s
    return [
        Claim(f"{FULL}: mean ACT, static over inflight", ratio(ACT, "static", FULL), 1.0),
        Claim(f"{FULL}: step, static over inflight", ratio(STEP, "static", FULL), 1.0),
        Claim(
            f"mean ACT, static on {FULL} over inflight on {SAVING}",
            ratio(ACT, "static", SAVING, other_nodes=FULL),
            1.0,
        ),
        Claim(
            f"step, static on {FULL} over inflight on {SAVING}",
            ratio(STEP, "static", SAVING, other_nodes=FULL),
            1.0,
        ),
        Claim(f"{SAVING}: mean ACT, static over inflight", ratio(ACT, "static", SAVING), 4.3),
        Claim(f"{SAVING}: step, static over inflight", ratio(STEP, "static", SAVING), 1.5),
        Claim(f"{TIGHT}: step of inflight over its bound", over_bound, 1.15, at_most=True),
        Claim(f"{TIGHT}: step, tangram over inflight", ratio(STEP, "tangram", TIGHT), 1.3),
        Claim(f"{TIGHT}: mean ACT, tangram over inflight", ratio(ACT, "tangram", TIGHT), 1.1),
        *(
            Claim(f"{TIGHT}: {name}, {other} over inflight", ratio(figure, other, TIGHT), 1.0)
            for other in ("fixed:4", "fixed:16")
            for name, figure in (("mean ACT", ACT), ("step", STEP))
        ),
    ]


def growth_of(by_batch: dict[int, Comparison]) -> list[Claim]:
    """The claim that the gain over static grows with the batch."""
    gains = {batch: comparison.gain("inflight", ACT) for batch, comparison in by_batch.items()}
    steps = {batch: comparison.gain("inflight", STEP) for batch, comparison in by_batch.items()}
    claims = []
    for small, large in pairwise(BATCHES):
        for name, gain in (("mean ACT", gains), ("step", steps)):
            before, after = gain[small] or 0.0, gain[large] or 0.0
            text = f"{SAVING}: gain on {name} at batch {large} ({after:.2f}) over {small}"
            claims.append(Claim(f"{text} ({before:.2f})", after / before, 1.0))
    return claims


def show(comparison: Comparison) -> None:
    """The means of every policy."""
    print(
        f"\n{comparison.scenario.nodes}, {comparison.trajectories} trajectories: "
        f"bounds: step {comparison.step_bound_s:.1f} s, mean ACT {comparison.act_bound_s:.3f} s"
    )
    for policy in comparison.measures:
        steps = " ".join(f"{measures.step_s:.0f}" for measures in comparison.measures[policy])
        print(
            f"  {policy:9} ACT {comparison.mean(policy, ACT):7.3f}  "
            f"p99 {comparison.mean(policy, 'act_p99_s'):7.2f}  "
            f"queue {comparison.mean(policy, 'queue_mean_s'):7.3f}  "
            f"step {comparison.mean(policy, STEP):7.1f} "
            f"({comparison.mean(policy, STEP) / comparison.step_bound_s:.3f} x bound)  "
            f"utilization {comparison.mean(policy, 'utilization'):.3f}  by seed: {steps}"
        )


def told(case: Case, share: float) -> None:
    """One line on standard error for every simulation that is done."""
    if share == 1.0:
        scenario = case.scenario
        print(f"done: {case.policy} {scenario.nodes} seed {scenario.seed}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1 if a claim was not reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0 on")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args(arguments)
    seeds = range(options.seeds)
    clusters = [Scenario(workload="coding", nodes=nodes) for nodes in (FULL, SAVING, TIGHT)]
    by_nodes = compared(clusters, POLICIES, seeds=seeds, progress=told)
    batches = [Scenario(workload="coding", nodes=SAVING, batch=batch) for batch in BATCHES]
    by_batch = compared(batches, ["static", "inflight"], seeds=seeds, progress=told)
    for comparison in (*by_nodes, *by_batch):
        show(comparison)
    claims = claims_of({c.scenario.nodes: c for c in by_nodes})
    claims += growth_of(dict(zip(BATCHES, by_batch, strict=True)))
    print()
    for claim in claims:
        print(claim)
    if options.json:
        documents = [comparison.as_json() for comparison in (*by_nodes, *by_batch)]
        options.json.write_text(json.dumps(documents, indent=2))
    return 0 if all(claim.reached for claim in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
