"""What would be left of a node if: a scratch copy of its free amounts to plan with."""

from __future__ import annotations

from ..model import CPU, MILLI, Bundle


class Draft:
    """Free amounts of one node that a plan may take from without touching the books."""

    __slots__ = ("counts", "ragged", "rooms", "whole")

    def __init__(
        self, *, whole: int, rooms: list[int], counts: dict[str, int], ragged: bool = False
    ) -> None:
        self.whole = whole
        """Cores that nobody holds any part of."""
        self.rooms = rooms
        """Millicores left on each shared core."""
        self.counts = counts
        """Free amounts of everything but CPU."""
        self.ragged = ragged
        """Whether one of the shared cores is the part of one that the node ends with."""

    def units(self, resource: str) -> int:
        """Free whole units of a resource."""
        return self.whole if resource == CPU else self.counts.get(resource, 0)

    def give(self, resource: str, units: int) -> None:
        """Put whole units back; negative takes them."""
        if resource == CPU:
            self.whole += units
        else:
            self.counts[resource] += units

    def shortage(self, resource: str, bundle: Bundle) -> int | None:
        """How many whole units of `resource` are missing for this bundle to fit.

        None means that it lacks something else too.
        """
        missing = 0
        for name, amount in bundle.items():
            if name == CPU:
                short = self._cores_for(amount) - self.whole
            else:
                short = amount - self.counts.get(name, 0)
            if short > 0:
                if name != resource:
                    return None
                missing = short
        return missing

    def take(self, bundle: Bundle) -> bool:
        """Take the bundle if it fits; takes nothing and returns False if it does not."""
        for name, amount in bundle.items():
            if name == CPU:
                if self._cores_for(amount) > self.whole:
                    return False
            elif amount > self.counts.get(name, 0):
                return False
        for name, amount in bundle.items():
            if name == CPU:
                self._take_cpu(amount)
            elif amount:
                self.counts[name] -= amount
        return True

    def hold(self, bundle: Bundle) -> None:
        """Set aside as much of the bundle as there is, for someone who waits for the rest."""
        for name, amount in bundle.items():
            if name == CPU:
                self._hold_cpu(amount)
            else:
                self.counts[name] = max(0, self.counts.get(name, 0) - amount)

    def _cores_for(self, milli: int) -> int:
        count, part = divmod(milli, MILLI)
        return count + 1 if part and not any(room >= part for room in self.rooms) else count

    def _hold_cpu(self, milli: int) -> None:
        count, part = divmod(milli, MILLI)
        if part and self._cores_for(part) <= self.whole:
            self._take_cpu(part)
            part = 0
        missing = count - self.whole + bool(part)
        self.whole = max(0, self.whole - count)
        if missing > 0:
            # What comes free on the roomiest shared cores adds up, to whole cores in the end;
            # only the part of a core that a node may end with never becomes one.
            self.rooms = sorted(self.rooms)[: -missing - self.ragged]

    def _take_cpu(self, milli: int) -> None:
        count, part = divmod(milli, MILLI)
        self.whole -= count
        if not part:
            return
        fitting = [room for room in self.rooms if room >= part]
        if fitting:
            room = min(fitting)  # the tightest, as `CpuPool` does
            self.rooms.remove(room)
        else:
            room = MILLI
            self.whole -= 1
        if room > part:
            self.rooms.append(room - part)
