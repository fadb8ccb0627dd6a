"""How busy others keep this machine between the plays of a demo, when nothing of ours works."""

from __future__ import annotations

import psutil

BUSY = 0.15
"""The share of the processors in use by others above which figures are doubtful."""
LOOK_S = 0.3


def used_by_others() -> float:
    """The share of the processors in use. Blocks for a moment, in which nothing of ours may work."""
    return psutil.cpu_percent(LOOK_S) / 100


class Neighbours:
    """Looks between plays; `warning` says in the end whether the figures can be trusted."""

    def __init__(self) -> None:
        self._most = 0.0

    def look(self) -> None:
        """Take a sample, while nothing of ours works."""
        self._most = max(self._most, used_by_others())

    @property
    def warning(self) -> str:
        """What to tell the reader; empty if the machine was quiet."""
        if self._most <= BUSY:
            return ""
        return (
            f"Others used up to {self._most:.0%} of the processors between the policies: these "
            f"figures are noisy. Run this again on a quiet machine."
        )
