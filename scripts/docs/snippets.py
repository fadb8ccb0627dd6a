"""Runs the code on a page the way a reader would: pasted, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(
    r"(?P<skip><!-- not run: [^>]+ -->\n)?^```(?P<language>python|sh)\n(?P<code>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
LIMIT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """A block of Python or shell code. `line` is where it starts on its page."""

    language: str
    code: str
    line: int

    def complaint(self) -> str:
        """What goes wrong when it runs; empty if nothing does."""
        command = (
            [sys.executable, "-W", "error", "-c"] if self.language == "python" else ["sh", "-ec"]
        )
        beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        with tempfile.TemporaryDirectory() as folder:
            try:
                done = subprocess.run(
                    [*command, self.code],
                    cwd=folder,
                    env={**os.environ, "PATH": beside},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=LIMIT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return f"it did not end within {LIMIT_S} s"
        if done.returncode == 0:
            return ""
        return f"it ended in {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def snippets_of(text: str) -> list[Snippet]:
    """The blocks of a page that are to run: all Python and sh, but those marked `not run`."""
    return [
        Snippet(
            language=block["language"],
            code=block["code"],
            line=text.count("\n", 0, block.start("code")) + 1,
        )
        for block in BLOCK.finditer(text)
        if not block["skip"]
    ]
