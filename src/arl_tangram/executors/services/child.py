"""A program of somebody else's as our child: bounded output, and no process outlives it or us."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self, cast

from ...core.model import Seconds
from ...errors import Unavailable

_GUARD = Path(__file__).with_name("guard.py")
_TAIL_BYTES = 4096
_DRAIN_S = 1.0
GRACE_S = 5.0
"""How long a program may take to end when it is asked to."""


class _Pipes(asyncio.SubprocessProtocol):
    """What a process and its pipes tell: pipes may be open longer, for others may hold them."""

    def __init__(self, took: Callable[[int, bytes], None]) -> None:
        self._took = took
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._took(fd, data)

    def process_exited(self) -> None:
        self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)


class Child:
    """A running program, with all it starts.

    Attributes:
        out: the first bytes of its standard output, up to the limit; all of it goes to `tail` too.
        cut: whether it printed more than that.
    """

    _end: asyncio.Task[int]

    def __init__(self, lifeline: int, *, keep_bytes: int, folder: str) -> None:
        self._lifeline = lifeline
        self._folder = folder
        self._keep = keep_bytes
        self._tail = bytearray()
        self.out = bytearray()
        self.cut = False

    @classmethod
    async def start(
        cls,
        program: Sequence[str],
        *,
        variables: Mapping[str, str],
        stdin: bytes | None = None,
        keep_bytes: int = 0,
        grace_s: Seconds = GRACE_S,
        folder: str = "",
    ) -> Self:
        """Start a program. Raises `Unavailable` if no process can be made at all.

        Args:
            program: it, and its arguments.
            variables: environment variables, on top of this process's.
            stdin: what it can read; nothing otherwise.
            keep_bytes: how much of its standard output is kept; what prints more than it may is
                killed. 0 keeps none, and lets it print.
            grace_s: how long it may take to end when it is asked to.
            folder: is removed with its files when it has ended, whoever ended it.
        """
        here, there = os.pipe()
        child = cls(there, keep_bytes=keep_bytes, folder=folder)
        loop = asyncio.get_running_loop()
        try:
            transport, pipes = await loop.subprocess_exec(
                lambda: _Pipes(child._took),
                *(sys.executable, "-I", "-S", str(_GUARD)),
                *(str(here), str(os.getpid()), str(grace_s), folder, *program),
                stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **variables},
                pass_fds=(here,),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            os.close(there)
            raise Unavailable(f"could not start {program[0]}: {error}") from error
        except BaseException:
            os.close(there)
            raise
        finally:
            os.close(here)
        child._end = loop.create_task(child._run(transport, pipes))
        if stdin is not None:
            given = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
            given.write(stdin)
            given.close()  # when it is all there; or sooner, if it is not read
        return child

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return not self._end.done()

    @property
    def tail(self) -> str:
        """The last lines it printed, as one line."""
        lines = self._tail.decode(errors="replace").split("\n")
        return " | ".join(line.strip() for line in lines if line.strip())[-500:]

    async def ended(self) -> int:
        """Wait for its end: its status, or 128 + n if signal n ended it."""
        return await asyncio.shield(self._end)

    async def why(self) -> str:
        """Wait for its end, and say how it ended in a few words."""
        status = await self.ended()
        said = f"; it said: {self.tail}" if self.tail else ""
        signal = -status if status < 0 else status - 128  # less than 0 if its guard was killed
        how = f"was ended by signal {signal}" if signal > 0 else f"exited with {status}"
        return f"its process {how}{said}"

    async def stop(self) -> None:
        """Ask it to end, kill what is left after its grace, and wait; idempotent."""
        self._say(b"g")
        await self.ended()

    async def kill(self) -> None:
        """Kill it and all it started, and wait; idempotent."""
        self._say(b"k")
        await self.ended()

    def _say(self, word: bytes) -> None:
        if self._lifeline >= 0:
            with contextlib.suppress(OSError):
                os.write(self._lifeline, word)

    async def _run(self, transport: asyncio.SubprocessTransport, pipes: _Pipes) -> int:
        await pipes.exited
        # What it printed is there by now, and whoever else holds its pipes may do so for ever.
        await asyncio.wait({pipes.closed}, timeout=_DRAIN_S)
        given = cast("asyncio.WriteTransport | None", transport.get_pipe_transport(0))
        if given is not None and given.get_write_buffer_size():
            given.abort()  # it would go on trying
        transport.close()
        os.close(self._lifeline)
        self._lifeline = -1
        if self._folder:  # its guard may have been killed itself
            shutil.rmtree(self._folder, ignore_errors=True)
        status = transport.get_returncode()
        assert status is not None
        return status

    def _took(self, fd: int, data: bytes) -> None:
        if fd == 1 and self._keep:
            room = self._keep - len(self.out)
            self.out += data[:room]
            if len(data) > room and not self.cut:
                self.cut = True
                self._say(b"k")
        self._tail += data
        del self._tail[:-_TAIL_BYTES]
