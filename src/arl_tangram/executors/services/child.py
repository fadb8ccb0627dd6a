"""A program of somebody else's as our child: bounded output, and no process outlives it or us."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from ...core.model import Seconds
from ...errors import Unavailable

_GUARD = Path(__file__).with_name("guard.py")
_TAIL_BYTES = 4096
GRACE_S = 5.0
"""How long a program may take to end when it is asked to."""


class Child:
    """A running program, with all it starts.

    Attributes:
        out: the first bytes of its standard output, up to the limit; all of it goes to `tail` too.
        cut: whether it printed more than that.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, lifeline: int, *, keep_bytes: int
    ) -> None:
        self._process = process
        self._lifeline = lifeline
        self._keep = keep_bytes
        self._tail = bytearray()
        self.out = bytearray()
        self.cut = False
        self._end = asyncio.get_running_loop().create_task(self._run())

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
        try:
            process = await asyncio.create_subprocess_exec(
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
        child = cls(process, there, keep_bytes=keep_bytes)
        if stdin is not None and process.stdin is not None:
            try:
                process.stdin.write(stdin)
                await process.stdin.drain()
            except ConnectionError:  # it does not read what it is given
                pass
            except BaseException:
                await child.kill()
                raise
            process.stdin.close()
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
        how = f"was ended by signal {status - 128}" if status > 128 else f"exited with {status}"
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

    async def _run(self) -> int:
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        await asyncio.gather(
            self._read(process.stdout, keep=True), self._read(process.stderr, keep=False)
        )
        status = await process.wait()
        os.close(self._lifeline)
        self._lifeline = -1
        return status

    async def _read(self, stream: asyncio.StreamReader, *, keep: bool) -> None:
        while chunk := await stream.read(65536):
            if keep and self._keep:
                room = self._keep - len(self.out)
                self.out += chunk[:room]
                if len(chunk) > room and not self.cut:
                    self.cut = True
                    self._say(b"k")
            self._tail += chunk
            del self._tail[:-_TAIL_BYTES]
