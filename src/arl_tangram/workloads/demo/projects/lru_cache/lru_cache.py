"""A cache that forgets what was used least recently, and everything after its time to live."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable


class LruCache:
    """Holds at most `capacity` entries; each is good for `ttl` seconds, or for ever."""

    def __init__(
        self,
        capacity: int,
        ttl: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity={capacity}: room for at least one entry, please")
        self.capacity = capacity
        self.ttl = ttl
        self.hits = 0
        self.misses = 0
        self._clock = clock
        self._entries: OrderedDict[Hashable, tuple[object, float]] = OrderedDict()

    def get(self, key: Hashable, default: object = None) -> object:
        """The value of `key`, which counts as a use of it."""
        entry = self._fresh(key)
        if entry is None:
            self.misses += 1
            return default
        self.hits += 1
        return entry[0]

    def put(self, key: Hashable, value: object) -> None:
        """Store a value, making room if need be."""
        self._entries.pop(key, None)
        while len(self._entries) >= self.capacity:
            self._entries.popitem(last=False)
        self._entries[key] = (value, self._clock())

    def delete(self, key: Hashable) -> bool:
        """Forget `key`; tells whether it was there."""
        return self._entries.pop(key, None) is not None

    def keys(self) -> list[Hashable]:
        """The keys, least recently used first."""
        return [key for key in list(self._entries) if self._fresh(key) is not None]

    def __contains__(self, key: Hashable) -> bool:
        return self._fresh(key) is not None

    def __len__(self) -> int:
        return len(self.keys())

    def _fresh(self, key: Hashable) -> tuple[object, float] | None:
        """The entry of `key` unless it is too old, in which case it is dropped."""
        entry = self._entries.get(key)
        if entry is not None and self.ttl is not None and self._clock() - entry[1] >= self.ttl:
            del self._entries[key]
            return None
        return entry
