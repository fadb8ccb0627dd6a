"""Hypothesis strategies for nodes, actions and environments, small enough to collide often."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ..core.model import CPU, MEMORY, MILLI, Bundle, CpuTopology, Elastic
from ..core.speedup import Amdahl, PowerLaw, Roofline, Speedup, Table

GPU = "gpu"


def load_profiles() -> None:
    """Make Hypothesis try the same examples on every machine.

    `--hypothesis-profile=explore` looks for others instead.
    """
    settings.register_profile(
        "tangram",
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    settings.register_profile("explore", settings.get_profile("tangram"), derandomize=False)
    if settings.get_current_profile_name() != "explore":
        settings.load_profile("tangram")


startups = st.sampled_from([0.0, 0.0, 0.5])
speedups: st.SearchStrategy[Speedup] = st.one_of(
    st.builds(Roofline, cap=st.floats(1, 8), startup_s=startups),
    st.builds(Amdahl, serial=st.floats(0, 1), startup_s=startups),
    st.builds(PowerLaw, p=st.floats(0, 1), startup_s=startups),
    st.builds(
        lambda steps, startup_s: Table(
            points=tuple((k, 1.0 + sum(steps[: k - 1])) for k in range(2, len(steps) + 2)),
            startup_s=startup_s,
        ),
        st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0]), max_size=5),
        startups,
    ),
)
"""Curves of every form, convex or not."""

unit_lists = st.sampled_from([(1, 2, 3, 4), (1, 4), (2, 3, 5), (1,), (3,), (2, 8), (1, 2, 4, 8)])

elastics = st.builds(
    Elastic,
    units=unit_lists,
    speedup=st.none() | speedups,
    resizable=st.booleans(),
    resource=st.sampled_from([CPU, CPU, CPU, GPU]),
)

milli = st.sampled_from([0, 250, 300, 500, 1000, 1000, 1500, 2000, 3000])
memory = st.sampled_from([0, 0, 100, 300, 600])
gpus = st.sampled_from([0, 0, 0, 1, 2])


def bundles(
    cpu: st.SearchStrategy[int] = milli,
    memory: st.SearchStrategy[int] = memory,
    gpu: st.SearchStrategy[int] = gpus,
) -> st.SearchStrategy[Bundle]:
    """What somebody may need; zeros are left out, as users do."""
    return st.builds(
        lambda c, m, g: {k: v for k, v in ((CPU, c), (MEMORY, m), (GPU, g)) if v}, cpu, memory, gpu
    )


capacities = st.builds(
    lambda c, m, g: {CPU: c, MEMORY: m, GPU: g},
    st.sampled_from([1000, 2000, 2500, 4000, 8000, 0]),
    st.sampled_from([600, 1000, 2000]),
    st.sampled_from([0, 1, 4]),
)


def topologies(cores: int) -> st.SearchStrategy[CpuTopology | None]:
    """None, or these cores in two domains with sibling threads, numbered as Linux does."""
    if cores < 2:
        return st.none()
    half = cores // 2
    split = CpuTopology(
        domains=(tuple(range(half)), tuple(range(half, cores))),
        siblings=tuple((i, i + 1) for i in range(0, cores - 1, 2)),
    )
    ids = [10 + 3 * i for i in range(cores)]
    mixed = CpuTopology(
        domains=(tuple(ids[::2]), tuple(ids[1::2])),
        siblings=tuple(zip(ids[:half], ids[half : 2 * half], strict=True)),
    )
    return st.sampled_from([None, split, mixed])


def cores_in(capacity: Bundle) -> int:
    """How many cores, the last of them perhaps a part, hold this capacity."""
    return -(-capacity[CPU] // MILLI)
