"""Finds the workload that a name or a path means."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

from ..errors import ConfigError
from .coding import coding
from .deepsearch import deepsearch
from .mopd import mopd
from .trace import read_trace
from .workload import Workload, together

BUILT_IN = {"coding": coding, "deepsearch": deepsearch, "mopd": mopd}


def workload_named(name: str, *, batch: int | None = None, seed: int = 0) -> Workload:
    """A built-in workload, the trace in the file of this name, or several of these joined by `+`.

    Args:
        name: what the user wrote.
        batch: how many trajectories a step has; None means the workload's own figure, and for a
            trace all of them, else its first ones.
        seed: of a built-in workload; a trace is what it is.

    Raises:
        ConfigError: there is no such workload or file, or the trace is wrong.
    """
    if batch is not None and batch < 1:
        raise ConfigError(f"batch={batch}: a step has at least 1 trajectory")
    parts = name.split("+")
    if len(parts) > 1 and not Path(name).is_file():
        workloads = [workload_named(part, batch=batch, seed=seed) for part in parts]
        try:
            return together(workloads)
        except ValueError as error:
            raise ConfigError(f"workload={name!r}: {error}") from None
    if name in BUILT_IN:
        return BUILT_IN[name](batch=batch, seed=seed)
    path = Path(name)
    if not path.is_file():
        near = difflib.get_close_matches(name, BUILT_IN, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(
            f"workload={name!r}: neither a built-in workload ({', '.join(BUILT_IN)}) nor the path "
            f"of a trace{meant}"
        )
    try:
        with path.open(encoding="utf-8") as lines:
            workload = read_trace(lines, name=name)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 text ({error})") from None
    except OSError as error:
        raise ConfigError(f"{name}: it cannot be read ({error.strerror})") from None
    if batch is None:
        return workload
    return replace(workload, trajectories=workload.trajectories[:batch])
