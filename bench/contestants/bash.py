"""A bash of one's own over pipes: the least that a stateful shell can cost."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bench.measuring import Absent, one_by_one
from bench.serving import Ready, serve


@contextmanager
def bash() -> Iterator[Ready]:
    """Every command is followed by an `echo` of its status, which is waited for."""
    program = shutil.which("bash")
    if program is None:
        raise Absent("bash is not installed")
    with subprocess.Popen(
        [program, "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as shell:
        stdin, stdout = shell.stdin, shell.stdout
        assert stdin is not None
        assert stdout is not None

        def command() -> None:
            stdin.write(b"true; echo $?\n")
            assert stdout.readline() == b"0\n"

        yield Ready({"command": lambda seconds, _: one_by_one(command, seconds)})
        stdin.close()


if __name__ == "__main__":
    serve(bash)
