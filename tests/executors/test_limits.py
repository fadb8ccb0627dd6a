import asyncio
import contextlib
import errno
import gc
import os
from pathlib import Path

import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.errors import Unavailable
from arl_tangram.executors.port import MIB, Invocation
from arl_tangram.testing.executor_contract import units

HOG = "python -c 'x = bytearray(400 << 20); print(len(x))'"
ENFORCEMENTS = ["cgroup-v1", pytest.param("cgroup-v2", marks=pytest.mark.cgroup2)]


@pytest.mark.parametrize("enforcement", ENFORCEMENTS)
async def test_too_much_memory_is_out_of_memory_with_the_peak(make_place, enforcement):
    place = make_place(enforcement=enforcement)
    await place.open(memory_mib=64)

    ended = await place.run(HOG, timeout_s=60)
    after = await place.run("echo fine", timeout_s=60)

    assert Outcome.OUT_OF_MEMORY is ended.outcome
    assert "64 MiB" in ended.reason
    assert 60 * MIB <= ended.peak_memory_bytes <= 64 * MIB
    assert ended.state_survived
    assert (Outcome.SUCCEEDED, b"fine\n") == (after.outcome, after.stdout)
    assert after.peak_memory_bytes < 60 * MIB


@pytest.mark.parametrize("enforcement", ENFORCEMENTS)
async def test_the_number_of_processes_is_limited(make_place, enforcement):
    place = make_place(enforcement=enforcement)
    await place.open(pids=20)

    ended = await place.run("for i in $(seq 40); do sleep 5 & done; wait", timeout_s=60)

    assert Outcome.FAILED is ended.outcome
    assert b"fork" in ended.stderr


async def test_memory_of_many_small_processes_counts_together(limited):
    await limited.open(memory_mib=64)

    hold = "python -c 'import time; x = bytearray(30 << 20); time.sleep(3)'"
    ended = await limited.run(
        f"{hold} & a=$!; {hold} & b=$!; {hold} & c=$!; wait $a && wait $b && wait $c",
        timeout_s=60,
    )

    assert Outcome.OUT_OF_MEMORY is ended.outcome


SERVER = """python -c '
import time
open("/proc/self/oom_score_adj", "w").write("1000")  # if somebody has to go, it is this one
x = bytearray(60 << 20)
open("holds", "w").close()
time.sleep(600)' & until [ -e holds ]; do sleep 0.02; done"""

GROWS = "import time; x = [(bytearray(1 << 20), time.sleep(0.02)) for _ in range(50)]"


@pytest.mark.parametrize("enforcement", ENFORCEMENTS)
@pytest.mark.parametrize("in_shell", [False, True])
async def test_a_server_that_dies_for_want_of_memory_is_state_that_did_not_survive(
    make_place, in_shell, enforcement
):
    async def ended_beside_a_server():
        limited = make_place(enforcement=enforcement)
        sandbox = await limited.open(memory_mib=96)
        door = await sandbox.shell() if in_shell else sandbox
        await door.run("r", Invocation(command=SERVER), units(1))
        # With cores to spare the server is gone before the kernel looks for another one to kill.
        command = f"python -c '{GROWS}' && exit 3"
        return await limited.run(command, grant=units(2), timeout_s=60)

    for _ in range(4):  # a slow machine may kill both
        ended = await ended_beside_a_server()
        if ended.outcome is not Outcome.OUT_OF_MEMORY:
            break

    # None of its own processes was killed: it went on, and failed.
    assert (Outcome.FAILED, 3, False) == (ended.outcome, ended.exit_code, ended.state_survived)
    assert "ended for want of memory" in ended.reason


@pytest.mark.parametrize("in_shell", [False, True])
async def test_input_that_this_host_has_no_room_for_is_a_fault_of_the_host(
    limited, monkeypatch, in_shell
):
    sandbox = await limited.open()
    door = await sandbox.shell() if in_shell else sandbox
    assert Outcome.SUCCEEDED is (await door.run("a", Invocation(command="true"), units(1))).outcome

    with monkeypatch.context() as broken:
        broken.setattr("arl_tangram.executors.given.fill", _no_room)
        broken.setattr("arl_tangram.executors.shell.fill", _no_room)
        ended = await door.run("b", Invocation(command="cat", stdin=b"x"), units(1))
    after = await door.run("c", Invocation(command="cat", stdin=b"x"), units(1))

    assert (Outcome.LOST, True) == (ended.outcome, ended.state_survived)
    assert "No space left" in ended.reason
    assert (Outcome.SUCCEEDED, b"x") == (after.outcome, after.stdout)


