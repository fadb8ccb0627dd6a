"""The host's side of one warden: gives it orders and understands its reports."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .channel import Channel
from .inside import frames
from .port import MIB

_NUMBERS = struct.Struct(f"<{frames.NUMBERS}q")
LARGEST_REPORT = 256 * MIB


class Report(NamedTuple):
    """What a warden says about a command that has ended."""

    kind: int
    serial: int
    status: int
    flags: int
    run_us: int
    cpu_us: int
    maxrss_kib: int
    stdout_bytes: int
    stderr_bytes: int
    stdout: tuple[bytes, bytes]
    stderr: tuple[bytes, bytes]
    reason: str

    @classmethod
    def parse(cls, payload: bytes) -> Report:
        """Raises `ValueError` when the payload is not a report."""
        if len(payload) < _NUMBERS.size:
            raise ValueError("a report is too short")
        numbers = _NUMBERS.unpack_from(payload)
        lengths = numbers[-frames.TEXTS :]
        if min(lengths) < 0 or _NUMBERS.size + sum(lengths) != len(payload):
            raise ValueError("a report's texts do not add up")
        texts, at = [], _NUMBERS.size
        for length in lengths:
            texts.append(payload[at : at + length])
            at += length
        reason = texts[4].decode(errors="replace")
        kind, serial, status, flags, run_us, cpu_us, maxrss, out, err = numbers[: -frames.TEXTS]
        return cls(
            kind=kind,
            serial=serial,
            status=status,
            flags=flags,
            run_us=run_us,
            cpu_us=cpu_us,
            maxrss_kib=maxrss,
            stdout_bytes=out,
            stderr_bytes=err,
            stdout=(texts[0], texts[1]),
            stderr=(texts[2], texts[3]),
            reason=reason,
        )


class Warden:
    """One warden as the host sees it; it carries out one order at a time.

    Attributes:
        ready: done when it has said hello; its result is False if it never did.
        gone: done when it has ended.
        alive: whether it can still be talked to.
        pid: its process id on the host.
        trouble: what went wrong in it, if it broke down by itself.
    """

    def __init__(self, sock: socket.socket, *, on_end: Callable[[Warden], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[bool] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.alive = True
        self.trouble = ""
        self.pid = 0
        self._on_end = on_end
        self._serial = 0
        self._report: asyncio.Future[Report | None] | None = None
        self._channel = Channel(sock, on_payload=self._take, on_end=self._end, most=LARGEST_REPORT)

    @property
    def serial(self) -> int:
        """The number of the order it was given last."""
        return self._serial

    def order(
        self, verb: str, *fields: object, fds: Sequence[int] = ()
    ) -> asyncio.Future[Report | None]:
        """Give an order; its result is None when the warden was lost over it.

        The descriptors go with it; they are closed here.
        """
        self._serial += 1
        self._report = self._loop.create_future()
        self._channel.send(frames.to_warden((verb, self._serial, *fields)), fds=fds)
        if not self.alive:
            self._report.set_result(None)
        return self._report

    def again(self) -> asyncio.Future[Report | None]:
        """Another future of the running order's report, for when the first was cancelled."""
        old = self._report
        self._report = self._loop.create_future()
        if old is not None and old.done() and not old.cancelled():
            self._report.set_result(old.result())
        elif not self.alive:
            self._report.set_result(None)
        return self._report

    def tell(self, verb: str, *fields: object) -> None:
        """Say something about the running order; it is not answered."""
        self._channel.send(frames.to_warden((verb, self._serial, *fields)))

    def close(self) -> None:
        """Let go of it; what waits for it is told that it is lost."""
        if self.alive:
            self._channel.close()
            self._end()

    def _take(self, payload: bytes) -> None:
        try:
            report = Report.parse(payload)
        except ValueError:
            self.close()
            return
        if report.kind == frames.BORN:
            self.pid = report.serial
        elif report.kind == frames.HELLO:
            if not self.ready.done():
                self.ready.set_result(True)
        elif report.kind == frames.CRASHED:
            self.trouble = report.reason
        elif report.serial == self._serial and self._report and not self._report.done():
            self._report.set_result(report)

    def _end(self) -> None:
        self.alive = False
        self.gone.set_result(None)
        if not self.ready.done():
            self.ready.set_result(False)
        if self._report and not self._report.done():
            self._report.set_result(None)
        self._on_end(self)


def encode_environment(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    """Variables as the kernel takes them."""
    return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
