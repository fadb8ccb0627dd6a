"""What every executor must do: checks to run against any `Host`, real or scripted.

```python
@pytest.mark.parametrize("check", executor_contract.CHECKS, ids=executor_contract.name)
def test_my_host_keeps_the_contract(check):
    asyncio.run(executor_contract.keep(check, MyHost()))
```

`CHECKS` need no real processes; `PROCESS_CHECKS` do, and a Linux system inside the environment.
"""

# ruff: noqa: SIM300 -- as in tests: expected == actual
from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ..core.model import MILLI, Outcome
from ..errors import Unavailable
from ..executors.port import (
    Completion,
    CpuGrant,
    EnvironmentSpec,
    Host,
    Invocation,
    Sandbox,
)

Check = Callable[[Host], Awaitable[None]]


def units(count: float, *, cores: tuple[int, ...] = (), most: float | None = None) -> CpuGrant:
    """A grant of so many units, which may grow to `most`."""
    milli = round(count * MILLI)
    return CpuGrant(milli=milli, cores=cores, most_milli=round((most or count) * MILLI))


def name(check: Check) -> str:
    """A check's sentence."""
    return check.__name__.replace("_", " ")


async def keep(check: Check, host: Host) -> None:
    """Run one check and close the host; raises `AssertionError` when the contract is broken."""
    try:
        await check(host)
    finally:
        await host.close()


async def run(sandbox: Sandbox, command: str, run_id: str = "r", **limits: object) -> Completion:
    """Run one shell command on one unit."""
    invocation = Invocation(command=command, **limits)  # type: ignore[arg-type]
    return await sandbox.run(run_id, invocation, units(1))


async def opened(host: Host, environment: str = "e") -> Sandbox:
    """An environment with a memory limit that nothing in the checks reaches."""
    return await host.open(EnvironmentSpec(id=environment, memory_mib=512))


# -- what holds with or without processes --------------------------------------------------------


async def a_zero_exit_is_a_success(host: Host) -> None:
    ended = await run(await opened(host), "true")

    assert (Outcome.SUCCEEDED, 0, "") == (ended.outcome, ended.exit_code, ended.reason)


async def another_exit_is_a_failure_with_its_status_and_a_reason(host: Host) -> None:
    ended = await run(await opened(host), "exit 3")

    assert (Outcome.FAILED, 3) == (ended.outcome, ended.exit_code)
    assert "3" in ended.reason


async def output_comes_back_whole_and_counted(host: Host) -> None:
    ended = await run(await opened(host), "echo hello; exit 1")

    assert (b"hello\n", 6, False) == (ended.stdout, ended.stdout_bytes, ended.truncated)


async def input_is_what_was_given(host: Host) -> None:
    ended = await run(await opened(host), "cat", stdin=b"given")

    assert b"given" == ended.stdout


async def without_input_a_reader_ends_at_once(host: Host) -> None:
    ended = await run(await opened(host), "cat", timeout_s=5)

    assert (Outcome.SUCCEEDED, b"") == (ended.outcome, ended.stdout)


async def a_timeout_ends_the_command_and_keeps_its_output(host: Host) -> None:
    began = time.monotonic()

    ended = await run(await opened(host), "echo a; sleep 60", timeout_s=0.3)

    assert (Outcome.TIMED_OUT, b"a\n") == (ended.outcome, ended.stdout)
    assert "0.3" in ended.reason
    assert time.monotonic() - began < 5


async def run_time_is_from_start_to_end(host: Host) -> None:
    ended = await run(await opened(host), "sleep 0.2")

    assert 0.2 <= ended.run_s < 2


async def cancelling_the_caller_ends_the_command(host: Host) -> None:
    sandbox = await opened(host)
    running = asyncio.create_task(run(sandbox, "sleep 60"))
    await asyncio.sleep(0.05)

    running.cancel()
    await asyncio.wait([running], timeout=5)

    assert running.cancelled()
    assert Outcome.SUCCEEDED is (await run(sandbox, "true")).outcome


