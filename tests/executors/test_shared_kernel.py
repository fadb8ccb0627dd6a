"""What environments share with their host and with one another: the kernel, and how little of it."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.executors import probe, refused, users
from arl_tangram.executors.port import EnvironmentSpec

CALL = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    ctypes.set_errno(0)
    return libc.syscall(*args), errno.errorcode.get(ctypes.get_errno(), "")
"""
X86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64: the numbers are its")


@pytest.fixture
def filtered(make_place):
    return make_place(require=("files", "processes", "kernel"))


async def python(place, code, **more):
    ended = await place.run(["python", "-c", CALL + code], timeout_s=60, **more)
    assert b"" == ended.stderr
    return ended.stdout.decode().split()


# -- calls that are refused ------------------------------------------------------------------------


@X86_64
@pytest.mark.parametrize(
    "call",
    [
        "250, 0, -3, 1",  # keyctl: the keyring of the session
        "250, 0, -4, 1",  # keyctl: the keyring of the user
        "248, b'user', b'name', b'text', 4, -4",  # add_key
        "249, b'user', b'name', None, 0",  # request_key
        "321, 0, 0, 0",  # bpf
        "298, 0, 0, -1, -1, 0",  # perf_event_open
        "323, 0",  # userfaultfd
        "425, 1, 0",  # io_uring_setup
        "103, 10, 0, 0",  # syslog
        "272, 0x10000000",  # unshare: a user namespace
        "56, 0x10000011, 0, 0, 0, 0",  # clone: the same
        "41, 40, 1, 0",  # socket: to the hypervisor
        "0x40000000 + 250, 0, -3, 1",  # keyctl by its other number
    ],
)
async def test_what_reaches_the_shared_state_of_the_kernel_is_refused(filtered, call):
    assert ["-1", "EPERM"] == await python(filtered, f"print(*call({call}))")


@X86_64
async def test_a_call_made_as_a_32_bit_program_does_is_refused_too(filtered):
    code = """
import mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("53b82001000031dbb9fdffffffba01000000cd805bc3"))  # keyctl(0, -3, 1)
run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
result = run()
os.write(1, str(result).encode())
os._exit(0)
"""
    assert ["-1"] == await python(filtered, code)


@X86_64
async def test_new_namespaces_threads_and_processes_of_other_kinds_are_not_refused(filtered):
    code = """
import subprocess, threading
thread = threading.Thread(target=lambda: print("thread"))
thread.start()
thread.join()
subprocess.run(["echo", "process"])
print(call(435, 0, 0)[1])  # clone3: missing, so that `clone` is used
"""
    assert ["process", "thread", "ENOSYS"] == await python(filtered, code)


