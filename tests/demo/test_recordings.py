from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.demo.recordings import REWARD_COMMAND, Recording, recordings, reward_of

RECORDINGS = recordings()
PROJECTS = sorted({recording.project for recording in RECORDINGS})


def variables(*, work: float, workers: int) -> dict[str, str]:
    here = Path(sys.executable).parent
    return {
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
        "DEMO_WORK": str(work),
        "ARL_TANGRAM_MAX_CPUS": str(workers),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def workspace(recording: Recording, folder: Path) -> Path:
    for source in recording.sources:
        shutil.copytree(source, folder, dirs_exist_ok=True)
    return folder


def run(
    command: str, folder: Path, given: dict[str, str], timeout_s: float | None
) -> tuple[Outcome, str]:
    """Run a command line and end its whole session, whatever it started."""
    with subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder,
        env=given,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return Outcome.TIMED_OUT, process.communicate()[0]
    return (Outcome.FAILED if process.returncode else Outcome.SUCCEEDED), output


@pytest.mark.slow
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.name)
def test_a_replay_on_two_workers_ends_as_recorded(recording: Recording, tmp_path: Path) -> None:
    folder, given = workspace(recording, tmp_path), variables(work=0.02, workers=2)

    for turn in recording.turns:
        outcome, output = run(turn.command, folder, given, turn.timeout_s)
        assert turn.outcome is outcome, f"{turn.command}\n{output}"
    _, output = run(REWARD_COMMAND, folder, given, None)

    assert f"reward {recording.passed}/{recording.tests}" == output.splitlines()[-1], output


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3, 16])
def test_the_reward_does_not_depend_on_workers_or_work(workers: int, tmp_path: Path) -> None:
    recording = RECORDINGS[0]
    folder = workspace(recording, tmp_path)

    given = variables(work=0.01 * workers, workers=workers)
    _, output = run(REWARD_COMMAND, folder, given, None)

    assert "reward 7/18" == output.splitlines()[-1]


def test_a_worker_that_dies_costs_only_its_own_test(tmp_path: Path) -> None:
    folder = workspace(RECORDINGS[0], tmp_path)
    shutil.rmtree(folder / "tests")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_death.py").write_text(
        "import os, unittest\n"
        "class DeathTest(unittest.TestCase):\n"
        "    def test_a(self): os.kill(os.getpid(), 9)\n"
        "    def test_b(self): pass\n"
        "    def test_c(self): pass\n"
    )

    outcome, output = run(REWARD_COMMAND, folder, variables(work=1, workers=2), None)

    assert (Outcome.FAILED, "reward 2/3") == (outcome, output.splitlines()[-1])


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_every_project_has_several_recordings_and_one_that_repairs_it(project: Path) -> None:
    rewards = [recording.reward for recording in RECORDINGS if recording.project == project]

    assert len(rewards) >= 3
    assert 1.0 in rewards
    assert min(rewards) < 1.0


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_projects_are_small_enough_to_read(project: Path) -> None:
    program = (project / f"{project.name}.py").read_text().splitlines()
    tests = (project / "tests" / f"test_{project.name}.py").read_text()

    assert 20 <= len(program) <= 125
    assert 10 <= tests.count("    def test_") <= 40


def test_there_are_rollouts_of_every_sort() -> None:
    rewards = Counter(
        {0.0: "none", 1.0: "all"}.get(recording.reward, "some") for recording in RECORDINGS
    )
    outcomes = Counter(turn.outcome for recording in RECORDINGS for turn in recording.turns)

    assert len(PROJECTS) >= 8
    assert {"none", "some", "all"} == set(rewards)
    assert {Outcome.SUCCEEDED, Outcome.FAILED, Outcome.TIMED_OUT} == set(outcomes)


def test_only_what_hangs_has_a_time_limit() -> None:
    turns = [turn for recording in RECORDINGS for turn in recording.turns]

    assert [turn.outcome is Outcome.TIMED_OUT for turn in turns] == [
        turn.timeout_s is not None for turn in turns
    ]


def test_the_reward_is_the_share_in_the_last_line() -> None:
    assert 0.75 == reward_of("ok a\nFAIL b\nreward 3/4\n")


@pytest.mark.parametrize("output", ["", "Traceback\nKeyError: 3\n", "reward 3/4\nand more\n"])
def test_a_suite_without_a_last_word_has_no_reward(output: str) -> None:
    with pytest.raises(ValueError, match="no reward"):
        reward_of(output)
