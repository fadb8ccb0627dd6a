"""Measures what is claimed of GPU services on the workloads `mopd` and `deepsearch`, in the simulator.

    python scripts/claims_gpu.py [--seeds 5] [--json FILE]

prints a line for every claim: the measured figure (of means over the seeds), the goal, and whether
it was reached. It takes some minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from arl_tangram.sim.case import Case, EvictionName, Scenario
from arl_tangram.sim.comparison import Comparison, compared

MOPD, DEEPSEARCH = "mopd", "deepsearch"
BOTH = f"{MOPD}+{DEEPSEARCH}"
STATIC_GPUS = {MOPD: 36, DEEPSEARCH: 16, BOTH: 52}
FEW = {MOPD: range(6, 13), DEEPSEARCH: range(3, 7), BOTH: range(8, 16)}
#: A step may be this much longer than that of static.
STEP_OVER = 1.01
EQUAL = (9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 40, 44, 48, 52)
BATCHES = (1024, 2048, 3072)
EVICTIONS: tuple[EvictionName, ...] = ("cost", "lru", "on-demand", "belady")
ACT, STEP, QUEUE, RESTORING = "act_mean_s", "step_s", "queue_mean_s", "overhead_mean_s"


@dataclass(frozen=True)
class Claim:
    """Something that is measured, and what it is to be at most."""

    text: str
    measured: float
    goal: float

    def __str__(self) -> str:
        verdict = "PASS" if self.measured <= self.goal + 1e-9 else "FAIL"
        return f"{verdict}  {self.measured:7.3f} <= {self.goal:<6g} {self.text}"


def on(gpus: int, workload: str = MOPD) -> Scenario:
    """A workload on so many GPUs, in nodes of eight and one with the rest."""
    full, rest = divmod(gpus, 8)
    nodes = [f"{full}x8"] * bool(full) + [str(rest)] * bool(rest)
    return Scenario(workload=workload, nodes="1", gpus="+".join(nodes))


def run(scenarios: Sequence[Scenario], *policies: str, seeds: Sequence[int]) -> list[Comparison]:
    """Each scenario under these policies; one line on standard error for every simulation."""

    def told(case: Case, share: float) -> None:
        if share == 1.0:
            scenario = case.scenario
            print(f"done: {case.policy} {scenario.gpus} seed {scenario.seed}", file=sys.stderr)

    return compared(scenarios, policies, seeds=seeds, progress=told)


def fewest(seeds: Sequence[int]) -> tuple[list[Claim], list[Comparison]]:
    """How few GPUs do what each workload's static deployment does, and both together."""
    enough: dict[str, int] = {}
    every: list[Comparison] = []
    for workload, counts in FEW.items():
        (static,) = run([on(STATIC_GPUS[workload], workload)], "static", seeds=seeds)
        few = run([on(gpus, workload) for gpus in counts], "inflight", seeds=seeds)
        every += [static, *few]
        print(
            f"\n{workload} on few GPUs, beside static on {STATIC_GPUS[workload]}: mean ACT, its "
            f"share of restoring, mean ACT by kind, step over static's by task"
        )
        for gpus, found in [(STATIC_GPUS[workload], static), *zip(counts, few, strict=True)]:
            (policy,) = found.measures
            act = found.mean(policy, ACT)
            kinds = found.mean_of_each(policy, "act_mean_by_kind_s")
            said = ", ".join(f"{kind} {seconds:.3f}" for kind, seconds in kinds.items())
            share = found.mean(policy, RESTORING) / act
            over = longer(found, static)
            steps = " ".join(f"{task} {times:.4f}" for task, times in over.items())
            print(f"  {gpus:3} GPUs {policy:8} ACT {act:6.3f} s {share:6.1%}  {said}  {steps}")
            within_a_second = workload != MOPD or act <= 1.0
            if policy == "static":
                continue
            if not within_a_second or max(over.values()) > STEP_OVER:
                enough.pop(workload, None)  # what fewer devices did was luck
            else:
                enough.setdefault(workload, gpus)
    both = enough.get(BOTH, 99)
    alone = enough.get(MOPD, 99) + enough.get(DEEPSEARCH, 99)
    print(f"\nfewest GPUs: {enough}")
    return [
        Claim(
            "mopd: fewest GPUs with the step of static on 36, mean ACT within 1 s",
            enough.get(MOPD, 99),
            10,
        ),
        Claim("mopd and deepsearch: fewest GPUs with both steps of static on 52", both, 15),
        Claim("the same, over what the two need alone, added up", both, alone - 1),
    ], every


def longer(found: Comparison, static: Comparison) -> dict[str, float]:
    """The step of each task over that of static."""
    (policy,) = found.measures
    base = static.mean_of_each("static", "step_by_task_s")
    steps = found.mean_of_each(policy, "step_by_task_s")
    return {task: steps[task] / base[task] for task in base}