def _no_room(fd, data):
    if data:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_server_outlives_a_command_that_dies_for_want_of_memory(limited):
    await limited.open(memory_mib=96)
    await limited.run(SERVER.replace("60", "20"))

    ended = await limited.run(HOG, timeout_s=60)

    assert (Outcome.OUT_OF_MEMORY, True) == (ended.outcome, ended.state_survived)


@pytest.mark.parametrize("enforcement", ENFORCEMENTS)
async def test_a_failure_is_none_of_memory_because_an_earlier_command_ran_out_of_it(
    make_place, enforcement
):
    limited = make_place(enforcement=enforcement)
    await limited.open(memory_mib=64)

    earlier = await limited.run(f"{HOG}; true", timeout_s=60)
    ended = await limited.run("exit 3")

    assert Outcome.SUCCEEDED is earlier.outcome
    assert (Outcome.FAILED, 3) == (ended.outcome, ended.exit_code)


async def test_a_failure_is_none_of_memory_because_another_command_ran_out_of_it(limited):
    await limited.open(memory_mib=64)

    failing, hungry = await asyncio.gather(
        limited.run("until [ -e over ]; do sleep 0.02; done; exit 3", run_id="failing"),
        limited.run(f"{HOG} || {{ touch over; exit 5; }}", run_id="hungry", timeout_s=60),
    )

    assert (Outcome.FAILED, Outcome.OUT_OF_MEMORY) == (failing.outcome, hungry.outcome)


@pytest.mark.parametrize("enforcement", ENFORCEMENTS)
@pytest.mark.parametrize("in_shell", [False, True])
async def test_input_that_is_not_read_is_no_memory_of_the_environment(
    make_place, in_shell, enforcement
):
    limited = make_place(enforcement=enforcement)
    sandbox = await limited.open(memory_mib=128)
    invocation = Invocation(command="echo started; sleep 0.1", stdin=bytes(100 << 20))

    door = await sandbox.shell() if in_shell else sandbox
    await door.run("r", Invocation(command="true"), units(1))
    ended = await door.run("r", invocation, units(1))

    assert (Outcome.SUCCEEDED, b"started\n") == (ended.outcome, ended.stdout)
    assert ended.peak_memory_bytes < 30 * MIB


async def test_input_can_be_read_whole_where_it_is_larger_than_the_memory(limited):
    await limited.open(memory_mib=64)

    ended = await limited.run("wc -c", stdin=bytes(100 << 20))

    assert b"104857600\n" == ended.stdout


async def test_nothing_is_left_open_of_what_commands_were_given(limited):
    before = set(open_files())
    sandbox = await limited.open()
    shell = await sandbox.shell()
    for door in (sandbox, shell):
        await door.run("r", Invocation(command="cat", stdin=b"given"), units(1))
        await door.run("r", Invocation(command="exit 3 # " + "x" * 200_000), units(1))
    del shell, door

    await sandbox.close()
    await sandbox.close()
    with pytest.raises(Unavailable):
        await sandbox.run("r", Invocation(command="cat", stdin=b"given"), units(1))

    gc.collect()
    assert [] == [file for file in open_files() if file not in before and "memfd" in file[1]]


def open_files():
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            yield entry.name, str(entry.readlink())


async def test_a_command_cannot_write_to_what_it_is_given(limited):
    await limited.open(memory_mib=64)

    ended = await limited.run("echo more > /proc/self/fd/0 || cat", stdin=b"given")

    assert b"given" == ended.stdout


async def test_without_groups_an_allocation_that_fails_is_out_of_memory(make_place):
    place = make_place(enforcement="rlimits")
    await place.open(memory_mib=256)

    ended = await place.run("python3 -c 'x = bytearray(400 << 20)'", timeout_s=30)

    assert Outcome.OUT_OF_MEMORY is ended.outcome
    assert ended.state_survived
