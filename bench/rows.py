"""What is measured beside what, and the goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .measuring import Figures

Medians = Mapping[str, Figures]
"""The median of every figure, by entrant; an absent entrant is left out."""
OURS = "arl-tangram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """One measure of one contestant.

    Attributes:
        name: what it is called in the row.
        module: the contestant, in `bench.contestants`.
        measure: which of the contestant's measures.
    """

    name: str
    module: str
    measure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A bound on a figure of an entrant, by itself or as a multiple of another entrant's.

    Attributes:
        text: the goal in words.
        beside: the entrant whose figure it is divided by.
    """

    text: str
    figure: str
    of: str = OURS
    beside: str | None = None
    at_least: float | None = None
    at_most: float | None = None

    def value(self, medians: Medians) -> float | None:
        """What was reached; None if an entrant was absent."""
        if self.of not in medians or (self.beside and self.beside not in medians):
            return None
        value = medians[self.of][self.figure]
        return value / medians[self.beside][self.figure] if self.beside else value

    def met(self, medians: Medians) -> bool | None:
        """Whether it was reached; None if that was not measured."""
        value = self.value(medians)
        if value is None:
            return None
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Entrants that are measured in turns.

    Attributes:
        figures: what is shown of each entrant, the first also as a ratio.
        about: what a reader needs to know to judge the row.
    """

    name: str
    title: str
    figures: tuple[str, ...]
    entrants: tuple[Entrant, ...]
    goals: tuple[Goal, ...]
    about: str = ""


# Neighbours share contestants, so that none stands by for longer than it is needed. What takes longest
# is last, for when the time is over.
ROWS = (
    Row(
        name="kernel",
        title="Events of the bare kernel, 15 nodes of 256 cores, default policy",
        figures=("rate_per_s", "p99_s", "resizing_share"),
        entrants=(
            Entrant(name="10,000 queued", module="kernel", measure="deep"),
            Entrant(name="100 queued", module="kernel", measure="shallow"),
            Entrant(name="cores to spare, all resizable", module="kernel", measure="spare"),
        ),
        goals=(
            Goal(
                text="at least 30,000 events/s with 10,000 queued",
                of="10,000 queued",
                figure="rate_per_s",
                at_least=30_000,
            ),
            Goal(
                text="99 of 100 events within 1 ms",
                of="10,000 queued",
                figure="p99_s",
                at_most=0.001,
            ),
            Goal(
                text="an event with 10,000 queued costs at most 1.5 x one with 100 queued",
                of="10,000 queued",
                beside="100 queued",
                figure="mean_s",
                at_most=1.5,
            ),
            Goal(
                text="at least 3,000 events/s where each event resizes",
                of="cores to spare, all resizable",
                figure="rate_per_s",
                at_least=3_000,
            ),
        ),
    ),
    Row(
        name="services",
        title="Events of the bare kernel, 20 services on 5 nodes of 8 GPUs",
        figures=("rate_per_s", "p99_s"),
        entrants=(
            Entrant(name="10,000 calls waiting", module="services", measure="deep"),
            Entrant(name="30 calls a second", module="services", measure="steady"),
        ),
        goals=(
            Goal(
                text="at least 5,000 events/s with 10,000 calls waiting",
                of="10,000 calls waiting",
                figure="rate_per_s",
                at_least=5_000,
            ),
        ),
    ),
    Row(
        name="call",
        title="A call to a service beside the same request to the same server over HTTP, in turns",
        figures=("added_p50_s", "p50_s", "direct_p50_s"),
        entrants=(Entrant(name=OURS, module="calls", measure="overhead"),),
        goals=(Goal(text="adds at most 1 ms", figure="added_p50_s", at_most=0.001),),
        about="Both keep their connection, and send and read JSON; the server answers at once.",
    ),
    Row(
        name="restore",
        title="256 MiB of a PyTorch service back from host memory to a device",
        figures=("gib_per_s",),
        entrants=(
            Entrant(name=OURS, module="restores", measure="restore"),
            Entrant(name="a plain copy", module="restores", measure="copy"),
        ),
        goals=(
            Goal(
                text="at least 0.8 x the bandwidth of a plain copy",
                beside="a plain copy",
                figure="gib_per_s",
                at_least=0.8,
            ),
        ),
        about="Without a GPU, host memory stands in for it, and the plain copy is to new memory as well.",
    ),
    Row(
        name="environment",
        title="Open and close an environment with namespaces",
        figures=("p50_s",),
        entrants=(
            Entrant(name=OURS, module="embedded", measure="open_and_close"),
            Entrant(name="bwrap, running true", module="containers", measure="bwrap"),
            Entrant(name="runc, running true", module="containers", measure="runc"),
        ),
        goals=(Goal(text="at most 15 ms", figure="p50_s", at_most=0.015),),
        about="Ours is placed, limited by a control group, has a folder, a runner and /etc.",
    ),
    Row(
        name="shell",
        title="A command in a stateful shell",
        figures=("p50_s",),
        entrants=(
            Entrant(name=OURS, module="embedded", measure="command"),
            Entrant(name="SWE-ReX session", module="swe_rex", measure="command"),
            Entrant(name="bash over pipes", module="bash", measure="command"),
        ),
        goals=(
            Goal(text="at most 2 ms", figure="p50_s", at_most=0.002),
            Goal(
                text="no slower than a session of SWE-ReX",
                beside="SWE-ReX session",
                figure="p50_s",
                at_most=1.0,
            ),
        ),
    ),
    Row(
        name="true",
        title="`true` in an open environment, one at a time",
        figures=("p50_s", "p99_s"),
        entrants=(
            Entrant(name=OURS, module="embedded", measure="true"),
            Entrant(name="posix_spawn", module="processes", measure="spawn"),
            Entrant(name="asyncio", module="asyncio_subprocess", measure="true"),
            Entrant(name="SWE-ReX execute", module="swe_rex", measure="execute"),
            Entrant(name="Ray", module="ray_tasks", measure="true"),
        ),
        goals=(
            Goal(
                text="at most 1.3 x a bare posix_spawn",
                beside="posix_spawn",
                figure="p50_s",
                at_most=1.3,
            ),
        ),
        about="posix_spawn collects no output; all others do.",
    ),
    Row(
        name="true-many",
        title="`true` in an open environment, 200 at once",
        figures=("rate_per_s",),
        entrants=(
            Entrant(name=OURS, module="embedded", measure="true_many"),
            Entrant(name="threads, posix_spawn", module="processes", measure="spawn_many"),
            Entrant(name="threads, subprocess", module="processes", measure="subprocess_many"),
            Entrant(name="asyncio", module="asyncio_subprocess", measure="true_many"),
            Entrant(name="Ray", module="ray_tasks", measure="true_many"),
        ),
        goals=(
            Goal(
                text="at least 0.6 x a bare pool of threads",
                beside="threads, posix_spawn",
                figure="rate_per_s",
                at_least=0.6,
            ),
            Goal(text="at least 1.4 x Ray", beside="Ray", figure="rate_per_s", at_least=1.4),
        ),
        about="posix_spawn collects no output; all others do. Ours and Ray's each hold one core.",
    ),
    Row(
        name="lease",
        title="A lease that does nothing beside a task that does nothing, one at a time",
        figures=("p50_s", "p99_s"),
        entrants=(
            Entrant(name=OURS, module="embedded", measure="lease"),
            Entrant(name="Ray", module="ray_tasks", measure="nothing"),
        ),
        goals=(
            Goal(
                text="at most a tenth of the time Ray takes",
                beside="Ray",
                figure="p50_s",
                at_most=0.1,
            ),
        ),
        about="A lease runs the caller's own code in place; a task of Ray is sent to a process.",
    ),
    Row(
        name="lease-many",
        title="The same, many at once",
        figures=("rate_per_s",),
        entrants=(
            Entrant(name=OURS, module="embedded", measure="lease_many"),
            Entrant(name="Ray", module="ray_tasks", measure="nothing_many"),
        ),
        goals=(Goal(text="at least 10 x Ray", beside="Ray", figure="rate_per_s", at_least=10.0),),
    ),
    Row(
        name="step",
        title="A step of `coding` in the simulator, default policy, learned estimates, a seed a round",
        figures=("step_over_bound", "wall_s"),
        entrants=(
            Entrant(name="15x256", module="simulated", measure="15x256"),
            Entrant(name="15x27", module="simulated", measure="15x27"),
        ),
        goals=(
            Goal(
                text="a step within 1.15 x its lower bound on 15x256",
                of="15x256",
                figure="step_over_bound",
                at_most=1.15,
            ),
            Goal(
                text="a step within 1.15 x its lower bound on 15x27",
                of="15x27",
                figure="step_over_bound",
                at_most=1.15,
            ),
            Goal(text="simulated in less than 20 s", of="15x256", figure="wall_s", at_most=20),
            Goal(text="simulated in less than 20 s", of="15x27", figure="wall_s", at_most=20),
        ),
        about="What is measured is how long the simulation takes. The steps are simulated, not run.",
    ),
)
