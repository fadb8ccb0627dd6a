import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.executors.port import MIB

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


async def test_a_server_that_dies_for_want_of_memory_is_state_that_did_not_survive(limited):
    await limited.open(memory_mib=96)
    await limited.run(
        "python -c 'import time; x = bytearray(60 << 20); time.sleep(600)' & sleep 0.5"
    )

    ended = await limited.run(
        "python -c 'x = bytearray(30 << 20)'; python -c 'x = bytearray(30 << 20)'; exit 3",
        timeout_s=60,
    )

    if ended.outcome is Outcome.FAILED:
        pytest.skip("the kernel found room")
    assert (Outcome.OUT_OF_MEMORY, False) == (ended.outcome, ended.state_survived)


async def test_without_groups_an_allocation_that_fails_is_out_of_memory(make_place):
    place = make_place(enforcement="rlimits")
    await place.open(memory_mib=256)

    ended = await place.run("python3 -c 'x = bytearray(400 << 20)'", timeout_s=30)

    assert Outcome.OUT_OF_MEMORY is ended.outcome
    assert ended.state_survived
