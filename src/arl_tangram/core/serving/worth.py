"""What it costs a service to have the instances it has, and what others lose if some have to go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..model import Seconds
from .instances import Instance, InstancePhase
from .services import ServiceState
from .waits import steady_act

#: For how long a choice of instances is expected to stand: losses and gains a second are weighed
#: over this long against what waits now.
HORIZON_S = 20.0
#: A call that waits for a restore costs so many times its wait: others lose their place for it.
MISS = 3.0


class Eviction(Protocol):
    """Says what it would cost to take instances off their devices.

    Attributes:
        anticipates: whether instances are restored that nobody waits for yet.
    """

    anticipates: bool

    def loss(self, state: ServiceState, leaving: Sequence[Instance], *, now: Seconds) -> float:
        """Seconds of completion time that calls lose in a second without `leaving`."""


def cost(state: ServiceState, speeds: Sequence[float], *, now: Seconds) -> float:
    """Completion time that a service's calls are expected to take up in a second.

    `speeds` are those of all its slots, the fastest first. Without any, the next call waits for a
    restore, and so do, in part, those that come while it goes on; then there is one, on the fewest
    devices.
    """
    rate, work = state.arrivals.rate(now), state.call_work_s
    served = speeds or [state.service.degrees[0].speedup] * state.service.slots
    answered = rate * steady_act(rate, work, served, horizon_s=HORIZON_S)
    if speeds:
        return answered
    together = rate * quickest_restore_s(state)  # those that come meanwhile wait for the same one
    return answered + MISS * together * (1.0 + together / 2.0) / (1.0 + together)


def quickest_restore_s(state: ServiceState) -> Seconds:
    """Restore time on the fewest devices: what is had where devices are short."""
    return state.restore_s(state.service.degrees[0], cold=False)


class Cost:
    """Weighs how often a service is called of late against what its absence costs each time.

    An instance beside others of its service is worth what it saves their calls; the last one is
    worth the restore that the next call would wait for.
    """

    anticipates = True

    def loss(self, state: ServiceState, leaving: Sequence[Instance], *, now: Seconds) -> float:
        """The difference that `leaving` makes to the cost of the service."""
        staying = state.staying()
        after = state.speeds(i for i in staying if i not in leaving)
        before = state.speeds(staying)
        return max(cost(state, after, now=now) - cost(state, before, now=now), 0.0)


def absence(state: ServiceState, leaving: Sequence[Instance], *, now: Seconds) -> Seconds:
    """What calls wait until a service has another instance, if `leaving` go and one comes soon."""
    ready_s = quickest_restore_s(state)
    for instance in state.staying():
        if instance not in leaving:
            at = now if instance.phase is InstancePhase.RESIDENT else instance.ready_at
            ready_s = min(ready_s, max(at - now, 0.0))
    return state.arrivals.rate(now) * ready_s * ready_s / 2.0
