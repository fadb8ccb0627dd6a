import signal
import time

import psutil
import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.errors import RequestError, Unavailable
from arl_tangram.executors.inside import tree
from arl_tangram.testing.processes import descendants


async def works(place):
    return Outcome.SUCCEEDED is (await place.run("echo fine", timeout_s=10)).outcome


async def test_a_fork_bomb_is_bounded_and_ends_with_its_timeout(best):
    sandbox = await best.open(pids=64)
    await best.run("true")
    before = len(best.group(sandbox).processes())
    began = time.monotonic()

    ended = await best.run(["python", "-c", FORKS_WITHOUT_END], timeout_s=0.5)

    assert Outcome.TIMED_OUT is ended.outcome
    assert time.monotonic() - began < 4
    assert ended.state_survived
    assert before == len(best.group(sandbox).processes())
    assert await works(best)


async def test_a_fork_bomb_in_the_background_is_bounded_and_ends_with_its_environment(best):
    sandbox = await best.open(pids=64)
    group = best.group(sandbox)
    await best.run(["python", "-c", f"import os\nif os.fork() == 0:\n {BACKGROUND}"], timeout_s=5)

    pids = group.processes()
    try:
        outcome = (await best.run("true", timeout_s=1)).outcome
    except Unavailable:  # no room is left for another process: its own doing
        outcome = Outcome.FAILED
    await sandbox.close()

    # A warden is moved into a full group, which the kernel grants to us and not to the bomb.
    assert len(pids) <= 64 + 8 + 2
    assert Outcome.LOST is not outcome
    assert [] == [pid for pid in pids if psutil.pid_exists(pid)]


async def test_a_command_that_kills_all_it_can_has_failed_and_the_environment_works_on(walled):
    ended = await walled.run("sh -c 'kill -9 -1'; sleep 5", timeout_s=10)

    assert Outcome.FAILED is ended.outcome
    assert await works(walled)


async def test_pkill_python_does_not_hit_what_watches_over_it(walled):
    ended = await walled.run("pkill -9 python; pkill -9 -f python; pkill -9 -f warden; echo on")

    assert Outcome.LOST is not ended.outcome
    assert await works(walled)


async def test_stopping_everything_does_not_hang(walled):
    began = time.monotonic()

    ended = await walled.run("kill -STOP -1; kill -STOP $$", timeout_s=0.5)

    assert Outcome.TIMED_OUT is ended.outcome
    assert time.monotonic() - began < 4


async def test_closing_every_file_is_survived(walled):
    ended = await walled.run(
        "python -c 'import os; os.closerange(0, 65536); os._exit(7)'; exec 0<&- 1>&- 2>&-; sleep 0.1"
    )

    assert Outcome.SUCCEEDED is ended.outcome
    assert await works(walled)


async def test_a_command_that_closes_its_output_is_waited_for(walled):
    ended = await walled.run("exec 1>&- 2>&-; sleep 0.3; exit 5")

    assert 5 == ended.exit_code
    assert ended.run_s >= 0.3


async def test_nothing_in_proc_can_be_written_that_matters(walled):
    ended = await walled.run(
        "for f in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/1/mem /proc/1/oom_score_adj"
        " /proc/2/mem; do (echo 0 > $f) 2>/dev/null && echo wrote $f; done; true"
    )

    assert b"" == ended.stdout


async def test_the_memory_and_files_of_what_watches_over_it_are_closed_to_a_command(walled):
    ended = await walled.run("cat /proc/1/maps /proc/2/maps; ls /proc/1/fd /proc/2/fd /proc/1/cwd/")

    assert b"" == ended.stdout


async def test_temporary_files_do_not_use_up_the_memory(best):
    await best.open(memory_mib=64)

    ended = await best.run("head -c 200000000 /dev/zero > /tmp/full", timeout_s=60)

    assert Outcome.SUCCEEDED is ended.outcome
    assert await works(best)


async def test_links_planted_inside_lead_nowhere_outside(walled):
    sandbox = await walled.open()
    await walled.run(
        "ln -s /etc/passwd absolute; ln -s ../../../../etc/passwd relative; ln -s / root;"
        "ln -s loop loop; mkdir folder; echo in > folder/file; ln -s folder to; ln -s /workspace/to all"
    )

    for path in ("absolute", "relative", "root/etc/passwd", "folder/../../x"):
        with pytest.raises(PermissionError):
            await sandbox.read(path)
        with pytest.raises(PermissionError):
            await sandbox.write(path, b"")
    with pytest.raises(OSError, match="symbolic links"):
        await sandbox.read("loop")
    assert b"in\n" == await sandbox.read("all/file")


async def test_a_pipe_planted_inside_does_not_make_the_host_wait(walled, tmp_path):
    sandbox = await walled.open()
    await walled.run("mkfifo pipe; mkdir d; mkfifo d/pipe; echo x > d/file; ln -s file d/link")

    for attempt in (sandbox.read("pipe"), sandbox.write("pipe", b""), sandbox.read("d")):
        with pytest.raises(OSError):
            await attempt
    await sandbox.download("d", tmp_path / "copy")

    assert ["file"] == [path.name for path in (tmp_path / "copy").iterdir()]


async def test_a_file_too_large_for_memory_is_refused_with_the_reason(walled):
    sandbox = await walled.open()
    await walled.run("truncate -s 1T large")

    with pytest.raises(RequestError, match="download"):
        await sandbox.read("large")


async def test_a_zero_byte_in_a_command_is_its_failure(walled):
    ended = await walled.run(["echo", "a\0b"])

    assert Outcome.FAILED is ended.outcome
    assert "null byte" in ended.reason
    assert await works(walled)


async def test_no_zombie_is_left_by_hostile_commands(walled):
    await walled.run("sh -c 'kill -9 -1'; true")
    await walled.run("setsid sleep 300 & kill -9 $$", timeout_s=1)

    assert [] == [p for p in descendants() if p.zombie]


FORKS_WITHOUT_END = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
BACKGROUND = FORKS_WITHOUT_END.strip().replace("\n", "\n ").replace("import os", "pass")


def test_a_process_id_that_is_none_reaches_nothing():
    tree.end_below(0)
    tree.end_below(1)
    tree.signal_each([-1, 0], signal.SIGKILL)  # would end this process and many others

    assert [] == tree.descendants(0)
    assert [] == tree.descendants(1)
