"""`arl-tangram doctor` tells the same to people and to programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from arl_tangram.executors.probe import GUARANTEES

pytestmark = pytest.mark.slow

PROGRAM = [str(Path(sys.executable).with_name("arl-tangram")), "doctor"]


def doctor(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *words], check=False, capture_output=True, text=True, timeout=60
    )


def test_it_tells_what_is_in_force_here() -> None:
    text, told = doctor().stdout, json.loads(doctor("-o", "json").stdout)

    assert sorted(os.sched_getaffinity(0)) == told["machine"]["cpus"]
    assert list(GUARANTEES) == list(told["guarantees"])
    assert told["enforcement"] in text
    assert told["isolation"] in text
    for sentence in told["weaker"] + told["mend"]:
        assert sentence in text
    assert all(told["guarantees"].values()) or told["weaker"]


def test_what_is_required_and_unknown_is_a_mistake() -> None:
    done = doctor("--require", "magic")

    assert 2 == done.returncode
    assert "require='magic': use cpu" in done.stderr
