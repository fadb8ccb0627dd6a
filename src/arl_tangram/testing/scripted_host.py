"""A host without processes: its commands take the time, print and end as a script says."""

from __future__ import annotations

import asyncio
import posixpath
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..core.model import MILLI, Outcome, Seconds
from ..errors import Unavailable
from ..executors.port import Completion, CpuGrant, EnvironmentSpec, FileEntry, Invocation

SUCCESS = Completion(outcome=Outcome.SUCCEEDED, exit_code=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """How one command behaves.

    Attributes:
        work_s: how long it takes on one unit; None means until it is told to `finish`.
        completion: how it ends when nothing stops it.
        speedup: how much faster it is on so many units.
        raises: what `run` raises instead of returning, once the work is done.
    """

    work_s: Seconds | None = 0.0
    completion: Completion = SUCCESS
    speedup: Callable[[float], float] = lambda units: units
    raises: Exception | None = None


def small_shell(invocation: Invocation) -> Script:
    """The script of a handful of commands: true, false, exit N, echo …, cat, sleep S, spin S.

    `sleep` takes S seconds on any grant, `spin` takes S seconds on one unit; a final ``; exit N``
    is honoured, and all else succeeds at once.
    """
    text = invocation.command
    words = shlex.split(text.replace(";", " ; ")) if isinstance(text, str) else list(text)
    out, code, work, speedup = b"", 0, 0.0, lambda units: units
    while words:
        end = words.index(";") if ";" in words else len(words)
        (name, *rest), words = words[:end] or ["true"], words[end + 1 :]
        code = {"false": 1, "exit": int(rest[0]) if rest and name == "exit" else 0}.get(name, 0)
        if name == "echo":
            out += " ".join(rest).encode() + b"\n"
        elif name == "cat":
            out += invocation.stdin or b""
        elif name in ("sleep", "spin"):
            work += float(rest[0])
            speedup = (lambda units: 1.0) if name == "sleep" else speedup
        elif name == "exit":
            break
    completion = Completion(
        outcome=Outcome.FAILED if code else Outcome.SUCCEEDED,
        exit_code=code,
        stdout=out,
        stdout_bytes=len(out),
        reason=f"exit status {code}" if code else "",
    )
    return Script(work_s=work, completion=completion, speedup=speedup)


class _Run:
    """One command on its way: how much work is left, and at which speed it is done."""

    def __init__(self, script: Script, invocation: Invocation, grant: CpuGrant) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Completion] = self._loop.create_future()
        self.grants = [grant]
        self._script = script
        self._left = script.work_s
        self._began = self._since = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = invocation.timeout_s and self._loop.call_later(
            invocation.timeout_s,
            self.end,
            Outcome.TIMED_OUT,
            f"ran into its time limit of {invocation.timeout_s:g} s",
        )
        self._plan()

    def resize(self, grant: CpuGrant) -> None:
        now = self._loop.time()
        if self._left is not None:
            self._left -= (now - self._since) * self._speed()
        self._since = now
        self.grants.append(grant)
        self._plan()

    def end(self, outcome: Outcome, reason: str) -> None:
        """End it before its time, with what it has printed."""
        self.finish(replace(self._script.completion, outcome=outcome, exit_code=137, reason=reason))

    def finish(self, completion: Completion) -> None:
        if not self.ended.done():
            run_s = self._loop.time() - self._began
            self.ended.set_result(replace(completion, run_s=run_s))

    def forget(self) -> None:
        for timer in (self._timer, self._deadline):
            if timer:
                timer.cancel()

    def _speed(self) -> float:
        return self._script.speedup(self.grants[-1].milli / MILLI)

    def _plan(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._left is None or (speed := self._speed()) <= 0:
            return
        delay = max(0.0, self._left / speed)
        self._timer = self._loop.call_later(delay, self.finish, self._script.completion)


class ScriptedSandbox:
    """An environment of a `ScriptedHost`; its files are kept in memory."""

    def __init__(self, host: ScriptedHost, spec: EnvironmentSpec) -> None:
        self.spec = spec
        self.files: dict[str, bytes] = {}
        self.closed = False
        self._host = host
        self._runs: dict[str, _Run] = {}

    async def run(self, run_id: str, invocation: Invocation, grant: CpuGrant) -> Completion:
        self._require_open()
        script = self._host.script(invocation)
        self._host.calls.append(("run", self.spec.id, run_id, grant))
        run = self._runs[run_id] = _Run(script, invocation, grant)
        try:
            completion = await run.ended
        finally:
            run.forget()
            del self._runs[run_id]
        if script.raises is not None:
            raise script.raises
        return completion

    def resize(self, run_id: str, grant: CpuGrant) -> None:
        if run := self._runs.get(run_id):
            self._host.calls.append(("resize", self.spec.id, run_id, grant))
            run.resize(grant)

    def stop(self, run_id: str) -> None:
        if run := self._runs.get(run_id):
            self._host.calls.append(("stop", self.spec.id, run_id, None))
            run.end(Outcome.CANCELLED, "was told to stop")

    def finish(self, run_id: str, completion: Completion = SUCCESS) -> None:
        """End a running command now, as a test decides."""
        self._runs[run_id].finish(completion)

    def grants(self, run_id: str) -> Sequence[CpuGrant]:
        """What a running command has held so far, oldest first."""
        return tuple(self._runs[run_id].grants)

    @property
    def running(self) -> Sequence[str]:
        """The commands that run now, in the order of their start."""
        return tuple(self._runs)

    async def shell(self) -> ScriptedShell:
        self._require_open()
        return ScriptedShell(self)

    async def write(self, path: str, data: bytes) -> None:
        self._require_open()
        self.files[_inside(path)] = data

    async def read(self, path: str) -> bytes:
        self._require_open()
        if self._is_folder(inside := _inside(path)):
            raise IsADirectoryError(path)
        if inside not in self.files:
            raise FileNotFoundError(path)
        return self.files[inside]

    async def upload(self, source: Path, path: str) -> None:
        if not source.is_dir():
            await self.write(path, source.read_bytes())
            return
        for file in source.rglob("*"):
            if file.is_file():
                await self.write(f"{path}/{file.relative_to(source)}", file.read_bytes())

    async def download(self, path: str, target: Path) -> None:
        inside = _inside(path)
        if not self._is_folder(inside):
            target.write_bytes(await self.read(path))
            return
        for name, data in self.files.items():
            if (relative := posixpath.relpath(name, inside)).startswith(".."):
                continue
            (target / relative).parent.mkdir(parents=True, exist_ok=True)
            (target / relative).write_bytes(data)

    async def list(self, path: str = ".") -> Sequence[FileEntry]:
        self._require_open()
        if not self._is_folder(folder := _inside(path)):
            raise FileNotFoundError(path)
        entries: dict[str, FileEntry] = {}
        for name, data in self.files.items():
            relative = posixpath.relpath(name, folder)
            first, _, rest = relative.partition("/")
            if first != "..":
                size = 0 if rest else len(data)
                entries[first] = FileEntry(name=first, size=size, directory=bool(rest))
        return [entries[name] for name in sorted(entries)]

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._host.calls.append(("close", self.spec.id, "", None))
            self._host.sandboxes.pop(self.spec.id, None)
            for run in self._runs.values():
                run.end(Outcome.CANCELLED, "its environment was closed")

    def _is_folder(self, inside: str) -> bool:
        return inside == "." or any(name.startswith(f"{inside}/") for name in self.files)

    def _require_open(self) -> None:
        if self.closed:
            raise Unavailable(f"environment {self.spec.id} is closed")


class ScriptedShell:
    """A shell of a scripted environment: its commands wait for one another."""

    def __init__(self, sandbox: ScriptedSandbox) -> None:
        self._sandbox = sandbox
        self._turn = asyncio.Lock()  # one command at a time, as in a real shell
        self._closed = False

    async def run(self, run_id: str, invocation: Invocation, grant: CpuGrant) -> Completion:
        async with self._turn:
            if self._closed:
                raise Unavailable("the shell is closed")
            return await self._sandbox.run(run_id, invocation, grant)

    async def close(self) -> None:
        self._closed = True


class ScriptedHost:
    """A fake `Host`. It keeps the executors' contract, as far as that can be kept without processes.

    Args:
        script: what each command does: a function, or a mapping from the command's text whose
            missing entries behave as in `small_shell`.

    Attributes:
        calls: what was asked of it, oldest first: (verb, environment, run, grant).
        sandboxes: the open environments by id.
        refuse: set it to an exception and every `open` raises it.
    """

    def __init__(
        self, script: Callable[[Invocation], Script] | Mapping[str, Script] = small_shell
    ) -> None:
        self.calls: list[tuple[str, str, str, CpuGrant | None]] = []
        self.sandboxes: dict[str, ScriptedSandbox] = {}
        self.refuse: Exception | None = None
        self._script = script

    def script(self, invocation: Invocation) -> Script:
        """What this command does."""
        if isinstance(self._script, Mapping):
            text = invocation.command
            name = text if isinstance(text, str) else shlex.join(text)
            return self._script.get(name) or small_shell(invocation)
        return self._script(invocation)

    def check(self, spec: EnvironmentSpec) -> None:
        """It could open anything."""

    async def open(self, spec: EnvironmentSpec) -> ScriptedSandbox:
        if self.refuse is not None:
            raise self.refuse
        self.calls.append(("open", spec.id, "", None))
        sandbox = self.sandboxes[spec.id] = ScriptedSandbox(self, spec)
        return sandbox

    def describe(self) -> Mapping[str, str]:
        return {"enforcement": "none", "isolation": "none", "weaker": "scripted: nothing runs"}

    async def close(self) -> None:
        for sandbox in list(self.sandboxes.values()):
            await sandbox.close()


def _inside(path: str) -> str:
    inside = posixpath.normpath(posixpath.join("/workspace", path))
    if inside != "/workspace" and not inside.startswith("/workspace/"):
        raise PermissionError(f"{path} leads out of the workspace")
    return posixpath.relpath(inside, "/workspace")
