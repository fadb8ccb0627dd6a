"""A stateful shell of an environment, as the host sees it."""

from __future__ import annotations

import asyncio
import os
import shlex
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import Unavailable
from .given import fill
from .inside import frames
from .port import Completion, CpuGrant, Invocation

if TYPE_CHECKING:
    from .environment import LocalSandbox
    from .force import Force
    from .run import Run
    from .warden import Report, Warden

SHELLS = (b"/bin/bash", b"/usr/bin/bash", b"/bin/sh")


class LocalShell:
    """A shell under a warden of its own; when a command ends it, the next one finds a new shell.

    A command's variables are exported before it and its directory is entered, and both stay so.
    """

    def __init__(
        self, sandbox: LocalSandbox, *, variables: Mapping[bytes, bytes], force: Force
    ) -> None:
        self._sandbox = sandbox
        self._variables = dict(variables)
        self._force = force
        self._turn = asyncio.Lock()  # a shell runs one command at a time
        self._warden: Warden | None = None
        self._granted: dict[str, str] = {}
        self._closed = False
        self._input = os.memfd_create("input", os.MFD_CLOEXEC)
        self._close_input = weakref.finalize(self, os.close, self._input)

    async def start(self) -> Warden:
        """Have a shell; returns its warden."""
        if self._warden is not None and self._warden.alive:
            return self._warden
        path = next((p for p in SHELLS if os.path.exists(p)), SHELLS[-1])  # noqa: PTH110
        warden = await self._sandbox.new_warden()
        started = await warden.order(
            "shell", path, self._variables, self._sandbox.home, fds=[os.dup(self._input)]
        )
        if started is None or started.flags & frames.NEVER_RAN:
            reason = started.reason if started else "its warden was lost"
            raise Unavailable(f"no shell could be started: {reason}")
        self._warden, self._granted = warden, {}
        return warden

    async def run(self, run_id: str, invocation: Invocation, grant: CpuGrant) -> Completion:
        def order(run: Run, warden: Warden) -> asyncio.Future[Report | None]:
            fill(self._input, invocation.stdin or b"")
            return warden.order(
                "command",
                self._text(invocation, grant),
                self._sandbox.cores_to_pin(run),
                invocation.idle_timeout_s,
                invocation.output_limit_bytes,
            )

        async with self._turn:
            if self._closed:
                raise Unavailable("the shell is closed")
            run = self._sandbox.new_run(invocation, grant, in_shell=True)
            try:
                completion = await self._sandbox.carry_out(
                    run_id, run, take=self.start, order=order
                )
            except asyncio.CancelledError:
                self._settle(run)
                raise
            self._settle(run)
            return completion

    async def close(self) -> None:
        async with self._turn:
            self._closed = True
            self._close_input()
            if self._warden is not None:
                await self._sandbox.dismiss(self._warden)
                self._warden = None

    def _settle(self, run: Run) -> None:
        if run.invocation.stdin:
            fill(self._input, b"")  # nothing reads it any more, and it may be large
        if run.shell_lost:
            self._warden = None

    def _text(self, invocation: Invocation, grant: CpuGrant) -> bytes:
        command = invocation.command
        text = command if isinstance(command, str) else shlex.join(command)
        variables = {**self._force.variables(grant), **invocation.variables}
        changed = {k: v for k, v in variables.items() if self._granted.get(k) != v}
        self._granted.update(changed)
        exports = "".join(f"export {k}={shlex.quote(v)}\n" for k, v in changed.items())
        if invocation.cwd is not None:
            folder = os.fsdecode(self._sandbox.folder(invocation))
            text = f"cd -- {shlex.quote(folder)} && eval {shlex.quote(text)}"
        # A newline ends a comment in the last line of the command.
        return os.fsencode(f"{exports}{text}\n")