async def stopping_a_command_returns_it_as_cancelled_with_its_output(host: Host) -> None:
    sandbox = await opened(host)
    running = asyncio.create_task(run(sandbox, "echo a; sleep 60"))
    await asyncio.sleep(0.2)

    sandbox.stop("r")
    ended = await asyncio.wait_for(running, 5)

    assert (Outcome.CANCELLED, b"a\n") == (ended.outcome, ended.stdout)


async def stopping_or_resizing_what_has_ended_is_ignored(host: Host) -> None:
    sandbox = await opened(host)
    await run(sandbox, "true")

    sandbox.stop("r")
    sandbox.resize("r", units(2))

    assert Outcome.SUCCEEDED is (await run(sandbox, "true")).outcome


async def a_command_can_be_resized_while_it_runs(host: Host) -> None:
    sandbox = await opened(host)
    running = asyncio.create_task(run(sandbox, "sleep 0.2"))
    await asyncio.sleep(0.05)

    sandbox.resize("r", units(2))

    assert Outcome.SUCCEEDED is (await running).outcome


async def commands_run_side_by_side_in_one_environment(host: Host) -> None:
    sandbox = await opened(host)
    slow = [asyncio.create_task(run(sandbox, "sleep 60", run_id=f"r{i}")) for i in range(3)]

    ended = await asyncio.wait_for(run(sandbox, "true", run_id="quick"), 50)  # not after the slow
    still = [task.done() for task in slow]
    for i in range(3):
        sandbox.stop(f"r{i}")
    stopped = await asyncio.gather(*slow)

    assert (Outcome.SUCCEEDED, [False] * 3) == (ended.outcome, still)
    assert [Outcome.CANCELLED] * 3 == [one.outcome for one in stopped]


async def files_written_are_files_read(host: Host) -> None:
    sandbox = await opened(host)

    await sandbox.write("folder/file.bin", b"\x00\xff")

    assert b"\x00\xff" == await sandbox.read("folder/file.bin")
    assert [("file.bin", 2, False)] == [
        (entry.name, entry.size, entry.directory) for entry in await sandbox.list("folder")
    ]
    assert [("folder", True)] == [(e.name, e.directory) for e in await sandbox.list()]


async def what_is_not_there_is_a_missing_file(host: Host) -> None:
    sandbox = await opened(host)

    await _raises(FileNotFoundError, sandbox.read("none"))
    await _raises(FileNotFoundError, sandbox.list("none"))


async def a_folder_is_no_file(host: Host) -> None:
    sandbox = await opened(host)
    await sandbox.write("folder/file", b"")

    await _raises(IsADirectoryError, sandbox.read("folder"))


async def no_path_leads_out_of_the_workspace(host: Host) -> None:
    sandbox = await opened(host)

    await _raises(PermissionError, sandbox.read("../secret"))
    await _raises(PermissionError, sandbox.write("/etc/passwd", b""))


async def folders_go_in_and_come_out(host: Host) -> None:
    sandbox = await opened(host)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        (source / "below").mkdir(parents=True)
        (source / "below/file").write_bytes(b"x")

        await sandbox.upload(source, "copy")
        await sandbox.download("copy", target)

        assert b"x" == (target / "below/file").read_bytes()
        assert b"x" == await sandbox.read("copy/below/file")


async def a_shell_runs_commands(host: Host) -> None:
    shell = await (await opened(host)).shell()

    ended = await shell.run("r", Invocation(command="echo hi"), units(1))
    await shell.close()

    assert (Outcome.SUCCEEDED, b"hi\n") == (ended.outcome, ended.stdout)


async def environments_do_not_share_files(host: Host) -> None:
    one, other = await opened(host, "one"), await opened(host, "other")

    await one.write("file", b"")

    assert [] == list(await other.list())


async def a_closed_environment_runs_nothing(host: Host) -> None:
    sandbox = await opened(host)

    await sandbox.close()
    await sandbox.close()

    await _raises(Unavailable, run(sandbox, "true"))


