"""Users for environments: an id for each, which no other environment and nothing else has."""

from __future__ import annotations

import os
import random
from pathlib import Path

IDS = range(0x70000000, 0x7FFE0000)
"""What systemd's table of ids leaves to nobody; the ends of its neighbours are not touched."""
NOBODY = 65534


def ids() -> range | None:
    """The ids that environments may run as here; None if they run as ourselves."""
    if os.getuid() != 0:
        return None
    maps = (Path(f"/proc/self/{kind}_map").read_text() for kind in ("uid", "gid"))
    if all(_holds(text, IDS) for text in maps):
        return IDS
    return range(NOBODY, NOBODY + 1)  # in a user namespace that has only some ids


def _holds(text: str, wanted: range) -> bool:
    rows = (map(int, line.split()) for line in text.splitlines())
    return any(start <= wanted.start and wanted.stop <= start + count for start, _, count in rows)


class Users:
    """Args:
    ids: what to choose from; None means that all run as ourselves.
    """

    def __init__(self, ids: range | None) -> None:
        self._ids = ids
        # Two hosts that start at random meet less often than two that draw each id.
        self._next = random.randrange(len(ids)) if ids else 0
        self._taken: set[int] = set()

    def take(self) -> int | None:
        """One that none has now, unless there is only one; None means our own."""
        ids = self._ids
        if ids is None:
            return None
        while True:
            user = ids[self._next]
            self._next = (self._next + 1) % len(ids)
            if user not in self._taken or len(ids) == 1:
                self._taken.add(user)
                return user

    def give_back(self, user: int | None) -> None:
        """Nothing of it is left."""
        if user is not None:
            self._taken.discard(user)