def equal(seeds: Sequence[int]) -> tuple[list[Claim], list[Comparison]]:
    """As many GPUs for all: against one instance each, of its best width, or all of one width.

    A deployment is simulated once, on the fewest GPUs that it takes: more are of no use to it.
    """
    found = run([on(gpus) for gpus in EQUAL], "inflight", seeds=seeds)
    most = STATIC_GPUS[MOPD]
    rows = [gpus for gpus in EQUAL if gpus <= most]
    hindsight = dict(zip(rows, run([on(n) for n in rows], "static", seeds=seeds), strict=True))
    rows = [most // 4, most // 2, most]
    widths = [replace(on(gpus), same_width=True) for gpus in rows]
    one_width = dict(zip(rows, run(widths, "static", seeds=seeds), strict=True))
    ours = dict(zip(EQUAL, found, strict=True))
    best = {gpus: hindsight[min(gpus, most)] for gpus in EQUAL}
    same = {gpus: one_width[max(n for n in rows if n <= gpus)] for gpus in EQUAL}
    every = [*found, *hindsight.values(), *one_width.values()]
    return compared_at_equal(ours, best, same), every


def compared_at_equal(
    ours: Mapping[int, Comparison], best: Mapping[int, Comparison], same: Mapping[int, Comparison]
) -> list[Claim]:
    """The claims about equal GPUs, by how many they are."""
    claims, between = [], []
    print("\nequal GPUs: mean ACT of static with one width, static with hindsight, inflight")
    for gpus, found in ours.items():
        act = found.mean("inflight", ACT)
        one, hindsight = same[gpus].mean("static", ACT), best[gpus].mean("static", ACT)
        print(
            f"  {gpus:3} GPUs  {one:6.3f} {hindsight:6.3f} {act:6.3f} s  ({one / act:.2f} x, "
            f"{hindsight / act:.2f} x)  restores {found.mean('inflight', 'restores'):.0f}"
        )
        text = f"{gpus} GPUs: mean ACT of inflight over that of the better static deployment"
        claims.append(Claim(text, act / min(one, hindsight), 1.05))
        if STATIC_GPUS[MOPD] // 4 < gpus < STATIC_GPUS[MOPD]:
            between.append(act / one)
    text = "10 to 34 GPUs: mean ACT of inflight over static of one width"
    return [*claims, Claim(text, sum(between) / len(between), 0.9)]


def evictions(seeds: Sequence[int]) -> tuple[list[Claim], list[Comparison]]:
    """Who makes room, where room is short."""
    found: dict[tuple[int, str], Comparison] = {}
    for gpus in (6, 7, 8, 9, 10):
        rows = [replace(on(gpus), eviction=name) for name in EVICTIONS]
        found |= {
            (gpus, name): comparison
            for name, comparison in zip(EVICTIONS, run(rows, "inflight", seeds=seeds), strict=True)
        }
    print("\neviction: mean ACT, restoring, restores")
    for (gpus, name), comparison in found.items():
        act, restoring = (comparison.mean("inflight", figure) for figure in (ACT, RESTORING))
        restores = comparison.mean("inflight", "restores")
        print(f"  {gpus:3} GPUs  {name:9} {act:6.3f} {restoring:6.3f} s {restores:6.0f}")
    cost = found[10, "cost"]
    claims = [
        Claim(
            "10 GPUs: restoring as a share of ACT",
            cost.mean("inflight", RESTORING) / cost.mean("inflight", ACT),
            0.25,
        )
    ]
    claims += [
        Claim(
            f"{gpus} GPUs: restoring, by cost over least recently used",
            found[gpus, "cost"].mean("inflight", RESTORING)
            / found[gpus, "lru"].mean("inflight", RESTORING),
            1.0,
        )
        for gpus in (8, 9, 10)
    ]
    return claims, list(found.values())


def batches(seeds: Sequence[int]) -> tuple[list[Claim], list[Comparison]]:
    """The paper's table: execution, queue and overhead as the batch grows."""
    every = []
    for gpus in (40, 8, 6):
        rows = [replace(on(gpus), batch=batch) for batch in BATCHES]
        found = run(rows, "tangram", "inflight", seeds=seeds)
        every += found
        print(f"\n{gpus} GPUs, by batch: run, queue, restoring, mean ACT")
        for batch, comparison in zip(BATCHES, found, strict=True):
            for policy in comparison.measures:
                run_s, queue, restoring, act = (
                    comparison.mean(policy, figure)
                    for figure in ("run_mean_s", QUEUE, RESTORING, ACT)
                )
                print(
                    f"  {batch:5} {policy:9} {run_s:6.3f} {queue:7.3f} {restoring:6.3f} {act:7.3f}"
                )
    return [], every


def searches(seeds: Sequence[int]) -> tuple[list[Claim], list[Comparison]]:
    """Whether the quota of the search API is kept to, and used while anybody waits for it."""
    crowd = replace(on(16, DEEPSEARCH), batch=BATCHES[-1])
    found = run([on(16, DEEPSEARCH), crowd], "static", "tangram", "inflight", seeds=seeds)
    over, used, waited = 0.0, 1.0, 0.0
    for comparison in found:
        for measures in comparison.measures.values():
            for each in (measured.quotas["search"] for measured in measures):
                over = max(over, each.most_over)
                used = min(used, each.used_while_waiting)
                waited = max(waited, each.waited_s)
    print(f"\nsearches: at most {over:g} tokens over; {used:.2%} used in up to {waited:.1f} s")
    return [
        Claim("searches: tokens above the quota, in the worst window", over, 0.0),
        Claim("searches: capacity not used while anybody waits", 1.0 - used, 0.02),
    ], found


PARTS = {
    "fewest": fewest,
    "equal": equal,
    "evictions": evictions,
    "batches": batches,
    "searches": searches,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1 if a claim was not reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0 on")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args(arguments)
    seeds = range(options.seeds)
    claims: list[Claim] = []
    comparisons: list[Comparison] = []
    for part in options.parts:
        more, found = PARTS[part](seeds)
        claims += more
        comparisons += found
    print()
    for claim in claims:
        print(claim)
    if options.json:
        documents = [comparison.as_json() for comparison in comparisons]
        options.json.write_text(json.dumps(documents, indent=2))
    return 0 if all(claim.measured <= claim.goal + 1e-9 for claim in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
