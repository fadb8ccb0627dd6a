"""Runs rows: every entrant in turn, round after round."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .contestant import Contestant
from .machine import Watch
from .measuring import Absent, Figures
from .rows import OURS, Entrant, Row

PEERS = frozenset({"ray_tasks", "swe_rex"})
"""Contestants that need the peers' packages."""
PATIENCE_S = 120.0
Told = Callable[[str], None]


@dataclass
class Standing:
    """What is known of a row.

    Attributes:
        rounds: the figures of every round, by entrant.
        absent: why an entrant could not be measured, or not to the end.
        cut_short: whether the time was over before the rounds were.
    """

    row: Row
    rounds: dict[str, list[Figures]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    cut_short: bool = False

    @property
    def medians(self) -> Mapping[str, Figures]:
        """The median of every figure over the rounds, by entrant."""
        return {
            name: {
                figure: statistics.median(round_[figure] for round_ in rounds)
                for figure in rounds[0]
            }
            for name, rounds in self.rounds.items()
            if name not in self.absent
        }

    def ratios(self) -> Mapping[str, float]:
        """Our first figure over that of every other; empty if we do not take part."""
        medians = self.medians
        figure = self.row.figures[0]
        if OURS not in medians:
            return {}
        ours = medians[OURS][figure]
        return {name: ours / theirs[figure] for name, theirs in medians.items() if name != OURS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """How rows are run.

    Attributes:
        ours: the interpreter that has this project.
        peers: the interpreter that has the peers.
        seconds: how long one measurement lasts.
        limit_s: no round begins later than this after the start.
        told: told what is being done.
    """

    ours: Path
    peers: Path
    rounds: int
    seconds: float
    limit_s: float
    told: Told

    def run(self, rows: Sequence[Row], watch: Watch) -> tuple[list[Standing], dict[str, object]]:
        """Measure all rows; also what the contestants say about themselves."""
        deadline = time.monotonic() + self.limit_s
        standing_by: dict[str, Contestant] = {}
        about: dict[str, object] = {}
        standings = []
        try:
            for number, row in enumerate(rows):
                if time.monotonic() < deadline:
                    for entrant in row.entrants:
                        if entrant.module not in standing_by:
                            standing_by[entrant.module] = self._start(entrant)
                standings.append(self._run(row, standing_by, watch, deadline=deadline))
                about |= {name: one.about for name, one in standing_by.items() if one.about}
                later = {entrant.module for row in rows[number + 1 :] for entrant in row.entrants}
                for name in set(standing_by) - later:
                    standing_by.pop(name).end()
        finally:
            for one in standing_by.values():
                one.end()
        return standings, about

    def _start(self, entrant: Entrant) -> Contestant:
        python = self.peers if entrant.module in PEERS else self.ours
        return Contestant(python, entrant.module)

    def _run(
        self, row: Row, standing_by: Mapping[str, Contestant], watch: Watch, *, deadline: float
    ) -> Standing:
        standing = Standing(row)
        for number in range(self.rounds):
            if time.monotonic() > deadline:
                standing.cut_short = True
                break
            for entrant in row.entrants:
                if entrant.name in standing.absent:
                    continue
                self.told(f"{row.name}: round {number + 1} of {self.rounds}, {entrant.name}")
                try:
                    figures = standing_by[entrant.module].measure(
                        entrant.measure,
                        seconds=self.seconds,
                        number=number,
                        patience_s=PATIENCE_S,
                    )
                except Absent as absent:
                    standing.absent[entrant.name] = str(absent)
                else:
                    standing.rounds.setdefault(entrant.name, []).append(figures)
            watch.look()
        return standing
