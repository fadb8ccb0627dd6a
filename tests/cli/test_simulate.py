from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from arl_tangram.cli.simulate import simulate
from arl_tangram.core.kernel import Kernel
from arl_tangram.errors import ConfigError
from arl_tangram.policies.registry import policy_named
from arl_tangram.runtime.journal import Journal

SMALL = ("--batch", "6", "--nodes", "8")


def run(*arguments: str) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(simulate)
    return CliRunner().invoke(app, list(arguments))


def test_the_json_has_the_figures_of_every_policy_and_the_bounds() -> None:
    document = json.loads(run("coding", *SMALL, "--policy", "inflight", "-o", "json").stdout)

    assert ("coding", "8", 0) == (document["workload"], document["nodes"], document["seed"])
    assert ["inflight"] == list(document["policies"])
    figures = document["policies"]["inflight"]
    assert figures["step_s"] >= document["bounds"]["step_s"] > 0
    assert figures["act_mean_s"] >= document["bounds"]["act_mean_s"] > 0
    assert figures["act_mean_s"] == pytest.approx(
        figures["queue_mean_s"] + figures["overhead_mean_s"] + figures["run_mean_s"]
    )


def test_static_tangram_and_inflight_are_compared_if_nothing_is_said() -> None:
    done = run("coding", *SMALL)

    assert 0 == done.exit_code
    firsts = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert ["policy", "static", "tangram", "inflight", "bound"] == firsts[-5:]


def test_a_written_trace_gives_the_same_figures(tmp_path: Path) -> None:
    trace = tmp_path / "coding.jsonl"

    assert "" == run("coding", *SMALL, "--write-trace", str(trace)).stdout
    direct, through = (
        json.loads(run(name, "--nodes", "8", *more, "-p", "inflight", "-o", "json").stdout)
        for name, more in (("coding", ("--batch", "6")), (str(trace), ()))
    )

    assert direct["policies"] == through["policies"]
    assert direct["bounds"] == through["bounds"]


def test_a_policy_under_which_nothing_fits_has_no_figures() -> None:
    small = ("coding", "--batch", "2", "--nodes", "1", "--static-cores", "2")

    done = run(*small, "-p", "static", "-p", "inflight")
    figures = json.loads(run(*small, "-p", "static", "-p", "inflight", "-o", "json").stdout)

    assert 0 == done.exit_code
    assert {"-"} == set(re.findall(r"^static +(.*)$", done.stdout, re.MULTILINE)[0].split())
    assert figures["policies"]["static"]["act_mean_s"] is None
    assert [] == figures["policies"]["static"]["step_by_seed_s"]
    assert figures["policies"]["inflight"]["act_mean_s"] > 0


def test_a_cluster_on_which_nothing_fits_is_an_error() -> None:
    done = run("coding", "--batch", "2", "--nodes", "1", "--static-cores", "2", "-p", "static")

    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith("nodes='1': no trajectory of coding fits on a node")


def test_several_workloads_are_one_step_on_one_cluster(tmp_path: Path) -> None:
    trace = tmp_path / "small.jsonl"
    trace.write_text('{"task": "mine", "trajectory": "t", "work_s": 2.0}\n')

    document = json.loads(run(str(trace), "coding", *SMALL, "-p", "equi", "-o", "json").stdout)

    assert f"{trace}+coding" == document["workload"]
    assert 7 == document["trajectories"]
    assert {"coding", "mine"} == set(document["policies"]["equi"]["step_by_task_s"])


def test_a_step_that_calls_services_runs_on_nodes_with_gpus() -> None:
    document = json.loads(run("mopd", *SMALL, "--gpus", "2", "-p", "inflight", "-o", "json").stdout)

    figures = document["policies"]["inflight"]
    assert {"succeeded": 6} == figures["outcomes"]
    assert figures["restores"] >= 2
    assert 0.0 < figures["gpu_utilization"] < 1.0


