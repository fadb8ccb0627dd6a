"""One copy of a service on devices: where it is, and every step it may take from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from ...errors import InvariantError
from ..entries import Entry
from ..model import ActionId, Bundle, Degree, InstanceId, NodeId, Seconds
from ..pools.gpu import Cell


class InstancePhase(Enum):
    """Where an instance is."""

    PLANNED = "planned"  #: has claimed a cell, whose present owners drain
    RESTORING = "restoring"
    RESIDENT = "resident"  #: answers calls; while idle it may have to make room
    EVICTING = "evicting"
    GONE = "gone"


INSTANCE_TRANSITIONS: Mapping[InstancePhase, frozenset[InstancePhase]] = MappingProxyType(
    {
        InstancePhase.PLANNED: frozenset({InstancePhase.RESTORING, InstancePhase.GONE}),
        InstancePhase.RESTORING: frozenset(
            {InstancePhase.RESIDENT, InstancePhase.EVICTING, InstancePhase.GONE}
        ),
        InstancePhase.RESIDENT: frozenset({InstancePhase.EVICTING, InstancePhase.GONE}),
        InstancePhase.EVICTING: frozenset({InstancePhase.GONE}),
        InstancePhase.GONE: frozenset(),
    }
)
"""To GONE from anywhere: it failed, or its node was lost; from PLANNED: nobody needs it any more.

From RESTORING to EVICTING: nobody waits for it, and somebody else needs its devices."""


@dataclass(slots=True, eq=False)
class Instance:
    """A copy of a service on one cell.

    Attributes:
        service: its name.
        calls: those it serves now.
        claimed: whether another instance comes next on some of its devices, so that it takes no
            further calls.
        called_for: whether it is to come because calls wait for it.
        needs: what is kept on its node, until it goes there, for the call that it is for.
        forget: whether its host copy goes with it.
        cold: whether its node had no copy of it when it began.
        crowd: instances that were being restored on its node when it began.
        began_at: when its restore began.
        ready_at: when it is expected to answer.
        used_at: when a call last began or ended.
    """

    id: InstanceId
    service: str
    degree: Degree
    node: NodeId
    cell: Cell
    phase: InstancePhase = InstancePhase.PLANNED
    calls: dict[ActionId, Entry] = field(default_factory=dict)
    claimed: bool = False
    called_for: bool = True
    needs: Bundle = field(default_factory=dict)
    forget: bool = False
    cold: bool = False
    crowd: int = 0
    began_at: Seconds = 0.0
    ready_at: Seconds = 0.0
    used_at: Seconds = 0.0

    @property
    def staying(self) -> bool:
        """Whether it serves calls now, or is to, and nobody takes its place."""
        return not self.claimed and self.phase in _SERVING

    @property
    def idle(self) -> bool:
        """Whether it could make room at once."""
        return self.phase is InstancePhase.RESIDENT and not self.calls

    def step(self, phase: InstancePhase) -> None:
        """Go to the next phase. Raises `InvariantError` if that is none."""
        if phase not in INSTANCE_TRANSITIONS[self.phase]:
            raise InvariantError(
                f"instance {self.id} cannot go from {self.phase.value} to {phase.value}"
            )
        self.phase = phase


_SERVING = frozenset({InstancePhase.PLANNED, InstancePhase.RESTORING, InstancePhase.RESIDENT})


@dataclass(slots=True, eq=False)
class HostCopy:
    """What a service is restored from on a node; it holds host memory there.

    Attributes:
        cell: the devices it belongs to, if it cannot go elsewhere.
        instance: the one that was last restored from it, or made it.
        used_by: instances that are, or are to be, restored from it.
        leaving: whether it was told to go.
    """

    service: str
    cell: Cell | None
    mib: int
    instance: InstanceId
    used_by: set[InstanceId] = field(default_factory=set)
    leaving: bool = False
