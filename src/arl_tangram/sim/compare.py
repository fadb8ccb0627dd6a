"""Runs several simulations side by side, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from ..errors import ConfigError, InternalError
from .case import Case
from .engine import Observer
from .measure import Measures

Told = Callable[[Case, float], None]


def compare(
    cases: Sequence[Case],
    *,
    processes: int | None = None,
    progress: Told | None = None,
    observers: Sequence[Observer] = (),
) -> list[Measures]:
    """The measures of every case, in their order.

    Args:
        cases: what to simulate.
        processes: how many at once; None means as many as there are processors.
        progress: told, now and then, the share of a case that is done.
        observers: told every event and its commands; with any, all cases run in this process.

    Raises:
        ConfigError: a case is wrong.
        InternalError: a simulation broke; the message has its traceback.
    """
    at_once = min(processes or len(os.sched_getaffinity(0)), len(cases))
    if at_once <= 1 or observers:
        return [case.run(progress=_told(case, progress), observers=observers) for case in cases]
    context = multiprocessing.get_context("spawn")
    results: dict[int, Measures] = {}
    waiting = list(enumerate(cases))[::-1]
    running: dict[Connection, tuple[int, SpawnProcess]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                index, case = waiting.pop()
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_run, args=(case, theirs), daemon=True)
                process.start()
                theirs.close()
                running[ours] = index, process
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                index, process = running[ready]
                said = _receive(ready, cases[index])
                if isinstance(said, float):
                    if progress is not None:
                        progress(cases[index], said)
                    continue
                results[index] = said
                del running[ready]
                ready.close()
                process.join()
    finally:
        for _, process in running.values():
            process.kill()
            process.join()
    return [results[index] for index in range(len(cases))]


def _told(case: Case, progress: Told | None) -> Callable[[float], None] | None:
    return None if progress is None else lambda share: progress(case, share)


def _run(case: Case, results: Connection) -> None:
    """The whole life of a process: simulate, and send what became of it."""
    try:
        results.send(case.run(progress=results.send))
    except ConfigError as error:
        results.send(error)
    except Exception as error:  # noqa: BLE001 - whatever broke here, the parent has to hear of it
        where = f"{case.policy} on {case.scenario.nodes}, seed {case.scenario.seed}"
        results.send(InternalError(f"{where}: {error}\n{traceback.format_exc()}"))


def _receive(results: Connection, case: Case) -> float | Measures:
    try:
        said = results.recv()
    except EOFError:
        raise InternalError(f"the process that simulated {case} ended without a result") from None
    if isinstance(said, Exception):
        raise said
    assert isinstance(said, float | Measures)
    return said
