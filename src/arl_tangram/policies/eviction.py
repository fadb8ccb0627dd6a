"""Which instances of services make room for others: other choices than the kernel's own, `Cost`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from ..core.model import Seconds
from ..core.serving.instances import Instance
from ..core.serving.services import ServiceState
from ..core.serving.worth import Cost, Eviction, quickest_restore_s
from ..errors import ConfigError

NAMES = ("cost", "lru", "on-demand")
OF_POLICIES: Mapping[str, str] = {"tangram": "on-demand"}
"""What a policy does about services, if that is not the kernel's own way: the paper's has no foresight."""
#: A service that is called this soon again is as good as called already.
SOONEST_S = 0.1


class Lru:
    """Least recently used: what was used longest ago makes room first.

    A service that was idle for t seconds is believed to be called once in t seconds from now on.
    What its absence costs does not depend on the service.

    Args:
        anticipates: whether instances are restored that nobody waits for yet; the paper's are not.
    """

    def __init__(self, *, anticipates: bool = True) -> None:
        self.anticipates = anticipates

    def loss(self, state: ServiceState, leaving: Sequence[Instance], *, now: Seconds) -> float:
        """One second of waiting for each instance at that rate."""
        return sum(1.0 / max(now - instance.used_at, SOONEST_S) for instance in leaving)


class Belady:
    """The clairvoyant: it knows when every service is called next, as only a simulator can.

    What is called again last makes room first (Belady, 1966), weighed by what a restore costs.

    Args:
        calls_at: for each service, the times of all its calls, ascending.
    """

    anticipates = True

    def __init__(self, calls_at: Mapping[str, Sequence[Seconds]]) -> None:
        self._calls_at = calls_at

    def loss(self, state: ServiceState, leaving: Sequence[Instance], *, now: Seconds) -> float:
        """The restore that its next call waits for, over the time until then."""
        if state.staying() and any(i not in leaving for i in state.staying()):
            return Cost().loss(state, leaving, now=now)
        calls = self._calls_at.get(state.name, ())
        following = bisect_right(calls, now)
        if following == len(calls):
            return 0.0
        return quickest_restore_s(state) / max(calls[following] - now, SOONEST_S)


def eviction_named(name: str) -> Eviction:
    """A fresh choice. Raises `ConfigError` naming those there are.

    `on-demand` is `lru` without restores that nobody waits for yet, as in the paper.
    """
    match name:
        case "cost":
            return Cost()
        case "lru":
            return Lru()
        case "on-demand":
            return Lru(anticipates=False)
        case _:
            raise ConfigError(f"eviction={name!r}: use one of {', '.join(NAMES)}")
