"""A journal of a real run, with cancels at awkward moments, replays to the same commands."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from arl_tangram.core.events import ActionExited, Woke
from arl_tangram.core.model import CPU, MEMORY, Node, NodeId
from arl_tangram.errors import ConfigError
from arl_tangram.policies.registry import NAMES
from arl_tangram.runtime.environment import Environment
from arl_tangram.runtime.handle import Handle
from arl_tangram.runtime.journal import Header, Journal, JournalWriter
from arl_tangram.runtime.tangram import Tangram
from arl_tangram.testing.scripted_host import ScriptedHost

POLICIES = [name.replace("K", "4") for name in NAMES]


async def rollouts(tangram: Tangram, *, seed: int, count: int = 12, scale: float = 1.0) -> None:
    """Trajectories that give up on commands before, while and after they run."""
    chance = random.Random(seed)

    async def trajectory(number: int) -> None:
        async with tangram.environment(task=f"task{number % 3}", memory="64MiB") as env:
            for turn in range(4):
                await turn_of(env, turn)

    async def turn_of(env: Environment, turn: int) -> None:
        seconds = round(chance.uniform(0.001, 0.02) * scale, 4)
        handle = env.submit(
            f"sleep {seconds}" if turn < 3 else "exit 3",
            cpus=chance.choice([1, 2, 0.25, (1, 4), [1, 2]]),
            kind="bash" if turn < 3 else "reward",
            timeout=chance.choice([None, 0.01 * scale, 5]),
            priority=chance.choice([0, 0, 1]),
        )
        await give_up(handle, chance.random(), scale)
        await handle

    await asyncio.gather(*(trajectory(n) for n in range(count)))
    tangram.submit("sleep 60")  # still there when everything ends


async def give_up(handle: Handle, when: float, scale: float) -> None:
    if when < 0.1:
        handle.cancel()  # before its first step
    elif when < 0.3:
        await asyncio.sleep(0.005 * scale)
        handle.cancel()
        handle.cancel()
    elif when < 0.35:
        asyncio.get_running_loop().call_soon(handle.cancel)


def run_scripted(path: Path, **options: str | Path) -> Journal:
    async def main() -> None:
        node = Node(id=NodeId("n0"), capacity={CPU: 4000, MEMORY: 512})
        async with Tangram(node=node, host=ScriptedHost, journal=path, **options) as tangram:  # type: ignore[arg-type]
            await rollouts(tangram, seed=7)

    asyncio.run(main())
    return Journal.read(path)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_with_awkward_cancels_replays_to_the_same_commands(
    tmp_path: Path, policy: str
) -> None:
    journal = run_scripted(tmp_path / "run.jsonl", policy=policy)

    assert policy == journal.header.policy
    assert len(journal.lines) > 100
    assert None is journal.first_difference()


def test_a_run_of_real_processes_replays_to_the_same_commands(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    async def main() -> None:
        async with Tangram.local(cpus=8, journal=path) as tangram:
            await rollouts(tangram, seed=3, count=6, scale=5.0)

    asyncio.run(main())
    assert None is Journal.read(path).first_difference()


def test_a_replay_does_not_depend_on_the_process(tmp_path: Path) -> None:
    run_scripted(path := tmp_path / "run.jsonl")
    program = (
        "import sys, pathlib; from arl_tangram import Journal;"
        "print(Journal.read(pathlib.Path(sys.argv[1])).first_difference())"
    )

    for seed in ("1", "2"):
        replayed = subprocess.run(
            [sys.executable, "-c", program, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "None\n" == replayed.stdout


def test_a_run_that_started_warm_replays_with_what_it_had_learned(tmp_path: Path) -> None:
    profile = tmp_path / "kinds.json"
    run_scripted(tmp_path / "cold.jsonl", profile=profile)
    warm = run_scripted(tmp_path / "warm.jsonl", profile=profile)

    assert {"bash", "reward"} <= {kind["kind"] for kind in warm.header.estimates["kinds"]}
    assert None is warm.first_difference()


def test_a_difference_is_found_where_it_is(tmp_path: Path) -> None:
    journal = run_scripted(tmp_path / "run.jsonl")
    index, line = next(
        (i, line) for i, line in enumerate(journal.lines) if isinstance(line.event, ActionExited)
    )
    journal.lines[index] = replace(line, commands=[])

    assert index == journal.first_difference()


def test_a_crash_leaves_a_readable_beginning(tmp_path: Path) -> None:
    whole = run_scripted(path := tmp_path / "run.jsonl")
    text = path.read_text()
    path.write_text(text[: int(len(text) * 0.6)])

    cut = Journal.read(path)

    assert 0 < len(cut.lines) < len(whole.lines)
    assert whole.lines[: len(cut.lines)] == cut.lines
    assert None is cut.first_difference()


def woke(at: str) -> str:
    return f'{{"event":{{"type":"Woke","at":{at}}},"commands":[]}}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this is no journal"),
        ("hello\n", "this is no journal"),
        ("[1]\n", "this is no journal"),
        ('{"journal":9,"policy":"x"}\n', "of version 9, not 1"),
        ('{"journal":1,"policy":"inflight"}\n{"event":{"type":"Surprise"}}\n', ":2: damaged"),
        ('{"journal":1,"policy":"inflight"}\n{"event":{"type":"Woke","at":"x"}}\n', ":2: damaged"),
        ('{"journal":1,"policy":"inflight"}\nnot json\n', ":2: damaged"),
        (b"\xff\xfe\n", "damaged: .*decode"),
        ("[" * 100_000 + "\n", "this is no journal"),
        ('{"journal":1,"policy":"inflight","estimates":{"version":99}}\n', ":1: .*version=99"),
        ('{"journal":1,"policy":"inflight"}\n' + "[" * 100_000 + "\n", ":2: damaged"),
        (f'{{"journal":1,"policy":"inflight"}}\n{woke("2.0")}{woke("-2.0")}', ":3: .*before 2.0"),
        (f'{{"journal":1,"policy":"inflight"}}\n{woke("NaN")}', ":2: damaged"),
        (f'{{"journal":1,"policy":"inflight"}}\n{woke("1" * 400)}', ":2: damaged"),
    ],
)
def test_a_damaged_journal_names_the_file_and_the_line(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(ConfigError, match=message) as caught:
        Journal.read(path)
    assert str(path) in str(caught.value)


def test_a_journal_of_other_settings_is_told_apart_from_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"journal":1,"policy":"inflight","settings":{"magic":1}}\n')

    with pytest.raises(ConfigError, match="magic"):
        Journal.read(path).kernel()


def test_a_journal_that_cannot_be_written_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        JournalWriter(tmp_path / "absent" / "run.jsonl", Header(policy="inflight"))


def test_a_full_disk_ends_the_journal_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    (path := tmp_path / "run.jsonl").symlink_to("/dev/full")
    with pytest.raises(ConfigError, match="No space left"):
        JournalWriter(path, Header(policy="inflight"))


def test_every_line_is_there_as_soon_as_the_writer_is_closed(tmp_path: Path) -> None:
    writer = JournalWriter(path := tmp_path / "run.jsonl", Header(policy="equi"))
    for at in range(1000):
        writer.happened(Woke(at=float(at)), [])
    writer.close()

    assert [float(at) for at in range(1000)] == [line.event.at for line in Journal.read(path).lines]