async def closing_ends_what_runs(host: Host) -> None:
    sandbox = await opened(host)
    running = asyncio.create_task(run(sandbox, "sleep 60"))
    await asyncio.sleep(0.05)

    await sandbox.close()
    ended = await asyncio.wait_for(running, 5)

    assert Outcome.CANCELLED is ended.outcome


async def a_name_is_free_again_after_closing(host: Host) -> None:
    await (await opened(host)).close()

    assert Outcome.SUCCEEDED is (await run(await opened(host), "true")).outcome


# -- what takes real processes -------------------------------------------------------------------


async def a_command_that_does_not_exist_is_a_failure(host: Host) -> None:
    ended = await (await opened(host)).run("r", Invocation(command=["no-such-command"]), units(1))

    assert (Outcome.FAILED, 127) == (ended.outcome, ended.exit_code)
    assert "no-such-command" in ended.reason


async def a_folder_that_does_not_exist_is_a_failure_that_never_ran(host: Host) -> None:
    ended = await run(await opened(host), "true", cwd="nowhere")

    assert (Outcome.FAILED, None) == (ended.outcome, ended.exit_code)
    assert "nowhere" in ended.reason


async def the_signal_that_ended_a_command_is_told(host: Host) -> None:
    ended = await run(await opened(host), "kill -SEGV $$")

    assert (Outcome.FAILED, 139) == (ended.outcome, ended.exit_code)
    assert "SIGSEGV" in ended.reason


async def variables_of_the_command_reach_it(host: Host) -> None:
    ended = await run(await opened(host), "echo $WORD", variables={"WORD": "it's"})

    assert b"it's\n" == ended.stdout


async def commands_start_in_the_workspace_or_where_they_are_told(host: Host) -> None:
    sandbox = await opened(host)
    await sandbox.write("below/file", b"inside")

    ended = await run(sandbox, "cat below/file; cd below; cat file")
    below = await run(sandbox, "cat file", cwd="below")

    assert (b"insideinside", b"inside") == (ended.stdout, below.stdout)


async def a_long_command_line_is_run(host: Host) -> None:
    ended = await run(await opened(host), "true " + "x" * 300_000 + "; echo done")

    assert b"done\n" == ended.stdout


async def a_long_command_line_is_run_as_a_short_one_is(host: Host) -> None:
    sandbox = await opened(host)
    told = "echo $0 $#; cat; ls /proc/self/fd | wc -l; (exit 7); # "

    short, long = [
        await run(sandbox, told + "x" * length, stdin=b"given\n") for length in (1, 300_000)
    ]

    assert b"given" in short.stdout
    assert (short.stdout, short.stderr, 7) == (long.stdout, long.stderr, long.exit_code)


async def words_that_are_too_long_for_a_program_are_a_failure_that_says_so(host: Host) -> None:
    words = ["/bin/sh", "-c", "true " + "x" * 300_000]

    ended = await (await opened(host)).run("r", Invocation(command=words), units(1))

    assert (Outcome.FAILED, 126) == (ended.outcome, ended.exit_code)
    assert "too long" in ended.reason


async def a_large_input_is_read_to_its_end(host: Host) -> None:
    ended = await run(await opened(host), "wc -c", stdin=bytes(3_000_000))

    assert b"3000000\n" == ended.stdout


async def a_shell_gives_each_command_its_own_input(host: Host) -> None:
    shell = await (await opened(host)).shell()

    given = [b"a" * 3_000_000, None, b"b"]
    ended = [
        await shell.run("r", Invocation(command="wc -c", stdin=stdin), units(1)) for stdin in given
    ]

    assert [b"3000000\n", b"0\n", b"1\n"] == [one.stdout for one in ended]


async def silence_ends_a_command_that_has_an_idle_limit(host: Host) -> None:
    ended = await run(
        await opened(host),
        "for i in 1 2 3; do echo $i; sleep 0.2; done; sleep 60",
        idle_timeout_s=0.5,
    )

    assert (Outcome.TIMED_OUT, b"1\n2\n3\n") == (ended.outcome, ended.stdout)
    assert "0.5" in ended.reason


