from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("--rounds", "2", "--seconds", "0.01")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )


@pytest.mark.slow
def test_entrants_take_turns_and_an_absent_one_is_named_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"

    done = bench("--only", "shell", *QUICK, "--peers", "/nowhere/python", "--json", str(file))

    entrants = json.loads(file.read_text())["rows"]["shell"]["entrants"]
    reason = "/nowhere/python cannot be run: No such file or directory"
    assert {"absent": reason} == entrants["SWE-ReX session"]
    assert f"absent: {reason}" in done.stdout
    assert [2, 2] == [len(entrants[name]["rounds"]) for name in ("arl-tangram", "bash over pipes")]
    assert entrants["arl-tangram"]["ours_over_this"] == 1.0


@pytest.mark.slow
def test_a_peer_whose_package_is_missing_is_absent_and_its_goals_are_not_measured(
    tmp_path: Path,
) -> None:
    file = tmp_path / "bench.json"

    # This interpreter has the project but not the peers.
    done = bench("--only", "lease", *QUICK, "--peers", sys.executable, "--json", str(file))

    row = json.loads(file.read_text())["rows"]["lease"]
    if "absent" not in row["entrants"]["Ray"]:
        pytest.skip("Ray is installed beside the tests")
    assert {"absent": "ModuleNotFoundError: No module named 'ray'"} == row["entrants"]["Ray"]
    assert [None] == [goal["met"] for goal in row["goals"]]
    assert "0 goals met, 0 missed, 1 not measured" in done.stdout


@pytest.mark.slow
def test_rounds_that_would_begin_too_late_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    done = bench("--only", "shell", *QUICK, "--limit", "0", "--peers", "/nowhere/python")

    assert "not measured\n" in done.stdout
    assert "The time was over before all rounds were run" in done.stdout


@pytest.mark.slow
def test_a_call_is_measured_beside_the_same_request_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"

    bench("--only", "call", *QUICK, "--json", str(file))

    figures = json.loads(file.read_text())["rows"]["call"]["entrants"]["arl-tangram"]["median"]
    assert 0 < min(figures["p50_s"], figures["direct_p50_s"])
    assert abs(figures["added_p50_s"]) < figures["p50_s"] + figures["direct_p50_s"]


@pytest.mark.slow
def test_a_restore_is_measured_beside_a_plain_copy(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    file = tmp_path / "bench.json"

    bench("--only", "restore", *QUICK, "--json", str(file))

    entrants = json.loads(file.read_text())["rows"]["restore"]["entrants"]
    assert ["arl-tangram", "a plain copy"] == list(entrants)
    assert all(entrant["median"]["gib_per_s"] > 0 for entrant in entrants.values())