def test_two_workloads_share_gpus_and_the_quota_is_told_of() -> None:
    arguments = ("mopd", "deepsearch", *SMALL, "--gpus", "5x8")

    document = json.loads(run(*arguments, "-p", "static", "-p", "inflight", "-o", "json").stdout)

    assert "mopd+deepsearch" == document["workload"]
    for figures in document["policies"].values():
        assert {"mopd", "deepsearch"} == set(figures["step_by_task_s"])
        assert 0.0 == figures["quotas"]["search"]["most_over"]
        assert 1.0 == pytest.approx(figures["quotas"]["search"]["used_while_waiting"])


@pytest.mark.parametrize("policy", ["tangram", "inflight"])
def test_a_journal_of_services_replays(tmp_path: Path, policy: str) -> None:
    journal = tmp_path / "j"
    workloads = ("mopd", "deepsearch", "--batch", "30")
    arguments = (*workloads, "--gpus", "4", "-p", policy, "--journal", str(journal))

    assert 0 == run(*arguments).exit_code
    assert Journal.read(journal).first_difference() is None


def test_several_seeds_are_given_as_a_range() -> None:
    document = json.loads(
        run("coding", *SMALL, "--seeds", "3-4,7", "-p", "inflight", "-o", "json").stdout
    )

    assert [3, 4, 7] == document["seeds"]
    assert 3 == len(document["policies"]["inflight"]["step_by_seed_s"])


def test_the_report_is_one_page_that_needs_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "report.html"

    done = run("coding", *SMALL, "-p", "static", "-p", "inflight", "--report", str(page))

    text = page.read_text()
    plain = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert f"Report: {page}" in done.stderr
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", text)
    assert "://" not in plain
    assert 3 == text.count('Plotly.newPlot("figure-')
    assert all(f"<td>{name}</td>" in plain for name in ("static", "inflight", "bound"))
    assert all(axis in text for axis in ("time in the step (s)", "step time (s)", '"cores"'))


def test_the_journal_of_a_run_replays_to_the_same_commands(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"

    assert 0 == run("coding", *SMALL, "-p", "inflight", "--journal", str(journal)).exit_code
    found = Journal.read(journal)

    assert "inflight" == found.header.policy
    assert "NodeJoined" == type(found.lines[0].event).__name__
    kernel = Kernel(policy_named(found.header.policy))
    assert [line.commands for line in found.lines] == [
        kernel.handle(line.event) for line in found.lines
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("codign",), r"workload='codign': neither a built-in .* did you mean 'coding'\?"),
        (("coding", "--nodes", "lots"), "nodes='lots': give COUNTxCORES"),
        (("coding", "-p", "outflight"), "policy='outflight': use one of"),
        (("coding", "--seeds", "4-"), "seeds='4-': give a range as in 0-4"),
        (("coding", "--seeds", "4-1"), "seeds='4-1': the range is empty"),
        (("coding", "--journal", "j"), "a journal holds one run"),
        (
            ("coding", "--journal", "j", "-p", "inflight", "--estimates", "oracle"),
            "cannot be replayed",
        ),
        (("mopd",), "give nodes with GPUs, as in --gpus 5x8"),
        (("mopd", "--gpus", "lots"), "gpus='lots': give COUNTxGPUS as in 5x8"),
        (("mopd", "--gpus", "4"), "policy='static': one instance of each of 9 services"),
        (
            ("mopd", "--gpus", "4", "--journal", "j", "-p", "equi", "--eviction", "belady"),
            "told the future",
        ),
        (("coding", "--write-trace", "/nowhere/t"), "write-trace='/nowhere/t': No such file"),
    ],
)
def test_a_mistake_names_the_option_the_value_and_the_mend(
    arguments: tuple[str, ...], message: str
) -> None:
    done = run(*SMALL, *arguments)

    assert isinstance(done.exception, ConfigError)
    assert re.search(message, str(done.exception)), done.exception


def test_a_wrong_trace_names_its_line(tmp_path: Path) -> None:
    trace = tmp_path / "bad.jsonl"
    trace.write_text('{"trajectory": "t", "work_s": 2.0}\n{"trajectory": "t", "work_s": "2"}\n')

    done = run(str(trace))

    assert f"{trace}, line 2: work_s='2': give seconds, at least 0" == str(done.exception)


def test_a_workload_given_twice_is_named() -> None:
    with pytest.raises(ConfigError, match="workload 'mopd' is given twice"):
        simulate(["mopd", "coding", "mopd"])
