"""The simulator: a step of the workload `coding` under the default policy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from arl_tangram.policies.registry import DEFAULT
from arl_tangram.sim.case import Case, Scenario
from bench.measuring import Figures
from bench.serving import Measure, Ready, serve

CLUSTERS = ("15x256", "15x27")


@contextmanager
def simulated() -> Iterator[Ready]:
    """Durations are learned, never told. Every round has a seed of its own."""

    def step_on(nodes: str) -> Measure:
        def step(_: float, seed: int) -> Figures:
            scenario = Scenario(workload="coding", nodes=nodes, seed=seed)
            begin = time.perf_counter()
            measures = Case(scenario=scenario, policy=DEFAULT).run()
            took = time.perf_counter() - begin
            bound = scenario.bounds().step_s
            return {"wall_s": took, "step_over_bound": measures.step_s / bound}

        return step

    yield Ready({nodes: step_on(nodes) for nodes in CLUSTERS}, {"policy": DEFAULT})


if __name__ == "__main__":
    serve(simulated)
