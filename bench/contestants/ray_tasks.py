"""Ray: tasks on warm workers of a cluster that is this machine."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.measuring import in_batches, one_by_one
from bench.serving import Measure, Ready, serve

BATCH = 200
WARM_UP = 100
MIB = 1024 * 1024


@contextmanager
def ray_tasks() -> Iterator[Ready]:
    """A cluster on the loopback interface, as many workers as cores, no dashboard."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray  # noqa: PLC0415  it may be absent, which is then told

    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        ray.init(
            num_cpus=cores,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            object_store_memory=100 * MIB,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
        try:
            nothing, true = ray.remote(_nothing), ray.remote(_true)
            for task in (nothing, true):
                ray.get([task.remote() for _ in range(WARM_UP)])

            def single(task: Any) -> Measure:
                def call() -> None:
                    ray.get(task.remote())

                return lambda seconds, _: one_by_one(call, seconds)

            def batch(task: Any) -> Measure:
                def call() -> None:
                    ray.get([task.remote() for _ in range(BATCH)])

                return lambda seconds, _: in_batches(call, seconds, size=BATCH)

            yield Ready(
                {
                    "nothing": single(nothing),
                    "nothing_many": batch(nothing),
                    "true": single(true),
                    "true_many": batch(true),
                },
                {"ray": ray.__version__, "num_cpus": str(cores)},
            )
        finally:
            ray.shutdown()


def _nothing() -> None:
    pass


def _true() -> int:
    return subprocess.run(["true"], capture_output=True, check=True).returncode


if __name__ == "__main__":
    serve(ray_tasks)
