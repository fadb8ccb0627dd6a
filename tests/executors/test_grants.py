import asyncio
import math
import os
import time

import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.executors import group
from arl_tangram.executors.grants import grant_variables, whole_units
from arl_tangram.testing.executor_contract import units

SEEN = """python -c '
import os
names = ("ARL_TANGRAM_CPUS", "OMP_NUM_THREADS", "GOMAXPROCS", "PYTEST_XDIST_AUTO_NUM_WORKERS")
print(*(os.environ[name] for name in names), len(os.sched_getaffinity(0)))
'; nproc"""


@pytest.mark.skipif(os.cpu_count() < 2, reason="two cores")
async def test_a_program_sees_each_of_two_grants_in_a_row(make_place):
    place = make_place(require=("cores",))
    one, two = units(1, cores=(1,)), units(2, cores=(0, 1))

    seen = [(await place.run(SEEN, grant=grant)).stdout for grant in (one, two, one)]

    assert [b"1 1 1 1 1\n1\n", b"2 2 2 2 2\n2\n", b"1 1 1 1 1\n1\n"] == seen


@pytest.mark.skipif(os.cpu_count() < 2, reason="two cores")
async def test_grants_of_commands_that_run_side_by_side_are_seen_apart(make_place):
    place = make_place(require=("cores",))
    await place.open()
    slow = asyncio.create_task(
        place.run("sleep 0.5; nproc", run_id="a", grant=units(1, cores=(0,)))
    )
    await asyncio.sleep(0.1)

    seen = await place.run(
        "python -c 'import os; print(os.sched_getaffinity(0))'",
        run_id="b",
        grant=units(1, cores=(1,)),
    )
    await slow

    assert b"{1}\n" == seen.stdout


@pytest.mark.skipif(os.cpu_count() < 2, reason="two cores")
async def test_without_groups_a_resize_moves_what_runs(make_place):
    place = make_place(enforcement="rlimits")
    sandbox = await place.open()
    running = asyncio.create_task(
        place.run(
            "sleep 0.3; python -c 'import os; print(len(os.sched_getaffinity(0)))'",
            grant=units(1, cores=(0,), most=2),
        )
    )
    await asyncio.sleep(0.1)

    sandbox.resize("r", units(2, cores=(0, 1)))

    assert b"2\n" == (await running).stdout


async def test_a_part_of_a_unit_counts_as_one(place):
    ended = await place.run("echo $ARL_TANGRAM_CPUS $OMP_NUM_THREADS; nproc", grant=units(0.25))

    assert b"1 1\n1\n" == ended.stdout


async def test_a_resizable_command_is_told_its_most(place):
    ended = await place.run(
        "echo $ARL_TANGRAM_CPUS $ARL_TANGRAM_MAX_CPUS $OMP_NUM_THREADS", grant=units(1, most=4)
    )

    most = min(4, os.cpu_count())  # more than the machine has can never come

    assert f"1 {most} {most}\n".encode() == ended.stdout


async def test_the_variables_of_a_command_win_over_those_of_its_environment_and_grant(place):
    await place.open(variables={"WORD": "environment", "OTHER": "environment"})

    ended = await place.run(
        "echo $WORD $OTHER $OMP_NUM_THREADS",
        variables={"WORD": "command", "OMP_NUM_THREADS": "9"},
    )

    assert b"command environment 9\n" == ended.stdout


async def test_pytest_starts_as_many_workers_as_units(place):
    sandbox = await place.open()
    await sandbox.write("test_a.py", b"def test_a(): pass\n")

    for count in (1, 2):
        ended = await place.run(
            "pytest -n auto -p no:cacheprovider", grant=units(count), timeout_s=60
        )
        assert f"{count} worker".encode() in ended.stdout, ended


def test_units_are_counted_up():
    assert [1, 1, 1, 2, 2] == [whole_units(milli) for milli in (1, 250, 1000, 1001, 2000)]


