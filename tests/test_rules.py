"""The habits of the code base, checked."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from arl_tangram.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src/arl_tangram"
SMALL_PROGRAMS = PACKAGE / "workloads/demo"  # with a bug each, on purpose

MOST_LINES = 400
MOST_LINES_OF_A_TEST = 600
LONGER: dict[str, str] = {}
"""Files over the budget, each with the one idea that it could not be split by."""

BANNED = {
    r"unittest\.mock|\bMagicMock\b": "fakes are real objects with a port of ours",
    r"\b(TODO|FIXME|XXX|HACK)\b": "what is left to do is an issue",
    r"\bNotImplementedError\b": "a protocol's method has no body, and a class has them all",
}
BANNED_NAMES = re.compile(r"\bclass \w*(Manager|Handler|Helper|Util|Utils|Base[A-Z]\w*)\b")


def modules() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if SMALL_PROGRAMS not in path.parents:
            yield path


def relative(paths: Iterator[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def written_here() -> Iterator[Path]:
    yield from modules()
    for folder in ("tests", "scripts", "examples", "bench"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )


def arl_tangram(*arguments: str) -> subprocess.CompletedProcess[str]:
    return tool(sys.executable, "-c", "from arl_tangram.cli.main import main; main()", *arguments)


def test_imports_point_one_way() -> None:
    linter = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    if linter is None:
        pytest.skip("import-linter is not installed")

    done = tool(linter, "--no-cache", "--no-logo")

    assert 0 == done.returncode, done.stdout


@pytest.mark.parametrize("room", ["core", "policies"])
def test_a_pure_room_imports_the_standard_library_only(room: str) -> None:
    foreign = {
        (str(path.relative_to(PACKAGE)), name)
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for name in absolute_imports(path)
        if name.partition(".")[0] not in sys.stdlib_module_names
    }

    assert set() == foreign


def absolute_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


@pytest.mark.parametrize("name", ["arl_tangram", "arl_tangram.blocking"])
def test_all_equals_the_public_names(name: str) -> None:
    module = importlib.import_module(name)
    source = ast.parse(Path(module.__file__ or "").read_text())
    defined = {
        node.name for node in source.body if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    offered = {
        alias.asname or alias.name
        for block in source.body
        if isinstance(block, ast.If)  # TYPE_CHECKING
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    public = {name for name in defined | offered if not name.startswith("_")}

    assert sorted(public) == module.__all__
    assert [] == [name for name in module.__all__ if not hasattr(module, name)]


@pytest.mark.parametrize("path", relative(modules()))
def test_a_module_says_in_its_docstring_what_it_is_for(path: str) -> None:
    text = (ROOT / path).read_text()
    docstring = ast.get_docstring(ast.parse(text))

    assert docstring or not text.strip(), "no docstring"


def is_long(path: str) -> bool:
    tests = path.startswith("tests/") or "/testing/" in path
    most = MOST_LINES_OF_A_TEST if tests else MOST_LINES
    return len((ROOT / path).read_text().splitlines()) > most


@pytest.mark.parametrize("path", relative(written_here()))
def test_a_file_is_short_enough_to_be_one_idea(path: str) -> None:
    assert path in LONGER or not is_long(path)


def test_an_exception_to_the_size_budget_is_still_needed() -> None:
    needless = [path for path in LONGER if not is_long(path)]

    assert [] == needless


@pytest.mark.parametrize(
    "path", relative(p for p in written_here() if p != Path(__file__).resolve())
)
def test_a_file_has_no_banned_words(path: str) -> None:
    text = (ROOT / path).read_text()
    found = [(word, why) for word, why in BANNED.items() if re.search(word, text)]
    found += [(match[0], "say what it does") for match in BANNED_NAMES.finditer(text)]

    assert [] == found


def test_generated_parts_and_links_of_the_documentation_hold() -> None:
    done = tool(sys.executable, "scripts/docs", "check", "--no-snippets")

    assert 0 == done.returncode, done.stderr


def test_every_kind_of_news_fragment_is_known_to_the_changelog() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    kinds = {kind["directory"] for kind in settings["type"]}
    fragments = [path.name for path in (ROOT / settings["directory"]).glob("*.*.md")]

    assert [] == [name for name in fragments if name.split(".")[-2] not in kinds]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_help_and_json_output(command: str) -> None:
    done = arl_tangram(command, "--help")

    assert 0 == done.returncode, done.stderr
    assert re.search(r"(^|[\s,])-o\b", done.stdout), "no option -o"


@pytest.mark.slow
def test_the_command_without_arguments_lists_every_command() -> None:
    shown = arl_tangram("--help").stdout

    assert [] == [command for command in COMMANDS if command not in shown]


@pytest.mark.slow
def test_the_version_is_that_of_the_distribution_and_costs_no_import_of_a_room() -> None:
    program = (
        "import sys, json\n"
        "from arl_tangram.cli.main import main\n"
        "try: main(['--version'])\n"
        "finally: print(json.dumps(sorted(sys.modules)))"
    )
    version, loaded = tool(sys.executable, "-c", program).stdout.splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert f"arl-tangram {project['version']}" == version
    assert [] == [
        name for name in json.loads(loaded) if name.split(".")[0] in ("plotly", "pydantic")
    ]
