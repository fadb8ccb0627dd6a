import asyncio
import os
import socket
from pathlib import Path

import psutil
import pytest

from arl_tangram.core.model import Outcome
from arl_tangram.executors import users
from arl_tangram.testing.processes import processor_seconds


async def test_a_server_left_in_the_background_answers_the_next_command(walled):
    sandbox = await walled.open()
    await sandbox.write("page", b"served")

    started = await walled.run("python -m http.server 8000 >/dev/null 2>&1 & echo up")
    answer = await walled.run(FETCH, timeout_s=20)

    assert (Outcome.SUCCEEDED, b"up\n") == (started.outcome, started.stdout)
    assert b"served" == answer.stdout


async def test_a_command_can_use_its_home(walled):
    await walled.open()

    wrote = await walled.run("cd ~ && echo mine > .settings && cat ~/.settings")

    assert b"mine\n" == wrote.stdout


async def test_a_server_that_prints_into_a_closed_command_still_answers(walled):
    sandbox = await walled.open()
    await sandbox.write("page", b"served")

    await walled.run("python -m http.server 8000 &")  # it logs each request to standard error
    answers = [(await walled.run(FETCH, timeout_s=20)).stdout for _ in range(2)]

    assert [b"served"] * 2 == answers


async def test_what_is_left_in_the_background_gets_no_processor_time_between_commands(best):
    sandbox = await best.open()
    await best.run("while :; do :; done & echo $!")
    while not sandbox._force.frozen:  # noqa: ASYNC110  it may finish something for a moment, slowly
        await asyncio.sleep(0.02)

    used = processor_seconds(best.group(sandbox).processes())
    await asyncio.sleep(0.5)

    assert processor_seconds(best.group(sandbox).processes()) - used < 0.01
    assert b"R\n" == (await best.run("ps -o stat= -C sh | grep -o R | head -1")).stdout


async def test_a_timeout_spares_what_an_earlier_command_has_left(walled):
    await walled.open()
    await walled.run("sleep 400 & echo")

    ended = await walled.run("sleep 500 & sleep 501", timeout_s=0.3)
    left = await walled.run("ps -eo args")

    assert Outcome.TIMED_OUT is ended.outcome
    assert b"sleep 400" in left.stdout
    assert b"sleep 50" not in left.stdout


async def test_two_environments_use_the_same_port(walled):
    one, other = await walled.open(), await walled.open()
    for sandbox, text in ((one, b"one"), (other, b"other")):
        await sandbox.write("page", text)
        await walled.run("python -m http.server 8000 >/dev/null 2>&1 &", sandbox=sandbox)

    answers = [await walled.run(FETCH, sandbox=s, timeout_s=20) for s in (one, other)]

    assert [b"one", b"other"] == [answer.stdout for answer in answers]


async def test_nothing_is_left_of_a_closed_environment(best):
    sandbox = await best.open()
    await best.run("setsid sleep 400 & echo")
    pids = best.group(sandbox).processes()

    await sandbox.close()

    assert [] == [pid for pid in pids if psutil.pid_exists(pid)]


async def test_a_second_trajectory_finds_nothing_of_the_first(walled):
    first, second = await walled.open(), await walled.open()
    await walled.run(
        "echo secret > f; echo secret > /tmp/f; echo secret > ~/f; export MARK=secret;"
        " sleep 400 & python -m http.server 8001 >/dev/null 2>&1 &",
        sandbox=first,
    )

    seen = await walled.run(
        "ls -A . /tmp ~ /dev/shm; env; ps -eo args;"
        "python -c 'import socket; socket.create_connection((\"127.0.0.1\", 8001), 1)'",
        sandbox=second,
    )

    assert b"secret" not in seen.stdout
    assert b"sleep 400" not in seen.stdout
    assert Outcome.FAILED is seen.outcome
    assert b"ConnectionRefused" in seen.stderr


