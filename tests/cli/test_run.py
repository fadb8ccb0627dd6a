"""`arl-tangram run`, as a shell sees it: real processes, real limits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = [str(Path(sys.executable).with_name("arl-tangram")), "run"]


def arl_tangram(*words: str, cwd: Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *words],
        check=False,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


def gone(pattern: str) -> bool:
    """Whether no process has this in its command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if pattern in (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode():
                return False
        except OSError:
            continue
    return True


def test_it_works_in_the_current_folder_and_gives_the_commands_status(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("content\n")

    done = arl_tangram(
        "--cpus", "1:8", "--", "sh", "-c", "cat in; pwd; echo $MINE; echo made > out; echo e >&2; exit 7",
        cwd=tmp_path, env={**os.environ, "MINE": "own"},
    )  # fmt: skip

    assert (7, f"content\n{tmp_path}\nown\n", "e\n") == (done.returncode, done.stdout, done.stderr)
    assert "made\n" == (tmp_path / "out").read_text()


def test_output_comes_while_the_command_runs(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*PROGRAM, "--", "echo first; read line < go; echo second"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        os.mkfifo(tmp_path / "go")
        assert process.stdout is not None
        assert "first\n" == process.stdout.readline()
        (tmp_path / "go").write_text("\n")
        assert "second\n" == process.stdout.readline()
        assert 0 == process.wait(30)


def test_a_time_limit_ends_the_whole_tree_with_124(tmp_path: Path) -> None:
    done = arl_tangram(
        "--timeout", "0.5s", "--", "echo so far; setsid sleep 61.25 & sleep 61.25", cwd=tmp_path
    )

    assert (124, "so far\n") == (done.returncode, done.stdout)
    assert "arl-tangram: timed out" in done.stderr
    assert gone("sleep 61.25")


def test_silence_ends_a_command_with_124(tmp_path: Path) -> None:
    done = arl_tangram("--idle-timeout", "300ms", "--", "echo a; sleep 60", cwd=tmp_path)

    assert (124, "a\n") == (done.returncode, done.stdout)
    assert "timed out: it printed nothing for 0.3 s" in done.stderr


def test_a_termination_ends_what_it_runs(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*PROGRAM, "--", "echo up; sleep 62.25"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert 143 == process.wait(30)
    assert gone("sleep 62.25")


def test_an_isolated_command_sees_nothing_of_ours_and_json_tells_all(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")

    done = arl_tangram(
        "--isolated", "--memory", "256MiB", "-o", "json", "-i", "--", "ls -A; cat; echo e >&2",
        cwd=tmp_path, input="given",
    )  # fmt: skip

    assert 0 == done.returncode, done.stderr
    told = json.loads(done.stdout)
    assert ("succeeded", 0, "given", "e\n") == (
        told["outcome"],
        told["exit_code"],
        told["stdout"],
        told["stderr"],
    )
    timing = told["timing"]
    assert timing["act_s"] == timing["queued_s"] + timing["overhead_s"] + timing["run_s"]
    assert 1.0 == told["grants"][0][1]


def test_a_command_that_is_not_there_is_127_as_in_a_shell(tmp_path: Path) -> None:
    done = arl_tangram("--", "no-such-program", "x", cwd=tmp_path)

    assert 127 == done.returncode
    assert "no-such-program" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cpus", "many"], "cpus='many': give a number"),
        (["--timeout", "soon"], "timeout='soon': give seconds"),
        (["--memory", "much"], "memory='much': give bytes"),
        (["--workspace", "/no/such"], "workspace='/no/such': there is no such folder"),
        (["--require", "magic"], "require='magic': use cpu"),
    ],
)
def test_a_mistake_is_status_2_with_the_field_the_value_and_the_remedy(
    tmp_path: Path, words: list[str], message: str
) -> None:
    done = arl_tangram(*words, "--", "true", cwd=tmp_path)

    assert 2 == done.returncode
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_what_can_never_run_here_is_status_1_with_the_reason(tmp_path: Path) -> None:
    done = arl_tangram("--cpus", "4096", "--", "true", cwd=tmp_path)

    assert 1 == done.returncode
    assert "arl-tangram: rejected: it can never run" in done.stderr


def test_a_reader_that_leaves_ends_the_command(tmp_path: Path) -> None:
    began = time.monotonic()
    done = subprocess.run(
        f"{' '.join(PROGRAM)} -- yes | head -1", shell=True, check=False, capture_output=True, text=True,
        cwd=tmp_path, timeout=60,
    )  # fmt: skip

    assert "y\n" == done.stdout
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("isolated", [[], ["--isolated"]])
def test_output_that_cannot_be_written_is_said_in_a_line(
    tmp_path: Path, isolated: list[str]
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, *isolated, "--", "echo", "hi"],
            check=False, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
        )  # fmt: skip

    assert 1 == done.returncode
    assert "arl-tangram: standard output: No space left on device\n" == done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--isolated", "--workspace", "/tmp", "--", "true"), "--workspace: with --isolated"),
        (("--network", "--", "true"), "--network: without --isolated"),
        (("--", ""), "the command is empty"),
    ],
)
def test_what_would_have_no_effect_is_a_mistake(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    done = arl_tangram(*words, cwd=tmp_path)

    assert 2 == done.returncode
    assert said in done.stderr
