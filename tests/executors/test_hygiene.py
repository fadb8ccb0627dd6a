import asyncio
import os
import resource
import time
from pathlib import Path

import psutil
import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.testing.executor_contract import units
from arl_tangram.testing.processes import descendants


def sleepers():
    """The sleeps that commands have started; the first process of an environment has one too."""
    return [p for p in descendants() if p.name == "sleep" and "2147483647" not in p.words]


def resident():
    return psutil.Process().memory_info().rss


async def test_a_timeout_ends_the_whole_tree_even_what_has_its_own_session(place):
    await place.open()
    began = time.monotonic()

    ended = await place.run("sleep 300 & setsid sleep 300 & wait", timeout_s=0.5)

    assert Outcome.TIMED_OUT is ended.outcome
    assert time.monotonic() - began < 1.5
    assert [] == sleepers()


async def test_a_timeout_ends_what_was_forked_twice_and_let_go(place):
    await place.open()

    ended = await place.run(
        "(setsid sh -c '(setsid sleep 301 &) ; sleep 302' &) ; sleep 303", timeout_s=0.3
    )

    assert Outcome.TIMED_OUT is ended.outcome
    assert [] == sleepers()


async def test_a_command_that_ignores_every_signal_is_ended(place):
    ended = await place.run("trap '' TERM INT HUP USR1; while :; do sleep 1; done", timeout_s=0.3)

    assert Outcome.TIMED_OUT is ended.outcome
    assert ended.state_survived


@pytest.mark.parametrize("command", ["cat", "read x; true", "grep pattern | head"])
async def test_a_reader_without_input_ends_at_once(place, command):
    ended = await place.run(command, timeout_s=5)

    assert Outcome.SUCCEEDED is ended.outcome


async def test_300_kilobytes_of_output_come_back_exactly(place):
    ended = await place.run("head -c 300000 /dev/zero | tr '\\0' x; head -c 300000 /dev/zero >&2")

    assert (b"x" * 300_000, bytes(300_000)) == (ended.stdout, ended.stderr)
    assert (300_000, False) == (ended.stdout_bytes, ended.truncated)


async def test_50_megabytes_of_output_are_counted_and_kept_at_head_and_tail(place):
    await place.open()
    await place.run("true")
    before = resident()

    ended = await place.run("echo first; head -c 50000000 /dev/zero; echo last", timeout_s=60)

    assert (50_000_011, True) == (ended.stdout_bytes, ended.truncated)
    assert ended.stdout.startswith(b"first\n\x00")
    assert ended.stdout.endswith(b"\x00last\n")
    assert b"bytes left out" in ended.stdout
    assert len(ended.stdout) < 1_100_000
    assert resident() - before < 16_000_000


async def test_endless_output_ends_with_the_timeout_and_costs_the_host_no_memory(place):
    await place.open()
    await place.run("true")
    before = resident()

    ended = await place.run("yes", timeout_s=1, output_limit_bytes=10_000)

    assert Outcome.TIMED_OUT is ended.outcome
    assert ended.stdout_bytes > 1_000_000
    assert len(ended.stdout) < 11_000
    assert resident() - before < 8_000_000


async def test_endless_output_everywhere_costs_the_event_loop_next_to_nothing(place):
    sandboxes = [await place.open() for _ in range(4)]
    printing = [
        asyncio.create_task(place.run("yes", sandbox=one, timeout_s=1)) for one in sandboxes
    ]
    used = time.process_time()

    ended = await asyncio.gather(*printing)

    assert [Outcome.TIMED_OUT] * 4 == [one.outcome for one in ended]
    assert sum(one.stdout_bytes for one in ended) > 4_000_000
    assert time.process_time() - used < 0.2


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("printf '\\355\\240'", b"\xed\xa0"),
        ("printf '\\342'; sleep 0.05; printf '\\202\\254'", "€".encode()),
        ("printf 'a\\000b'", b"a\x00b"),
    ],
)
async def test_any_bytes_come_back_as_they_were(place, command, expected):
    ended = await place.run(command)

    assert expected == ended.stdout


