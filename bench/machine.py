"""The machine that is measured on, and how busy others keep it meanwhile."""

from __future__ import annotations

import os
import platform
import statistics
from pathlib import Path

from arl_tangram.demo.neighbours import BUSY, used_by_others


class Watch:
    """Looks, between two measurements, at how much of the machine is in use by others."""

    def __init__(self) -> None:
        self.load_at_start = os.getloadavg()[0]
        self._shares: list[float] = []

    def look(self) -> None:
        """Take a sample; it lasts a moment, in which nothing of ours may work."""
        self._shares.append(used_by_others())

    @property
    def busy_share(self) -> float:
        """The share in use by others, the median of all samples."""
        return statistics.median(self._shares)

    @property
    def warning(self) -> str | None:
        """What to tell the reader if the machine was too busy for its figures to be trusted."""
        if self.busy_share <= BUSY:
            return None
        return (
            f"others used {self.busy_share:.0%} of the processors between measurements (load "
            f"average {self.load_at_start:.1f} at the start): absolute figures mean little now, and "
            f"ratios are noisy. Run this again on a quiet machine."
        )

    def as_json(self) -> dict[str, object]:
        """The machine and how busy it was."""
        return {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)),
            "python": platform.python_version(),
            "load_average_at_start": self.load_at_start,
            "load_average_at_end": os.getloadavg()[0],
            "busy_share_between_measurements": self.busy_share,
            "busy": self.warning is not None,
        }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
