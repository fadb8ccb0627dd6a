"""Part of the suite again as a user without rights, since that is what most people are."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHOSEN = (
    "contract and this_machine",
    "timeout_ends_the_whole_tree or any_bytes or orphans",
    "kills_all or closing_every_file or closes_its_output or planted or pkill",
    "second_trajectory or homes or network or left_in_the_background_answers",
    "without_groups",
    "is_refused or are_not_refused or nothing_else_in_memory",
)


@pytest.mark.skipif(os.getuid() != 0, reason="root: only it can become another user")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv")
@pytest.mark.timeout(320)  # it is a suite by itself, and has 300 s
def test_a_user_without_rights_gets_the_same_with_less_in_force(tmp_path):
    here = Path(__file__).parent
    ended = as_nobody(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not alone and not cgroup2",
            "-k",
            " or ".join(f"({part})" for part in CHOSEN),
            str(here),
        ],
    )

    assert 0 == ended.returncode, ended.stdout[-6000:]
    assert "passed" in ended.stdout


@pytest.mark.skipif(os.getuid() != 0, reason="root: only it can become another user")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv")
def test_a_user_without_rights_is_told_what_is_weaker():
    ended = as_nobody(
        [
            sys.executable,
            "-c",
            PROBE,
        ],
    )

    assert "rlimits" in ended.stdout
    assert "not in force: cpu, cores, memory, pids, freeze (cgroup-v" in ended.stdout


def as_nobody(command):
    """Run a command as nobody, who is let through to our interpreter and checkout."""
    # A home is closed to others, and the interpreter may lie in it: its way there is made passable
    # in a mount namespace of the command's own.
    closed = {
        folder
        for path in (Path(sys.executable).resolve(), Path(sys.prefix), Path(__file__))
        for folder in path.parents
        if folder != Path("/") and not folder.stat().st_mode & 0o001
    }
    shown = {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), Path(__file__).parents[2]}
    passable = []
    for folder in sorted(closed):
        passable += ["--tmpfs", str(folder), "--chmod", "0755", str(folder)]
    for folder in sorted({above for path in shown for above in path.parents if above.name}):
        if any(folder.is_relative_to(top) for top in closed):
            passable += ["--dir", str(folder)]
    for path in sorted(shown):
        passable += ["--ro-bind", str(path), str(path)]
    return subprocess.run(
        [
            "bwrap",
            "--dev-bind",
            "/",
            "/",
            *(passable if closed else ()),
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            *command,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": "/nonexistent"},
        cwd="/",
    )


PROBE = """
from arl_tangram.executors import probe
report = probe.choose().report
print(report.enforcement, report.isolation, *report.weaker, sep="\\n")
"""