def test_waiting_threads_are_told_to_sleep():
    assert "passive" == grant_variables(units(1))["OMP_WAIT_POLICY"]


def test_a_quota_is_in_proportion_and_never_less_than_the_kernel_takes():
    for milli in (10, 49, 62, 250, 1000, 3500):
        quota, period = group.quota(milli)

        assert quota >= 1000
        assert math.isclose(milli / 1000, quota / period, rel_tol=0.02)


# -- what is measured: alone on the machine ------------------------------------------------------

BUSY = "for i in 1 2 3 4; do (while :; do :; done) & done; wait"

ENFORCEMENTS = [
    pytest.param("cgroup-v1", 0.1, (0.9, 1.1), marks=pytest.mark.alone),
    # The emulated machine of the second version may get less time itself than it gives away.
    pytest.param("cgroup-v2", 0.25, (0.5, 1.15), marks=pytest.mark.cgroup2),
]


async def measured_share(place, sandbox, seconds):
    """Processor seconds used per second over a while, by the group's own count."""
    stat = place.group(sandbox).cpu_s
    began, used = time.monotonic(), stat()
    await asyncio.sleep(seconds)
    return (stat() - used) / (time.monotonic() - began)


@pytest.mark.parametrize(("enforcement", "scale", "within"), ENFORCEMENTS)
async def test_processor_time_follows_the_grant_before_and_after_a_resize(
    make_place, enforcement, scale, within
):
    # Units are parts of a core, so that the machine has more to give than is granted.
    place = make_place(enforcement=enforcement, cpu_scale=scale)
    place.put_first()
    sandbox = await place.open()
    running = asyncio.create_task(place.run(BUSY, grant=units(1, most=4), timeout_s=60))
    await asyncio.sleep(0.3)

    before = await measured_share(place, sandbox, 2)
    sandbox.resize("r", units(2, most=4))
    after = await measured_share(place, sandbox, 2)
    sandbox.resize("r", units(4, most=4))
    most = await measured_share(place, sandbox, 2)
    sandbox.stop("r")

    assert Outcome.CANCELLED is (await running).outcome
    assert within[0] <= before / scale <= within[1]
    assert within[0] <= after / (2 * scale) <= within[1]
    assert within[0] <= most / (4 * scale) <= within[1]


@pytest.mark.parametrize(("enforcement", "scale", "within"), ENFORCEMENTS)
async def test_commands_side_by_side_hold_the_sum_of_their_grants(
    make_place, enforcement, scale, within
):
    place = make_place(enforcement=enforcement, cpu_scale=scale)
    place.put_first()
    sandbox = await place.open()
    running = [
        asyncio.create_task(place.run(BUSY, run_id=name, grant=units(1), timeout_s=60))
        for name in "ab"
    ]
    await asyncio.sleep(0.3)

    both = await measured_share(place, sandbox, 2)
    sandbox.stop("a")
    await running[0]
    one = await measured_share(place, sandbox, 2)
    sandbox.stop("b")
    await running[1]

    assert within[0] <= both / (2 * scale) <= within[1]
    assert within[0] <= one / scale <= within[1]


@pytest.mark.parametrize(("enforcement", "scale", "within"), ENFORCEMENTS)
async def test_what_is_left_in_the_background_is_frozen_between_commands(
    make_place, enforcement, scale, within
):
    place = make_place(enforcement=enforcement)
    sandbox = await place.open()
    await place.run("(while :; do :; done) & echo $!")
    while not sandbox._force.frozen:  # noqa: ASYNC110  it may finish something for a moment, slowly
        await asyncio.sleep(0.02)

    for _ in range(5):  # a slow machine takes a moment to do as it was told
        frozen = await measured_share(place, sandbox, 0.5)
        if not frozen:
            break
    thawed = await place.run("sleep 0.2; echo fine", timeout_s=30)

    assert 0.0 == frozen  # not even the little that is allowed in the background
    assert b"fine\n" == thawed.stdout