@X86_64
@pytest.mark.parametrize("isolation", ["auto", "process-group"])
def test_the_keys_of_the_session_that_started_the_host_are_not_seen(state, isolation):
    done = subprocess.run(
        [sys.executable, "-c", CALL + SESSION, str(state), isolation],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    if "skip" in done.stdout:
        pytest.skip("keyrings")

    assert "outside True\ninside False\n" == done.stdout


SESSION = """
import asyncio
from arl_tangram.executors.local import LocalHost
from arl_tangram.executors.port import EnvironmentSpec, Invocation
from arl_tangram.testing.executor_contract import units
if call(250, 1, None)[0] < 0 or call(248, b"user", b"a-secret", b"text", 4, -3)[0] < 0:
    print("skip")
    raise SystemExit
async def main():
    host = LocalHost(sys.argv[1], enforcement="none", isolation=sys.argv[2])
    sandbox = await host.open(EnvironmentSpec(id="e"))
    ended = await sandbox.run("r", Invocation(command="cat /proc/keys"), units(1))
    await host.close()
    print("outside", "a-secret" in open("/proc/keys").read())
    print("inside", b"a-secret" in ended.stdout)
asyncio.run(main())
"""


@X86_64
async def test_a_trusted_environment_keeps_the_keys_of_its_user(place, tmp_path):
    sandbox = await place.host.open(EnvironmentSpec(id="trusted", workspace=tmp_path))

    number, error = (await python(place, "print(*call(250, 0, -4, 1), '-')", sandbox=sandbox))[:2]

    if error == "ENOSYS":
        pytest.skip("keyrings")
    assert int(number) > 0


async def test_the_first_process_of_an_environment_is_refused_the_same(filtered):
    sandbox = await filtered.open()

    status = Path(f"/proc/{sandbox._runner._first_pid}/status").read_text()

    assert "Seccomp:\t2\n" in status


def test_where_no_filter_is_known_it_is_said(monkeypatch):
    monkeypatch.setattr(refused.platform, "machine", lambda: "vax")

    found = probe.choose(enforcement="none", isolation="process-group")

    assert "kernel" not in found.report.guarantees
    assert any("no filter of calls is known for vax" in said for said in found.report.weaker)


TAGS = {"x86_64": 0xC000003E, "i386": 0x40000003, "aarch64": 0xC00000B7, "arm": 0x40000028}
EPERM, ENOSYS, ALLOWED = 0x50001, 0x50026, 0x7FFF0000


@pytest.mark.parametrize(
    ("machine", "tag", "number", "argument", "answer"),
    [
        ("x86_64", "x86_64", 250, 0, EPERM),
        ("x86_64", "x86_64", 0x40000000 + 248, 0, EPERM),
        ("x86_64", "x86_64", 56, 0x11, ALLOWED),
        ("x86_64", "x86_64", 272, 0x20000, ALLOWED),
        ("x86_64", "x86_64", 41, 1, ALLOWED),
        ("x86_64", "x86_64", 0, 0x10000000, ALLOWED),
        ("x86_64", "x86_64", 435, 0, ENOSYS),
        ("x86_64", "i386", 288, 0, EPERM),
        ("x86_64", "i386", 250, 0, ALLOWED),
        ("x86_64", "i386", 120, 0x10000000, EPERM),
        ("x86_64", "i386", 359, 40, EPERM),
        ("x86_64", "aarch64", 0, 0, EPERM),
        ("aarch64", "aarch64", 219, 0, EPERM),
        ("aarch64", "aarch64", 220, 0x10000011, EPERM),
        ("aarch64", "aarch64", 220, 0x11, ALLOWED),
        ("aarch64", "aarch64", 425, 0, EPERM),
        ("aarch64", "aarch64", 198, 40, EPERM),
        ("aarch64", "aarch64", 63, 40, ALLOWED),
        ("aarch64", "arm", 311, 0, EPERM),
        ("aarch64", "arm", 3, 0, ALLOWED),
    ],
)
def test_the_filter_answers_for_every_kind_of_program(machine, tag, number, argument, answer):
    assert answer == judged(refused.program(machine), number, TAGS[tag], argument)


def judged(program, number, tag, argument):
    """What the kernel would return, for the few instructions there are."""
    data = struct.pack("=IIQQ", number, tag, 0, argument)
    steps, at, value = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        code, yes, no, operand = steps[at]
        at += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("=I", data, operand)
            case 0x54:
                value &= operand
            case 0x15:
                at += yes if value == operand else no
            case 0x45:
                at += yes if value & operand else no
            case 0x06:
                return operand


# -- users -----------------------------------------------------------------------------------------

INSTANCES = """
opened = 0
while opened < 3000 and libc.inotify_init() >= 0:
    opened += 1
print(opened)
"""


@pytest.fixture
def owned(make_place):
    return make_place(require=("files", "limits"))


async def test_one_environment_cannot_use_up_what_the_kernel_gives_each_user(owned):
    greedy, other = await owned.open(), await owned.open()
    holding = f"import time\n{INSTANCES}\nsys.stdout.flush()\ntime.sleep(600)"
    await owned.run(
        [
            "sh",
            "-c",
            'python -c "$0" > had & until [ -s had ]; do sleep 0.02; done',
            CALL + holding,
        ],
        sandbox=greedy,
        timeout_s=60,
    )

    [left] = await python(owned, INSTANCES, sandbox=other)

    assert int(await greedy.read("had")) == int(left) > 0


async def test_an_environment_has_a_user_with_a_name_and_its_files_belong_to_it(owned):
    one, other = await owned.open(), await owned.open()
    await one.write("folder/file", b"")

    names = [await owned.run("id -un; id -gn; whoami", sandbox=s) for s in (one, other)]
    owners = await owned.run("stat -c %u:%g . folder folder/file; id -u", sandbox=one)
    second = await owned.run("id -u", sandbox=other)

    assert [b"user\n" * 3] * 2 == [ended.stdout for ended in names]
    *of_files, user = owners.stdout.decode().split()
    assert [f"{user}:{user}"] * 3 == of_files
    assert user.encode() != second.stdout.strip()


def test_a_user_is_taken_by_one_at_a_time():
    few = users.Users(range(7, 10))

    taken = [few.take() for _ in range(3)]
    few.give_back(taken[1])

    assert [7, 8, 9] == sorted(taken)
    assert taken[1] == few.take()


def test_where_there_is_one_user_all_have_it_and_without_root_none():
    assert [5, 5] == [take() for take in [users.Users(range(5, 6)).take] * 2]
    assert users.Users(None).take() is None


def test_where_only_some_ids_exist_environments_share_nobody(monkeypatch):
    if os.getuid():
        pytest.skip("root: only it can become another user")
    monkeypatch.setattr(users.Path, "read_text", lambda path: "0 100000 65536\n")

    assert [users.NOBODY] == list(users.ids())


async def test_root_that_has_walls_only_by_a_user_namespace_runs_commands_as_itself(
    make_place, monkeypatch
):
    find = probe._find_walls
    monkeypatch.setattr(probe, "_find_walls", lambda asked: (find(asked)[0], True, ""))
    place = make_place(require="files")

    ended = await place.run("id -u; grep CapEff /proc/self/status")

    assert f"{os.getuid()}\nCapEff:\t{0:016}\n".encode() == ended.stdout
    assert "limits" not in place.host.report.guarantees


# -- memory that is no process's -------------------------------------------------------------------


async def test_shared_memory_that_is_full_leaves_room_for_the_next_command(limited):
    await limited.open(memory_mib=128)

    filled = await limited.run("head -c 300000000 /dev/zero > /dev/shm/full", timeout_s=60)
    after = await limited.run("echo fine; stat -c %s /dev/shm/full", timeout_s=60)

    assert Outcome.FAILED is filled.outcome
    assert b"No space left" in filled.stderr
    assert (Outcome.SUCCEEDED, b"fine\n67108864\n") == (after.outcome, after.stdout)


async def test_nothing_else_in_memory_can_be_written(walled):
    ended = await walled.run(
        "for p in / /dev /etc /proc; do touch $p/x && echo wrote $p; done; true"
    )

    assert b"" == ended.stdout