async def test_homes_other_environments_and_our_state_cannot_be_read(walled, state):
    first, second = await walled.open(), await walled.open()
    await first.write("file", b"")
    home = str(Path.home())

    for path in (
        f"{home}/.bashrc",
        str(state),
        "/etc/shadow",
        "/var/lib",
        f"/proc/{os.getpid()}",
        "/sys",
    ):
        ended = await walled.run(f"cat {path} || ls {path}", sandbox=second)
        assert (Outcome.FAILED, b"") == (ended.outcome, ended.stdout), path
    assert b"" == (await walled.run("ls -A ~", sandbox=second)).stdout


async def test_the_system_and_the_interpreter_can_be_read_and_not_written(walled):
    ended = await walled.run(
        "python -c 'import pytest, sys; print(sys.prefix)' && ! touch /usr/x /etc/x"
        ' "$VIRTUAL_ENV/x" /x'
    )

    assert Outcome.SUCCEEDED is ended.outcome, ended.stderr


async def test_the_interpreter_inside_is_the_one_that_runs_us(walled):
    import sys

    ended = await walled.run("python -c 'import sys; print(sys.prefix)'; pytest --version")

    assert f"{sys.prefix}\n".encode() in ended.stdout


async def test_there_is_no_network_unless_it_was_asked_for(walled):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        closed, open_ = await walled.open(), await walled.open(network=True)

        refused = await walled.run(["python", "-c", connect], sandbox=closed)
        reached = await walled.run(["python", "-c", connect], sandbox=open_)

    assert (Outcome.FAILED, Outcome.SUCCEEDED) == (refused.outcome, reached.outcome)
    outside = await walled.run(
        ["python", "-c", "import socket; socket.create_connection(('192.0.2.1', 80), 2)"],
        sandbox=closed,
    )
    assert b"unreachable" in outside.stderr


async def test_a_path_of_the_host_can_be_shown_inside(walled, tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "data").write_text("shown")
    await walled.open(readable=(tmp_path,))

    ended = await walled.run(f"cat {tmp_path}/data && ! touch {tmp_path}/x")

    assert (Outcome.SUCCEEDED, b"shown") == (ended.outcome, ended.stdout)


async def test_commands_own_nothing_on_the_host(walled):
    if os.getuid():
        pytest.skip("root: without it commands run as the user that runs us")

    ended = await walled.run("id -u; cat /proc/1/environ; echo 1 > /proc/sys/kernel/ctrl-alt-del")

    assert Outcome.FAILED is ended.outcome
    assert int(ended.stdout) in users.ids()
    assert b"Permission denied" in ended.stderr


async def test_no_shell_is_needed_to_lose_the_rights_of_root(walled):
    if os.getuid():
        pytest.skip("root: without it commands run as the user that runs us")

    sandbox = await walled.open()
    ended = await walled.run(["cat", "/proc/self/status"])

    fields = dict(line.split(":\t", 1) for line in ended.stdout.decode().splitlines())
    user = str(os.fstat(sandbox._files._root).st_uid)
    assert [user] * 4 == fields["Uid"].split()
    assert [user] * 4 == fields["Gid"].split()
    assert int(user) in users.ids()
    assert "" == fields["Groups"].strip()
    assert {"0000000000000000"} == {fields[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Amb")}
    assert "1" == fields["NoNewPrivs"]


async def test_a_warden_keeps_only_what_it_needs(walled):
    sandbox = await walled.open()
    warden = await sandbox.new_warden()
    status = Path(f"/proc/{warden.pid}/status").read_text()
    await sandbox.dismiss(warden)

    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    kept = sum(1 << number for number in (5, 6, 7, 23)) if os.getuid() == 0 else 0
    assert [kept, kept] == [int(fields[name], 16) for name in ("CapEff", "CapPrm")]
    assert kept == int(fields["CapBnd"], 16)
    assert "tangram-warden" == fields["Name"]


FETCH = """python -c '
import time, urllib.request
for _ in range(100):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:8000/page").read().decode(), end="")
        break
    except OSError:
        time.sleep(0.05)
'"""
