"""Files of a workspace from outside, so that no link planted inside leads out of it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import RequestError
from .copying import CHUNK, Stop, copy_contents, write_all
from .port import MIB, FileEntry

LARGEST_READ = 256 * MIB
MOST_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe or a device must not make us wait.
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class Files:
    """Args:
    root: the workspace on the host.
    inside: its path as its programs see it.
    user: the id that new files belong to; None means our own.
    """

    def __init__(self, root: Path, *, inside: str, user: int | None) -> None:
        self._root = os.open(root, _FOLDER)
        self._inside = inside
        self._user = user
        self._closed = threading.Event()

    def close(self) -> None:
        """Let go of it; copies that are under way stop."""
        self._closed.set()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, making the folders it lies in."""
        with self._parent(path, make=True) as (folder, name), self._create(folder, name) as fd:
            write_all(fd, data, 0)

    def read(self, path: str) -> bytes:
        """The whole of a regular file."""
        with self._parent(path) as (folder, name), self._open(folder, name, path) as fd:
            size = os.fstat(fd).st_size
            if size > LARGEST_READ:
                raise RequestError(
                    f"path={path!r}: {size} bytes are too many to hold in memory "
                    f"({LARGEST_READ} at most); download it instead"
                )
            parts, total = [], 0
            while chunk := os.read(fd, CHUNK):
                parts.append(chunk)
                total += len(chunk)
                if total > LARGEST_READ:
                    raise RequestError(f"path={path!r}: it grows while it is read")
            return b"".join(parts)

    def list(self, path: str) -> Sequence[FileEntry]:
        """What a folder holds, sorted by name; links are listed as what they are, not followed."""
        with self._folder(path) as fd, os.scandir(fd) as entries:
            found = []
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                size = 0 if is_folder else entry.stat(follow_symlinks=False).st_size
                found.append(FileEntry(name=entry.name, size=size, directory=is_folder))
        return sorted(found, key=lambda entry: entry.name)

    def upload(self, source: Path, path: str, stop: threading.Event) -> None:
        """Copy a file or a folder of the host in; links in the folder stay behind.

        Raises `Stopped` soon after the event is set or this is closed.
        """
        with _opened(source) as reading:
            if not stat.S_ISDIR(os.fstat(reading).st_mode):
                with self._parent(path, make=True) as (folder, name):
                    self._upload_file(reading, folder, name, self._stop(stop))
                return
        with self._folder(path, make=True) as folder:
            self._upload_folder(source, folder, self._stop(stop))

    def download(self, path: str, target: Path, stop: threading.Event) -> None:
        """Copy a file or a folder out to the host; anything but files and folders stays behind.

        Raises `Stopped` soon after the event is set or this is closed.
        """
        with self._parent(path) as (folder, name):
            kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(kind):
                fd = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    self._download_folder(fd, target, self._stop(stop))
                finally:
                    os.close(fd)
                return
            with self._open(folder, name, path) as fd:
                self._download_file(fd, target, self._stop(stop))

    def _stop(self, event: threading.Event) -> Stop:
        return Stop(event, self._closed)

    def _upload_file(self, reading: int, folder: int, name: str, stop: Stop) -> None:
        with self._create(folder, name) as fd:
            copy_contents(reading, fd, stop)
            os.fchmod(fd, os.fstat(reading).st_mode & 0o777)

    def _upload_folder(self, source: Path, folder: int, stop: Stop) -> None:
        for entry in sorted(source.iterdir()):
            if entry.is_symlink():
                continue
            if entry.is_dir():
                fd = self._enter(folder, entry.name, make=True)
                try:
                    self._upload_folder(entry, fd, stop)
                finally:
                    os.close(fd)
            elif entry.is_file():
                with _opened(entry) as reading:
                    self._upload_file(reading, folder, entry.name, stop)

    def _download_folder(self, folder: int, target: Path, stop: Stop) -> None:
        target.mkdir(parents=True, exist_ok=True)
        for name in os.listdir(folder):
            kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(kind):
                fd = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    self._download_folder(fd, target / name, stop)
                finally:
                    os.close(fd)
            elif stat.S_ISREG(kind):
                with self._open(folder, name, name) as fd:
                    self._download_file(fd, target / name, stop)

    @staticmethod
    def _download_file(fd: int, target: Path, stop: Stop) -> None:
        with target.open("wb") as writing:
            copy_contents(fd, writing.fileno(), stop)
        target.chmod(os.fstat(fd).st_mode & 0o777)

    @contextlib.contextmanager
    def _create(self, folder: int, name: str) -> Iterator[int]:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise IsADirectoryError(errno.EISDIR, "it is not a regular file", name)
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | _FILE, 0o644, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", name)
            os.ftruncate(fd, 0)
            if self._user is not None:
                os.fchown(fd, self._user, self._user)
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _open(self, folder: int, name: str, path: str) -> Iterator[int]:
        fd = os.open(name, os.O_RDONLY | _FILE, dir_fd=folder)
        try:
            kind = os.fstat(fd).st_mode
            if stat.S_ISDIR(kind):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if not stat.S_ISREG(kind):
                raise OSError(errno.EINVAL, "it is not a regular file", path)
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """The folder at a path."""
        with self._walk(path, whole=True, make=make) as (folder, _):
            yield folder

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder that the last part of a path lies in, and that part's name."""
        with self._walk(path, whole=False, make=make) as found:
            yield found

    @contextlib.contextmanager
    def _walk(self, path: str, *, whole: bool, make: bool) -> Iterator[tuple[int, str]]:
        """Follow a path one checked step at a time, as a program inside would see it."""
        stack = [os.dup(self._root)]
        links, name = 0, "."
        steps = [*self._steps(path, path)]
        try:
            while steps:
                step = steps.pop()
                if step == "..":
                    if len(stack) == 1:
                        raise PermissionError(errno.EACCES, "it leads out of the workspace", path)
                    os.close(stack.pop())
                    continue
                try:
                    target = os.readlink(step, dir_fd=stack[-1])
                except OSError:  # no link, or nothing there
                    if not steps and not whole:
                        name = step
                    else:
                        stack.append(self._enter(stack[-1], step, make=make))
                    continue
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if target.startswith("/"):
                    while len(stack) > 1:
                        os.close(stack.pop())
                steps += self._steps(target, path)
            yield stack[-1], name
        finally:
            for fd in stack:
                os.close(fd)

    def _steps(self, path: str, asked: str) -> Sequence[str]:
        """The parts of a path, last first."""
        if "\0" in path:
            raise RequestError(f"path={asked!r}: a path holds no zero byte")
        if path.startswith("/"):
            if path != self._inside and not path.startswith(f"{self._inside}/"):
                raise PermissionError(errno.EACCES, "it leads out of the workspace", asked)
            path = path[len(self._inside) :]
        return [step for step in reversed(path.split("/")) if step not in ("", ".")]

    def _enter(self, folder: int, name: str, *, make: bool) -> int:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=folder)
                if self._user is not None:
                    os.chown(name, self._user, self._user, dir_fd=folder, follow_symlinks=False)
        return os.open(name, _FOLDER, dir_fd=folder)


@contextlib.contextmanager
def _opened(source: Path) -> Iterator[int]:
    """A file or a folder of the host, open for reading; nothing else can be copied."""
    fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        kind = os.fstat(fd).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise OSError(errno.EINVAL, "it is neither a file nor a folder", str(source))
        yield fd
    finally:
        os.close(fd)
