"""What the runtime asks of an executor: open environments, run commands in them, resize, close."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..core.model import Outcome, Seconds

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSpec:
    """How an environment is to be made.

    Attributes:
        memory_mib: the most memory all its processes may hold together; None means unlimited.
        pids: the most processes and threads it may have at once.
        network: whether it may reach the network; without it, only its own loopback.
        variables: environment variables for every command, on top of the minimal set.
        readable: host paths it may read besides the system, at the same path inside.
        most_cpu_milli: the most CPU all its actions may ever hold together, if known.
        workspace: a folder of the host to work in, for commands that are trusted: they run as our
            own user with our own variables and without walls, and only what they use is limited.
            None means a fresh folder behind walls.
    """

    id: str
    memory_mib: int | None = None
    pids: int = 1024
    network: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    readable: Sequence[Path] = ()
    most_cpu_milli: int | None = None
    workspace: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuGrant:
    """The processor time a command holds now.

    Attributes:
        milli: millicores granted (1,000 is one unit).
        cores: the ids of its cores: one for each whole core, then one for the part of a shared
            core, if any; empty means it is not pinned.
        most_milli: what it may grow to if it is resizable; equals `milli` if it is not.
    """

    milli: int
    cores: tuple[int, ...] = ()
    most_milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A command to run: a string is run by ``sh -c``, a sequence is run as it is.

    Attributes:
        cwd: the working directory, relative to the workspace unless absolute.
        stdin: what it can read; None means that its input is empty and closed. It is no memory
            of the environment, read or not.
        timeout_s: the limit on its run time.
        idle_timeout_s: the limit on the time without any output.
        output_limit_bytes: how much of each stream is kept; beyond it head and tail are.
    """

    command: str | Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    stdin: bytes | None = None
    timeout_s: Seconds | None = None
    idle_timeout_s: Seconds | None = None
    output_limit_bytes: int = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """How a command ended.

    Attributes:
        exit_code: its exit status, 128 + n if signal n ended it, 127 if its program was not
            found, 126 if it could not be run; None if it never ran.
        stdout: what it printed; if `truncated`, head and tail around a marker line.
        stdout_bytes: how much it printed in all.
        reason: why it ended so, in one sentence; empty on success.
        run_s: from the spawn to the end.
        cpu_s: processor time it used, as far as it can be told apart.
        peak_memory_bytes: the most its environment held while it ran; 0 if unknown.
        state_survived: whether files and background processes of the environment are intact.
    """

    outcome: Outcome
    exit_code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    truncated: bool = False
    reason: str = ""
    run_s: Seconds = 0.0
    cpu_s: Seconds = 0.0
    peak_memory_bytes: int = 0
    state_survived: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One entry of a folder; `size` is in bytes and is 0 for a folder."""

    name: str
    size: int
    directory: bool


class Shell(Protocol):
    """A shell that keeps its directory and variables from one command to the next."""

    async def run(self, run_id: str, invocation: Invocation, grant: CpuGrant) -> Completion:
        """Run one command line in the shell; the rules of `Sandbox.run` hold, and its grant can be
        resized and its command stopped through the sandbox. Commands wait for one another.
        """

    async def close(self) -> None:
        """End the shell and what it started."""


class Sandbox(Protocol):
    """One open environment. Paths are relative to its workspace; none can leave the environment.

    The file methods raise what the same operation raises on a local disk (`FileNotFoundError`,
    `IsADirectoryError`, …), `PermissionError` for a path that leads out of the workspace, and
    `RequestError` for what is too large to hold in memory.
    """

    async def run(self, run_id: str, invocation: Invocation, grant: CpuGrant) -> Completion:
        """Run one command to its end and return how it ended; a bad command never raises.

        Cancelling the awaiting task kills everything the command started, waits until it is
        gone and then raises `CancelledError`. Raises `Unavailable` when the environment itself
        cannot run anything any more.
        """

    def resize(self, run_id: str, grant: CpuGrant) -> None:
        """Change what a running command holds, at once; ignored if it has already ended."""

    def stop(self, run_id: str) -> None:
        """End a running command and all it started; its `run` returns `CANCELLED` with the output
        so far, once everything is gone. Ignored if it has already ended.
        """

    async def shell(self) -> Shell:
        """Start a stateful shell."""

    async def write(self, path: str, data: bytes) -> None: ...

    async def read(self, path: str) -> bytes: ...

    async def upload(self, source: Path, path: str) -> None:
        """Copy a file or a folder from the host into the environment; links in it stay behind."""

    async def download(self, path: str, target: Path) -> None:
        """Copy a file or a folder from the environment to the host.

        Links, pipes and all else that is neither stay behind.
        """

    async def list(self, path: str = ".") -> Sequence[FileEntry]: ...

    async def close(self) -> None:
        """End everything in it and remove what it left; idempotent."""


class Host(Protocol):
    """A machine that can open environments."""

    def check(self, spec: EnvironmentSpec) -> None:
        """Raise `ConfigError` for what could never be opened here, whatever else is open."""

    async def open(self, spec: EnvironmentSpec) -> Sandbox:
        """Raises what `check` raises, and `Unavailable` when it cannot be opened now, with the reason."""

    def describe(self) -> Mapping[str, str]:
        """Which enforcement and isolation are in force, and what is weaker than the best."""

    async def close(self) -> None:
        """Close every environment and give back what the host holds."""
