"""What `scripts/docs` finds wrong with a page."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def scripts_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts/docs")


def documented(command: str) -> object:
    """The JSON document under the heading of a subcommand."""
    page = (ROOT / "docs/reference/json-outputs.md").read_text()
    _, _, section = page.partition(f"## `arl-tangram {command}`\n")
    match = re.search(r"```json\n(.*?)```", section, re.DOTALL)
    assert match
    return json.loads(match[1])


def keys(value: object, *, below: str = "") -> set[str]:
    """The paths of all keys in a JSON value; of a list, those of its first item."""
    if isinstance(value, list):
        return keys(value[0], below=below) if value else set()
    if not isinstance(value, dict):
        return set()
    return {
        path
        for key, inner in value.items()
        for path in ({below + key} | keys(inner, below=f"{below}{key}."))
    }


def broken(folder: Path, text: str) -> list[str]:
    from links import broken_links

    page = folder / "page.md"
    page.write_text(text)
    return broken_links(page, root=folder)


def test_a_link_to_a_file_or_a_heading_that_is_there_is_fine(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# The `inflight` policy, briefly\n")

    assert [] == broken(
        tmp_path,
        "# Here\n[a](other.md) [b](other.md#the-inflight-policy-briefly) [c](#here)"
        " [d](scheme:elsewhere)\n```text\n[e](code.md)\n```\n",
    )


@pytest.mark.parametrize("target", ["missing.md", "#missing", "../outside.md"])
def test_a_link_that_leads_nowhere_is_a_complaint(tmp_path: Path, target: str) -> None:
    (complaint,) = broken(tmp_path, f"# Here\n[a]({target})\n")

    assert target in complaint


def test_snippets_are_the_python_and_shell_blocks_that_are_not_marked() -> None:
    from snippets import snippets_of

    text = (
        "```python\none\n```\n```text\ntwo\n```\n```sh\nthree\n```\n"
        "<!-- not run: it takes a day -->\n```sh\nfour\n```\n"
    )

    assert [("python", "one\n", 2), ("sh", "three\n", 8)] == [
        (snippet.language, snippet.code, snippet.line) for snippet in snippets_of(text)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "code", "said"),
    [
        ("python", "print(1)\n", ""),
        ("python", "raise SystemExit('no')\n", "it ended in 1:\nno\n"),
        ("sh", "false\ntrue\n", "it ended in 1:\n"),
    ],
)
def test_a_snippet_that_fails_is_a_complaint(language: str, code: str, said: str) -> None:
    from snippets import Snippet

    assert said == Snippet(language=language, code=code, line=1).complaint()


def test_a_generated_part_is_replaced_and_the_rest_of_the_page_is_kept() -> None:
    from parts import PARTS, renewed

    page = "before\n<!-- generated: error-tree -->\nold\n<!-- end -->\nafter\n"

    assert (
        f"before\n<!-- generated: error-tree -->\n{PARTS['error-tree']()}\n<!-- end -->\nafter\n"
        == renewed(page)
    )


def test_the_documented_json_of_the_demo_has_its_figures() -> None:
    from arl_tangram.demo.figures import Figures

    shown = keys(documented("demo"))
    figures = {f"policies.inflight.{field.name}" for field in dataclasses.fields(Figures)}

    assert figures == {key for key in shown if re.fullmatch(r"policies\.inflight\.\w+", key)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("run", ["--", "true"]),
        ("doctor", []),
        ("simulate", ["coding", "--batch", "2", "--nodes", "1x16", "--policy", "inflight"]),
    ],
)
def test_the_documented_json_is_what_the_command_prints(command: str, arguments: list[str]) -> None:
    program = "from arl_tangram.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, command, "-o", "json", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    shown, printed = keys(documented(command)), keys(json.loads(done.stdout))
    depends = ("outcomes.", "act_mean_by_kind_s.")  # on the run

    assert set() == {key for key in shown - printed if not any(part in key for part in depends)}
    assert set() == {
        key for key in printed - shown if not any(part in key for part in (*depends, "guarantees."))
    }
