"""The folder that holds a host's environments, and what dead hosts have left in it."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import tempfile
from pathlib import Path

from ..errors import ConfigError
from . import owner
from .removal import remove_tree


def default_folder() -> Path:
    """A folder of this user's own under the system's temporary one."""
    return Path(tempfile.gettempdir()) / f"arl-tangram-{os.getuid()}"


class State:
    """One host's part of a state folder.

    Args:
        parent: the state folder; made if it is not there.
        passable: whether other users' programs must be able to work below it.

    Attributes:
        folder: this host's own, below the given one; gone after `close`.
    """

    def __init__(self, parent: Path, *, passable: bool = False) -> None:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = parent.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise ConfigError(f"state_dir={parent}: give a folder that belongs to you")
        for entry in parent.iterdir():
            if owner.is_stray(entry.name):
                _end_bubblewraps(entry)
                remove_tree(entry)
        self.folder = parent.resolve() / owner.new_name()
        self.folder.mkdir(mode=0o700)
        if passable:
            for folder in (parent, self.folder):
                folder.chmod(folder.stat().st_mode | 0o011)

    def close(self) -> None:
        remove_tree(self.folder)


def _end_bubblewraps(folder: Path) -> None:
    """End each bubblewrap whose host died while it was starting: it would wait forever."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            mine = str(folder).encode() in (process / "cmdline").read_bytes()
            if mine and (process / "comm").read_text().strip() == "bwrap":
                os.kill(int(process.name), signal.SIGKILL)
