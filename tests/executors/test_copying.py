"""What is copied into and out of environments, and when copying stops."""

import asyncio
import os
import threading

import pytest

from arl_tangram.errors import Unavailable
from arl_tangram.executors.copying import Stop, Stopped, copy_contents

MIB = 1 << 20


@pytest.fixture
def pair(tmp_path):
    """A file to copy from and one to copy to."""
    with (tmp_path / "from").open("w+b") as source, (tmp_path / "to").open("w+b") as target:
        yield source, target


class After:
    """An event that is set once it was asked so often."""

    def __init__(self, times):
        self.left = times

    def is_set(self):
        self.left -= 1
        return self.left < 0


def copied(pair, data, *, times=1 << 30):
    source, target = pair
    source.write(data)
    source.flush()
    copy_contents(source.fileno(), target.fileno(), Stop(After(times)))
    target.seek(0)
    return target.read()


@pytest.mark.parametrize("size", [0, 1, 4095, MIB, 3 * MIB + 5])
def test_a_copy_is_the_same(pair, size):
    data = os.urandom(size)

    assert data == copied(pair, data)


def test_what_was_in_the_target_is_gone(pair):
    pair[1].write(b"longer than the new contents")
    pair[1].flush()

    assert b"short" == copied(pair, b"short")


def test_holes_stay_holes_wherever_they_are(pair):
    source, target = pair
    os.ftruncate(source.fileno(), 1 << 40)
    os.pwrite(source.fileno(), b"middle", 1 << 30)

    copy_contents(source.fileno(), target.fileno(), Stop())

    found = os.fstat(target.fileno())
    assert 1 << 40 == found.st_size
    assert found.st_blocks * 512 <= MIB
    assert b"middle" == os.pread(target.fileno(), 6, 1 << 30)


def test_a_copy_stops_in_the_middle_of_a_file(pair):
    with pytest.raises(Stopped):
        copied(pair, bytes(MIB) * 8, times=3)

    assert 0 < os.fstat(pair[1].fileno()).st_size < 8 * MIB


def test_a_file_that_grows_while_it_is_copied_is_copied_as_it_was(pair):
    source, target = pair
    source.write(b"x" * 10)
    source.flush()

    class Growing:
        def is_set(self):
            os.write(source.fileno(), b"y" * MIB)
            return False

    copy_contents(source.fileno(), target.fileno(), Stop(Growing()))

    assert b"x" * 10 == target.read()


def test_a_file_that_shrinks_while_it_is_copied_leaves_what_is_left(pair):
    source, target = pair
    source.write(b"x" * 3 * MIB)
    source.flush()

    class Shrinking:
        asked = 0

        def is_set(self):
            self.asked += 1
            if self.asked == 3:
                os.ftruncate(source.fileno(), 5)
            return False

    copy_contents(source.fileno(), target.fileno(), Stop(Shrinking()))

    assert os.fstat(target.fileno()).st_size == 5


async def test_what_is_neither_file_nor_folder_is_refused_and_not_waited_for(place, tmp_path):
    sandbox = await place.open()
    os.mkfifo(tmp_path / "pipe")

    for source in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(OSError, match="neither a file nor a folder"):
            await asyncio.wait_for(sandbox.upload(source, "copy"), 30)

    assert [] == list(await sandbox.list())


async def test_a_sparse_file_of_an_environment_does_not_fill_this_disk(place, tmp_path):
    sandbox = await place.open()
    await place.run("truncate -s 3T big; echo end >> big")

    await sandbox.download("big", tmp_path / "big")

    found = (tmp_path / "big").stat()
    assert (3 << 40) + 4 == found.st_size
    assert found.st_blocks * 512 <= MIB


@pytest.mark.parametrize("close", [False, True])
async def test_a_copy_ends_when_nobody_wants_it_any_more(place, tmp_path, monkeypatch, close):
    begun, ended = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def endless(reading, writing, stop):
        loop.call_soon_threadsafe(begun.set)
        try:
            while True:
                stop.check()
        finally:
            ended.set()

    monkeypatch.setattr("arl_tangram.executors.files.copy_contents", endless)
    sandbox = await place.open()
    (tmp_path / "file").write_text("x")
    copying = asyncio.create_task(sandbox.upload(tmp_path / "file", "copy"))
    await begun.wait()

    if close:
        await sandbox.close()
    else:
        copying.cancel()

    with pytest.raises(Unavailable if close else asyncio.CancelledError):
        await copying
    assert await asyncio.to_thread(ended.wait, 30)