async def test_no_character_is_cut_in_two_where_output_is_left_out(place):
    ended = await place.run(
        "yes €€€€ | head -c 13000",
        output_limit_bytes=100,  # any cut is in a character or beside one
    )

    text = ended.stdout.decode()
    assert ended.truncated
    assert set(text) <= set("€\n[.] 0123456789bytesleftout")


async def test_600_short_lived_orphans_three_times_leave_no_process(limited):
    sandbox = await limited.open()
    await limited.run("true")
    before = len(limited.group(sandbox).processes())

    for _ in range(3):
        ended = await limited.run(
            "i=0; while [ $i -lt 600 ]; do (sleep 0.01 &); i=$((i+1)); done", timeout_s=60
        )
        assert Outcome.SUCCEEDED is ended.outcome
    deadline = time.monotonic() + 10
    while len(limited.group(sandbox).processes()) > before and time.monotonic() < deadline:
        await limited.run("sleep 0.1")

    assert len(limited.group(sandbox).processes()) <= before
    assert [] == [p for p in descendants() if p.zombie]


async def test_many_commands_leave_no_file_open(place):
    await place.open()
    shell = await place.sandboxes[0].shell()
    await place.run("true")
    before = len(list(Path("/proc/self/fd").iterdir()))

    for _ in range(20):
        await place.run("true")
    await asyncio.gather(*(place.run("true", run_id=str(i)) for i in range(8)))
    await shell.close()

    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 8  # the wardens of the eight
    for sandbox in place.sandboxes:
        await sandbox.close()
    assert len(list(Path("/proc/self/fd").iterdir())) < before


async def test_what_a_command_leaves_open_here_is_not_inherited_there(place):
    here = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(here, True)
    try:
        ended = await place.run("ls -l /proc/self/fd")
    finally:
        os.close(here)

    assert b"hostname" not in ended.stdout
    assert 4 == ended.stdout.count(b" -> ")  # input, two outputs and the folder that ls reads


async def test_the_processor_time_of_a_whole_tree_is_told(place):
    spin = "import time\nwhile time.process_time() < 0.2: pass"

    ended = await place.run(
        'for i in 1 2; do python -c "$SPIN" & done; wait',
        variables={"SPIN": spin},
        grant=units(2),
    )

    assert 0.4 <= ended.cpu_s < 1.5


async def test_time_in_the_queue_of_the_host_does_not_count_as_run_time(place):
    await place.open()

    ended = await asyncio.gather(
        *(place.run("sleep 0.2", run_id=str(i), timeout_s=2) for i in range(6))
    )

    assert [Outcome.SUCCEEDED] * 6 == [one.outcome for one in ended]


async def test_cancelling_before_the_first_step_starts_nothing(place):
    sandbox = await place.open()
    running = asyncio.create_task(place.run("touch started"))

    running.cancel()
    await asyncio.wait([running])

    assert running.cancelled()
    assert [] == list(await sandbox.list())


async def test_a_cancelled_command_is_gone_when_the_caller_hears_of_it(place):
    await place.open()
    before = len(descendants())
    running = asyncio.create_task(place.run("setsid sleep 300 & sleep 301"))
    while len(descendants()) < before + 2:  # noqa: ASYNC110  processes send no events
        await asyncio.sleep(0.01)

    running.cancel()
    await asyncio.wait([running])

    assert [] == sleepers()


async def test_four_commands_that_never_return_do_not_keep_the_next_four_from_their_units(place):
    await place.open()

    hanging = [place.run("sleep 300", run_id=f"h{i}", timeout_s=0.3) for i in range(4)]
    first = await asyncio.gather(*hanging)
    then = await asyncio.gather(*(place.run("true", run_id=f"n{i}") for i in range(4)))

    assert [Outcome.TIMED_OUT] * 4 == [one.outcome for one in first]
    assert [Outcome.SUCCEEDED] * 4 == [one.outcome for one in then]


async def test_a_command_may_open_as_many_files_as_usual(place):
    ended = await place.run("ulimit -n; ulimit -c")

    assert b"4096\n0\n" == ended.stdout
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 4096
