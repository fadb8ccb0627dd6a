"""An environment and a shell in it, as their user sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Self, Unpack

from ..core.model import CPU, NodeId
from ..errors import UnknownEnvironment
from ..executors.port import FileEntry
from ..executors.port import Shell as ShellPort
from . import checks
from .checks import AnyPath, wrong
from .handle import Handle, to_its_end
from .intake import Intake
from .place import SandboxPlace
from .requests import Command, CommandOptions
from .results import Result
from .rooms import ShellRoom
from .work import Room


class Environment:
    """A sandbox whose files and background processes last until it is closed.

    Use it as an asynchronous context manager, or `open` (or await) and `close` it. It holds its
    memory all the time, and processors only while a command runs in it.
    """

    def __init__(self, place: SandboxPlace, *, intake: Intake) -> None:
        self._place = place
        self._intake = intake

    def __repr__(self) -> str:
        return f"<Environment {self.id}>"

    @property
    def id(self) -> str:
        return self._place.environment.id

    @property
    def task(self) -> str:
        return self._place.environment.task

    @property
    def trajectory(self) -> str:
        return self._place.environment.trajectory

    @property
    def step(self) -> str | None:
        """The batch its trajectory belongs to, if that was said."""
        return self._place.environment.step or None

    @property
    def node(self) -> NodeId | None:
        """The machine it is on; None until it was given a place."""
        return self._place.node

    async def open(self) -> Self:
        """Wait until it can be used.

        Raises `InvalidAction` if no node could ever hold it, `Unavailable` if it could not be made.
        """
        await self._place.open()
        return self

    async def close(self) -> None:
        """Cancel what runs or waits in it, end every process, remove its files; idempotent."""
        await self._place.close()

    def __await__(self) -> Generator[object, None, Self]:
        return self.open().__await__()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def run(
        self, command: Command, *, check: bool = False, **options: Unpack[CommandOptions]
    ) -> Result:
        """Run a command to its end; cancelling this call cancels the command.

        Args:
            command: a line for ``sh -c``, or a program and its arguments.
            check: raise the `ActionError` of any outcome but success.
            options: see `CommandOptions`.
        """
        must_succeed = checks.flag(check, "check")
        result = await to_its_end(self.submit(command, **options))
        return result.check() if must_succeed else result

    def submit(self, command: Command, **options: Unpack[CommandOptions]) -> Handle:
        """Let a command wait for its resources; the handle tells how it goes."""
        return _submit(command, options, self._place, self._intake)

    async def shell(self) -> Shell:
        """Start a shell that keeps its directory and variables from one command to the next."""
        return Shell(
            await self._place.require_open().shell(), place=self._place, intake=self._intake
        )

    async def write(self, path: AnyPath, data: str | bytes) -> None:
        """Write a file, and the folders it needs; text is stored as UTF-8."""
        content = checks.utf8(data, "data") if isinstance(data, str) else data
        if not isinstance(content, bytes | bytearray | memoryview):
            raise wrong("data", content, "give text or bytes")
        await self._place.require_open().write(checks.inside(path), bytes(content))

    async def read(self, path: AnyPath) -> bytes:
        """The content of a file. Raises `FileNotFoundError` and its like."""
        return await self._place.require_open().read(checks.inside(path))

    async def read_text(self, path: AnyPath) -> str:
        """The content of a UTF-8 file."""
        return (await self.read(path)).decode()

    async def upload(self, source: AnyPath, path: AnyPath) -> None:
        """Copy a file or a folder of this machine into the environment; links in it are left out."""
        await self._place.require_open().upload(checks.path(source, "source"), checks.inside(path))

    async def download(self, path: AnyPath, target: AnyPath) -> None:
        """Copy a file or a folder of the environment to this machine.

        Of a folder, only files and folders are copied: links and pipes in it are left out. A link
        given as `path` itself is followed, as far as it stays in the workspace.
        """
        await self._place.require_open().download(
            checks.inside(path), checks.path(target, "target")
        )

    async def list(self, path: AnyPath = ".") -> Sequence[FileEntry]:
        """What is in a folder."""
        return await self._place.require_open().list(checks.inside(path))


class Shell:
    """A shell in an environment. One command at a time, each with a grant of its own."""

    def __init__(self, shell: ShellPort, *, place: SandboxPlace, intake: Intake) -> None:
        self._shell = shell
        self._place = place
        self._intake = intake
        self._closed = False
        self._room = ShellRoom(place, shell)
        # Commands of one shell take turns here, not in the shell, where they would hold units.
        self._turn = asyncio.Lock()

    async def run(
        self, command: str, *, check: bool = False, **options: Unpack[CommandOptions]
    ) -> Result:
        """Run a line in the shell; its kind is ``shell`` unless said otherwise."""
        must_succeed = checks.flag(check, "check")
        async with self._turn:
            if self._closed:
                raise UnknownEnvironment("the shell is closed; start another one")
            handle = _submit(
                command, options, self._place, self._intake, room=self._room, kind="shell"
            )
            result = await to_its_end(handle)
        return result.check() if must_succeed else result

    async def close(self) -> None:
        """End the shell and what it started; idempotent."""
        self._closed = True
        await self._shell.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _submit(
    command: Command,
    options: CommandOptions,
    place: SandboxPlace,
    intake: Intake,
    *,
    room: Room | None = None,
    kind: str = "default",
) -> Handle:
    place.require_open()
    environment = place.environment
    return intake.submit(
        command,
        options,
        room=room or place,
        task=environment.task,
        trajectory=environment.trajectory,
        environment=environment.id,
        kind=kind,
        owns_cores=CPU in environment.needs,
    )
