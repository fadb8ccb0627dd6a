"""Bare processes: `posix_spawn` one at a time, and thread pools that spawn many at once."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import repeat

from bench.measuring import Absent, in_batches, one_by_one
from bench.serving import Ready, serve

BATCH = 200


@contextmanager
def processes() -> Iterator[Ready]:
    """A small parent, as a process that only spawns would be."""
    program = shutil.which("true")
    if program is None:
        raise Absent("there is no program `true` on PATH")

    variables = dict(os.environb)  # encoded once, as a program that spawns a lot would

    def spawn(_: object = None) -> None:
        pid = os.posix_spawn(program, ["true"], variables)
        _, status = os.waitpid(pid, 0)
        assert status == 0

    def run(_: object = None) -> None:
        subprocess.run([program], capture_output=True, check=True)

    workers = 2 * len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(max_workers=workers) as threads:
        list(threads.map(spawn, repeat(None, BATCH)))  # so that all threads are there
        yield Ready(
            {
                "spawn": lambda seconds, _: one_by_one(spawn, seconds),
                "spawn_many": lambda seconds, _: in_batches(
                    lambda: list(threads.map(spawn, repeat(None, BATCH))), seconds, size=BATCH
                ),
                "subprocess_many": lambda seconds, _: in_batches(
                    lambda: list(threads.map(run, repeat(None, BATCH))), seconds, size=BATCH
                ),
            },
            {"python": platform.python_version(), "threads": str(workers)},
        )


if __name__ == "__main__":
    serve(processes)
