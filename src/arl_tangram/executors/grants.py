"""How a program is told what it was granted."""

from __future__ import annotations

from ..core.model import MILLI
from .port import CpuGrant

THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMBA_NUM_THREADS",
    "PYTHON_CPU_COUNT",
    "PYTEST_XDIST_AUTO_NUM_WORKERS",
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "GOMAXPROCS",
    "JULIA_NUM_THREADS",
    "CMAKE_BUILD_PARALLEL_LEVEL",
    "CTEST_PARALLEL_LEVEL",
    "CARGO_BUILD_JOBS",
)


def whole_units(milli: int) -> int:
    """Units as a program counts them: a part of one counts as one."""
    return max(1, -(-milli // MILLI))


def grant_variables(grant: CpuGrant) -> dict[str, str]:
    """The environment variables that carry a grant.

    Thread counts follow the most it may grow to, since units may come later and a pool that was
    made small stays small. Waiting threads sleep instead of spinning, as they may outnumber the
    units held.
    """
    most = str(whole_units(max(grant.milli, grant.most_milli)))
    return {
        "ARL_TANGRAM_CPUS": str(whole_units(grant.milli)),
        "ARL_TANGRAM_MAX_CPUS": most,
        **dict.fromkeys(THREAD_COUNTS, most),
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": "0",
    }
