"""Reads the recorded trajectories that come with the package."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.model import Outcome, Seconds
from ..workloads import demo

REWARD_COMMAND = "python3 run_tests.py"
"""Runs a project's whole test suite; its last line is ``reward PASSED/TOTAL``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One command of an agent.

    Attributes:
        thought: why it is run, in the agent's words.
        kind: under which its duration is learned.
        timeout_s: its time limit; None means that it surely ends by itself.
        outcome: how it ended when it was recorded.
    """

    thought: str
    command: str
    kind: str = "bash"
    timeout_s: Seconds | None = None
    outcome: Outcome = Outcome.SUCCEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A rollout as it was recorded.

    Attributes:
        project: the folder that it starts from.
        title: what happens in it, in a sentence.
        passed: how many of the `tests` pass at its end.
    """

    name: str
    project: Path
    title: str
    passed: int
    tests: int
    turns: tuple[Turn, ...]

    @property
    def reward(self) -> float:
        """The share of tests that pass at its end."""
        return self.passed / self.tests

    @property
    def sources(self) -> tuple[Path, ...]:
        """The folders whose content its environment starts with."""
        return (self.project, _folder() / "harness")


def recordings() -> tuple[Recording, ...]:
    """All recorded trajectories, by name."""
    return tuple(_read(path) for path in sorted(_folder().glob("trajectories/*.toml")))


def reward_of(output: str) -> float:
    """The share of tests passed, from the last line of the runner's output.

    Raises `ValueError` if the suite did not get as far as that line.
    """
    lines: Sequence[str] = output.splitlines()
    match lines[-1].split() if lines else []:
        case ["reward", share]:
            passed, total = share.split("/")
            return int(passed) / int(total)
    raise ValueError(f"no reward in the last line of {output[-200:]!r}")


def _read(path: Path) -> Recording:
    recorded = tomllib.loads(path.read_text())
    passed, tests = recorded["reward"].split("/")
    return Recording(
        name=path.stem,
        project=_folder() / "projects" / recorded["project"],
        title=recorded["title"],
        passed=int(passed),
        tests=int(tests),
        turns=tuple(_turn(turn) for turn in recorded["turn"]),
    )


def _turn(recorded: dict[str, Any]) -> Turn:
    return Turn(**{**recorded, "outcome": Outcome(recorded.get("outcome", "succeeded"))})


def _folder() -> Path:
    return Path(demo.__file__).parent
