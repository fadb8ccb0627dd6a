"""A contestant as the bench sees it: a process that is asked to measure, and ended for good."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import psutil

from .measuring import Absent, Figures

ROOT = Path(__file__).resolve().parents[1]
READY_S = 60.0
END_S = 30.0
GONE_S = 5.0


class Contestant:
    """A started contestant; it may not be ready yet.

    Args:
        python: the interpreter that has what it needs.
        module: its module in `bench.contestants`.
    """

    def __init__(self, python: Path, module: str) -> None:
        self.module = module
        self.about: Mapping[str, str] | None = None
        self._absent = ""
        self._unread = b""
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  closed by `end`
        # What it leaves there goes with it, even if it has to be killed. Ray's sockets need a
        # short path.
        self._folder = tempfile.mkdtemp(prefix="bench-", dir="/tmp")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                [python, "-m", f"bench.contestants.{module}"],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": self._folder},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                start_new_session=True,
            )
        except OSError as error:
            self._absent = f"{python} cannot be run: {error.strerror}"

    def measure(self, name: str, *, seconds: float, number: int, patience_s: float) -> Figures:
        """Have it measure; raises `Absent` if it cannot, or does not answer in time.

        Args:
            name: which of its measures.
            seconds: for how long to measure.
            number: the number of the round, from 0.
            patience_s: how long to wait for the answer.
        """
        self._get_ready()
        order = {"measure": name, "seconds": seconds, "round": number}
        answer = self._ask((json.dumps(order) + "\n").encode(), patience_s)
        if "absent" in answer:
            raise Absent(str(answer["absent"]))
        figures = answer["figures"]
        assert isinstance(figures, dict)
        return figures

    def end(self) -> None:
        """Let it clean up behind itself, and kill what is still there after that."""
        process, self._process = self._process, None
        if process is not None:
            self._end(process)
        self._complaints.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        family = _family(process.pid)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            family += _family(process.pid)
        for member in family:
            try:
                member.kill()
            except psutil.NoSuchProcess:
                pass
        process.wait()
        process.stdout.close()
        psutil.wait_procs(family, GONE_S)

    def _get_ready(self) -> None:
        if self._absent:
            raise Absent(self._absent)
        if self.about is None:
            answer = self._ask(b"", READY_S)
            if "absent" in answer:
                self._give_up(str(answer["absent"]))
            about = answer["about"]
            assert isinstance(about, dict)
            self.about = about

    def _ask(self, order: bytes, patience_s: float) -> dict[str, object]:
        """Its next answer after this order."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(order)
            self._process.stdin.flush()
        except BrokenPipeError:
            self._give_up(f"it ended: {self._last_complaint()}")
        line = self._read_line(patience_s)
        if line is None:
            self._give_up(f"it did not answer within {patience_s:.0f} s")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    def _read_line(self, patience_s: float) -> bytes | None:
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + patience_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                chunk = os.read(self._process.stdout.fileno(), 65536)
                if not chunk:
                    self._give_up(f"it ended: {self._last_complaint()}")
                self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _give_up(self, reason: str) -> NoReturn:
        self._absent = reason
        self.end()
        raise Absent(reason)

    def _last_complaint(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _family(pid: int) -> list[psutil.Process]:
    """The process and all below it."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
