"""A program of a service: nothing of it is left, whoever ends first."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

import psutil
import pytest

from arl_tangram.errors import ConfigError
from arl_tangram.executors.services.child import Child
from arl_tangram.executors.services.devices import HostDevices, devices_of

# These tests look at all sleepers of the machine, so each process that runs them has its own.
ONE, OTHER = f"3{os.getpid():07}.1", f"3{os.getpid():07}.2"
TREE = ["sh", "-c", f"setsid sleep {ONE} & sleep {OTHER} & echo up; wait"]


def sleepers() -> set[int]:
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it ends meanwhile
            sleeps = process.cmdline() in (["sleep", ONE], ["sleep", OTHER])
            if sleeps and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process.pid)
    return found


def forked() -> int:
    """A process with all that is open here."""
    if (pid := os.fork()) == 0:
        time.sleep(60)
        os._exit(0)
    return pid


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_stopping_ends_the_whole_tree_sessions_of_its_own_included() -> None:
    async def main() -> None:
        child = await Child.start(TREE, variables={}, keep_bytes=10)
        while not child.out:  # noqa: ASYNC110  # it tells when it is up
            await asyncio.sleep(0.01)
        await child.stop()
        await child.stop()
        assert "signal 15" in await child.why()

    before = sleepers()
    asyncio.run(main())
    assert before == sleepers()


def test_what_ends_by_itself_takes_what_it_left_behind_along() -> None:
    async def main() -> None:
        child = await Child.start(
            ["sh", "-c", f"setsid sleep {ONE} & echo oh dear >&2; exit 3"], variables={}
        )
        assert 3 == await child.ended()
        assert "its process exited with 3; it said: oh dear" == await child.why()
        assert not child.alive

    before = sleepers()
    asyncio.run(main())
    assert before == sleepers()


def test_what_does_not_end_when_asked_is_killed_after_its_grace() -> None:
    async def main() -> None:
        stubborn = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"]
        child = await Child.start(stubborn, variables={}, keep_bytes=10, grace_s=0.1)
        while not child.out:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await child.stop()
        assert 137 == await child.ended()

    asyncio.run(main())


def test_a_program_that_is_not_there_says_so() -> None:
    async def main() -> None:
        child = await Child.start(["no-such-program"], variables={})
        assert 127 == await child.ended()
        assert "no-such-program: No such file" in await child.why()

    asyncio.run(main())


def test_input_is_read_and_what_prints_too_much_is_killed() -> None:
    async def main() -> None:
        child = await Child.start(["cat"], variables={}, stdin=b"x" * 100_000, keep_bytes=100_000)
        assert 0 == await child.ended()
        assert (b"x" * 100_000, False) == (bytes(child.out), child.cut)
        child = await Child.start(["yes"], variables={}, keep_bytes=10)
        assert 128 + 9 == await child.ended()
        assert (b"y\n" * 5, True) == (bytes(child.out), child.cut)

    asyncio.run(main())


def test_a_process_that_was_forked_meanwhile_keeps_nothing_alive() -> None:
    async def main() -> None:
        gently = await Child.start(TREE, variables={}, keep_bytes=10)
        stubborn = await Child.start(
            ["sh", "-c", f"trap '' TERM; echo up; while :; do sleep {OTHER}; done"],
            variables={},
            keep_bytes=10,
            grace_s=600,
        )
        while not (gently.out and stubborn.out):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        fork = forked()
        try:
            await asyncio.wait_for(gently.stop(), 30)
            stopping = asyncio.create_task(stubborn.stop())
            await asyncio.sleep(0.05)
            await asyncio.wait_for(stubborn.kill(), 30)
            await stopping
        finally:
            end(fork)

    before = sleepers()
    asyncio.run(main())
    assert before == sleepers()


@pytest.mark.parametrize("how", ["by itself", "killed"])
def test_its_end_is_known_though_somebody_else_holds_its_pipes(how, tmp_path) -> None:
    """As whoever it asks to run something for it may, or a process that was forked meanwhile."""
    program = (
        "import socket, sys, time\n"
        f"with socket.socket(socket.AF_UNIX) as held:\n"
        f"    held.connect({str(tmp_path / 's')!r})\n"
        "    socket.send_fds(held, [b'x'], [0, 1, 2])\n"
        "print('last words', flush=True)\n"
        f"time.sleep({0 if how == 'by itself' else 60})\n"
    )

    async def main() -> None:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(tmp_path / "s"))
            listening.listen()
            child = await Child.start(
                [sys.executable, "-c", program], variables={}, stdin=b"x" * 1_000_000, keep_bytes=99
            )
            with (await asyncio.to_thread(listening.accept))[0] as accepted:
                _, held, _, _ = await asyncio.to_thread(socket.recv_fds, accepted, 1, 3)
        try:
            while not child.out:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            async with asyncio.timeout(30):
                if how == "killed":
                    await child.kill()
                assert (0 if how == "by itself" else 137) == await child.ended()
            assert b"last words\n" == child.out
        finally:
            for fd in held:
                os.close(fd)
        assert {asyncio.current_task()} == asyncio.all_tasks()

    asyncio.run(main())


def test_its_folder_is_gone_when_it_has_ended(tmp_path) -> None:
    folder = tmp_path / "folder"

    async def main() -> None:
        for program in (["true"], ["sleep", ONE], ["no-such-program"]):
            folder.mkdir()
            (folder / "socket").touch()
            child = await Child.start(program, variables={}, folder=str(folder))
            await child.stop()
            assert [] == list(tmp_path.iterdir())

    asyncio.run(main())


def test_its_folder_is_gone_even_if_what_guards_it_was_killed(tmp_path) -> None:
    folder = tmp_path / "folder"

    async def main() -> None:
        folder.mkdir()
        child = await Child.start(["sleep", ONE], variables={}, folder=str(folder))
        (guard,) = [p for p in psutil.Process().children() if str(folder) in p.cmdline()]
        guard.kill()
        await child.ended()
        assert not folder.exists()

    asyncio.run(main())


@pytest.mark.parametrize("with_fork", [False, True])
def test_nothing_outlives_a_process_that_is_killed(with_fork: bool, tmp_path) -> None:
    folder, held = tmp_path / "folder", tmp_path / "held"
    for each in (folder, held):
        each.mkdir()
        (each / "weights").touch()
    program = (
        "import asyncio, os, time\n"
        "from arl_tangram.executors.services.child import Child\n"
        "async def main():\n"
        f"    held = {{'ARL_TANGRAM_DEVICE_FOLDERS': {str(held)!r}}}\n"
        f"    await Child.start({TREE!r}, variables=held, folder={str(folder)!r})\n"
        "    await asyncio.sleep(0.3)\n"
        f"    fork = {with_fork} and os.fork()\n"
        "    if fork == 0 and fork is not False:\n"
        "        os.close(1)\n"
        "        time.sleep(30)\n"
        "        os._exit(0)\n"
        "    print('up', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    before = sleepers()
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert b"up\n" == parent.stdout.readline()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 10
    while (before != sleepers() or any(tmp_path.iterdir())) and time.monotonic() < end:
        time.sleep(0.02)
    assert before == sleepers()
    assert [] == list(tmp_path.iterdir())


def test_a_stand_in_counts_the_memory_that_is_held_in_its_folder() -> None:
    devices = HostDevices(2, 8)
    try:
        folder = devices.variables([1], "owner")["ARL_TANGRAM_DEVICE_FOLDERS"]
        with open(f"{folder}/weights", "wb") as file:  # noqa: PTH123
            file.write(b"x" * (3 << 20))
        assert (8, 5) == (devices.free_mib(0), devices.free_mib(1))
        devices.left("owner")
        assert 8 == devices.free_mib(1)
    finally:
        devices.close()
    assert not devices.folder.exists()


def test_stand_ins_that_memory_has_no_room_for_are_files_elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    devices = HostDevices(1, 1 << 30)  # a pebibyte
    devices.close()

    assert tmp_path == devices.folder.parent


def test_the_stand_ins_of_a_process_that_is_gone_are_swept() -> None:
    made = subprocess.run(
        [
            *(sys.executable, "-c"),
            "from arl_tangram.executors.services.devices import *; print(HostDevices(1, 8).folder)",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    devices = HostDevices(1, 8)
    devices.close()

    assert not devices.folder.with_name(made.rsplit("/", 1)[1]).exists()


def test_gpus_that_are_not_there_are_named() -> None:
    assert devices_of(0, None) is None
    with pytest.raises(ConfigError, match="gpus=True"):
        devices_of(True, None)
    with pytest.raises(ConfigError, match=r"gpus=99.*"):
        devices_of(99, None)
