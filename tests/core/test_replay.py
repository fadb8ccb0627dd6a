"""The same events give the same commands: in another kernel, and in another process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from arl_tangram.core.estimates import Learned
from arl_tangram.core.kernel import Kernel
from arl_tangram.policies.registry import policy_named
from arl_tangram.testing.random_run import random_run

POLICIES = ["inflight", "tangram", "fixed:2", "equi", "hesrpt"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_replayed_journal_gives_the_same_commands(policy: str) -> None:
    journal = random_run(policy, seed=1, events=400)
    twin = Kernel(policy_named(policy))

    assert [commands for _, commands in journal] == [twin.handle(event) for event, _ in journal]


def test_a_journal_replays_the_same_on_estimates_saved_before_it() -> None:
    first = Learned()
    random_run("inflight", seed=2, events=200, estimates=first)
    saved = first.to_json()
    journal = random_run("inflight", seed=3, events=200, estimates=Learned.from_json(saved))
    twin = Kernel(policy_named("inflight"), Learned.from_json(saved))

    assert [commands for _, commands in journal] == [twin.handle(event) for event, _ in journal]


def fingerprint() -> str:
    runs = [random_run(policy, seed=4, events=300) for policy in POLICIES]
    return hashlib.sha256(repr(runs).encode()).hexdigest()


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_the_order_of_hashes_does_not_matter(hash_seed: str) -> None:
    code = "import test_replay; print(test_replay.fingerprint())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert fingerprint() == done.stdout.strip()
