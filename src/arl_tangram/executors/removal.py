"""Removes a tree that a hostile program may have made, however deep it is."""

from __future__ import annotations

import contextlib
import os
from itertools import count
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as we may; follows no links.

    A folder inside is emptied by moving the folders it holds to the top, so that neither the
    depth of the tree nor the length of its paths has a limit.
    """
    with contextlib.suppress(OSError):
        top = os.open(folder, _FOLDER)
        try:
            numbers = count()
            while _empty_one_level(top, numbers):
                pass
        finally:
            os.close(top)
        folder.rmdir()


def _empty_one_level(top: int, numbers: count[int]) -> bool:
    """Remove what lies right below `top`; True if anything was removed."""
    removed = False
    for entry in list(os.scandir(top)):
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                _lift(entry.name, top, numbers)
                os.rmdir(entry.name, dir_fd=top)
            else:
                os.unlink(entry.name, dir_fd=top)
            removed = True
    return removed


def _lift(name: str, top: int, numbers: count[int]) -> None:
    """Empty a folder below `top`: its files are removed, its folders moved up to `top`."""
    with contextlib.suppress(OSError):
        os.chmod(name, 0o700, dir_fd=top)
    inside = os.open(name, _FOLDER, dir_fd=top)
    try:
        for entry in list(os.scandir(inside)):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=inside)
                continue
            with contextlib.suppress(OSError):  # to move a folder one must be able to write in it
                os.chmod(entry.name, 0o700, dir_fd=inside)
            os.rename(entry.name, f".removed-{next(numbers)}", src_dir_fd=inside, dst_dir_fd=top)
    finally:
        os.close(inside)
