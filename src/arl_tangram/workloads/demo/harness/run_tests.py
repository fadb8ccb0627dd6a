"""Runs a project's whole test suite, split over worker processes.

As many workers run as the action may ever get cores for (``ARL_TANGRAM_MAX_CPUS``), each taking
the next test when it is free, so cores that come later find a worker waiting for them. The last
line printed is ``reward PASSED/TOTAL``.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import sys
import time
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path

TICKET = 2  # bytes of a test's index in the pipe that the workers draw from
LONGEST_STORY = 1500  # characters of a failure; with them a line stays below PIPE_BUF


def written_tests(files: list[Path]) -> int:
    """How many tests the files define, whether or not they can be imported."""
    return sum(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
    )


def importable_tests(files: list[Path]) -> list[unittest.TestCase]:
    """The tests of all files that can be imported; the others are printed, and count as failed."""
    tests: list[unittest.TestCase] = []
    for file in files:
        try:
            module = importlib.import_module(f"tests.{file.stem}")
        except Exception:  # whatever a broken project may raise
            traceback.print_exc(file=sys.stdout)
        else:
            tests += flatten(unittest.defaultTestLoader.loadTestsFromModule(module))
    return tests


def flatten(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flatten(test)
        else:
            yield test


def work(tests: list[unittest.TestCase], tickets: int, results: int) -> None:
    """Run the next test until none is left, writing one line of JSON for each."""
    while ticket := os.read(tickets, TICKET):
        test = tests[int.from_bytes(ticket, "big")]
        verdict = unittest.TestResult()
        began = time.perf_counter()
        test.run(verdict)
        stories = [story for _, story in verdict.failures + verdict.errors]
        line = {
            "test": test.id(),
            "passed": verdict.wasSuccessful(),
            "seconds": round(time.perf_counter() - began, 3),
            "story": "".join(stories)[-LONGEST_STORY:],
        }
        os.write(results, json.dumps(line).encode() + b"\n")


def run_split(tests: list[unittest.TestCase], workers: int) -> list[dict[str, object]]:
    """Run the tests on this many forked workers; a worker that dies loses only its own test."""
    tickets, ticket_office = os.pipe()
    results, result_desk = os.pipe()
    os.write(ticket_office, b"".join(i.to_bytes(TICKET, "big") for i in range(len(tests))))
    os.close(ticket_office)
    sys.stdout.flush()
    children = []
    for _ in range(min(workers, len(tests))):
        child = os.fork()
        if child == 0:
            try:
                work(tests, tickets, result_desk)
            finally:
                os._exit(0)
        children.append(child)
    os.close(result_desk)
    os.close(tickets)
    with os.fdopen(results) as lines:
        verdicts = [json.loads(line) for line in lines]
    for child in children:
        os.waitpid(child, 0)
    return verdicts


def main() -> int:
    files = sorted(Path("tests").glob("test_*.py"))
    total = written_tests(files)
    tests = importable_tests(files)
    workers = int(os.environ.get("ARL_TANGRAM_MAX_CPUS") or os.cpu_count() or 1)
    verdicts = run_split(tests, workers)
    for verdict in sorted(verdicts, key=lambda v: str(v["test"])):
        print("ok  " if verdict["passed"] else "FAIL", verdict["test"], f"{verdict['seconds']} s")
        if verdict["story"]:
            print(verdict["story"])
    passed = sum(bool(verdict["passed"]) for verdict in verdicts)
    print(f"reward {passed}/{total}")
    return 0 if passed == total else 1


if __name__ == "__main__":
    sys.path.insert(0, ".")
    raise SystemExit(main())
