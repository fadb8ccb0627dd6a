"""Where commands run besides an environment itself: in a shell of one, or in a fresh one each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from ..core.model import Lease, NodeId
from ..executors.port import (
    Completion,
    CpuGrant,
    EnvironmentSpec,
    Host,
    Invocation,
    Sandbox,
)
from ..executors.port import Shell as ShellPort
from .finishing import to_the_end
from .place import SandboxPlace


class ShellRoom:
    """A shell in an open environment; it may end without the environment ending."""

    def __init__(self, place: SandboxPlace, shell: ShellPort) -> None:
        self.enforcement = place.enforcement
        self._place = place
        self._shell = shell

    async def run(
        self, _lease: Lease, run_id: str, invocation: Invocation, grant: CpuGrant
    ) -> Completion:
        return await self._place.hold(run_id, grant, partial(self._shell.run, run_id, invocation))

    def resize(self, run_id: str, grant: CpuGrant) -> None:
        self._place.resize(run_id, grant)

    def stop(self, run_id: str) -> bool:
        return self._place.stop(run_id)

    def broke(self, reason: str) -> None:
        """The shell is gone; that says nothing about the environment."""


class FreshRoom:
    """An environment made for one attempt on the node of its lease, and removed after it."""

    def __init__(self, spec: EnvironmentSpec, hosts: Mapping[NodeId, Host]) -> None:
        self.enforcement = ""
        self._spec = spec
        self._hosts = hosts
        self._sandbox: Sandbox | None = None
        self._grant: CpuGrant | None = None

    async def run(
        self, lease: Lease, run_id: str, invocation: Invocation, grant: CpuGrant
    ) -> Completion:
        host = self._hosts[lease.node]
        self.enforcement = host.describe()["enforcement"]
        self._grant = grant
        sandbox = await host.open(replace(self._spec, id=f"{self._spec.id}-{lease.attempt}"))
        try:
            self._sandbox = sandbox
            return await sandbox.run(run_id, invocation, self._grant)
        finally:
            if self._sandbox is sandbox:
                self._sandbox = None
            await to_the_end(sandbox.close())

    def resize(self, run_id: str, grant: CpuGrant) -> None:
        self._grant = grant  # it may still be opening
        if self._sandbox is not None:
            self._sandbox.resize(run_id, grant)

    def stop(self, run_id: str) -> bool:
        if self._sandbox is None:
            return False
        self._sandbox.stop(run_id)
        return True

    def broke(self, reason: str) -> None:
        """Nothing else runs in it, and the next attempt gets another."""