async def a_shell_keeps_directory_and_variables(host: Host) -> None:
    sandbox = await opened(host)
    await sandbox.write("below/file", b"")
    shell = await sandbox.shell()

    for command in ("cd below; X='a b'", "f() { echo got $X; }"):
        await shell.run("r", Invocation(command=command), units(1))
    ended = await shell.run("r", Invocation(command="ls; f"), units(1))

    assert b"file\ngot a b\n" == ended.stdout


async def a_shell_survives_a_timeout_with_its_state(host: Host) -> None:
    shell = await (await opened(host)).shell()
    await shell.run("r", Invocation(command="cd /; X=1"), units(1))

    slow = await shell.run(
        "r", Invocation(command="echo a; sleep 60; echo b", timeout_s=0.3), units(1)
    )
    ended = await shell.run("r", Invocation(command="pwd; echo $X"), units(1))

    assert (Outcome.TIMED_OUT, b"a\n", True) == (slow.outcome, slow.stdout, slow.state_survived)
    assert b"/\n1\n" == ended.stdout


async def a_shell_that_was_ended_starts_anew_and_says_so(host: Host) -> None:
    shell = await (await opened(host)).shell()
    await shell.run("r", Invocation(command="X=1"), units(1))

    ended = await shell.run("r", Invocation(command="exit 4"), units(1))
    after = await shell.run("r", Invocation(command="echo ${X-gone}"), units(1))

    assert (Outcome.FAILED, 4, False) == (ended.outcome, ended.exit_code, ended.state_survived)
    assert b"gone\n" == after.stdout


async def nonsense_does_not_end_a_shell(host: Host) -> None:
    shell = await (await opened(host)).shell()

    for command in ("echo 'unbalanced", "if", "((", "cat <<END\nno end", ")"):
        nonsense = await shell.run("r", Invocation(command=command), units(1))
        assert nonsense.state_survived, command
    ended = await shell.run("r", Invocation(command="echo fine # a comment"), units(1))

    assert b"fine\n" == ended.stdout


async def _raises(error: type[Exception], awaitable: Awaitable[object]) -> None:
    try:
        await awaitable
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


CHECKS: tuple[Check, ...] = (
    a_zero_exit_is_a_success,
    another_exit_is_a_failure_with_its_status_and_a_reason,
    output_comes_back_whole_and_counted,
    input_is_what_was_given,
    without_input_a_reader_ends_at_once,
    a_timeout_ends_the_command_and_keeps_its_output,
    run_time_is_from_start_to_end,
    cancelling_the_caller_ends_the_command,
    stopping_a_command_returns_it_as_cancelled_with_its_output,
    stopping_or_resizing_what_has_ended_is_ignored,
    a_command_can_be_resized_while_it_runs,
    commands_run_side_by_side_in_one_environment,
    files_written_are_files_read,
    what_is_not_there_is_a_missing_file,
    a_folder_is_no_file,
    no_path_leads_out_of_the_workspace,
    folders_go_in_and_come_out,
    a_shell_runs_commands,
    environments_do_not_share_files,
    a_closed_environment_runs_nothing,
    closing_ends_what_runs,
    a_name_is_free_again_after_closing,
)

PROCESS_CHECKS: tuple[Check, ...] = (
    a_command_that_does_not_exist_is_a_failure,
    a_folder_that_does_not_exist_is_a_failure_that_never_ran,
    the_signal_that_ended_a_command_is_told,
    variables_of_the_command_reach_it,
    commands_start_in_the_workspace_or_where_they_are_told,
    a_long_command_line_is_run,
    a_long_command_line_is_run_as_a_short_one_is,
    words_that_are_too_long_for_a_program_are_a_failure_that_says_so,
    a_large_input_is_read_to_its_end,
    a_shell_gives_each_command_its_own_input,
    silence_ends_a_command_that_has_an_idle_limit,
    a_shell_keeps_directory_and_variables,
    a_shell_survives_a_timeout_with_its_state,
    a_shell_that_was_ended_starts_anew_and_says_so,
    nonsense_does_not_end_a_shell,
)
