"""The system calls that Python has no name for."""

# ruff: noqa: SLF001 -- no contextlib here; these names are what there is

import _ctypes
import posix

PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_SET_PDEATHSIG = 1


class _Address(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "P"


_library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None is this program
_prctl = _ctypes.dlsym(_library, "prctl")


def prctl(option: int, value: "int | bytes" = 0) -> int:
    """Change one attribute of this process; returns 0 on success."""
    result: int = _ctypes.call_function(_prctl, (option, value, 0, 0, 0))
    return result


def rename(name: bytes) -> None:
    """Give this process a name of its own, so that `pkill python` is not meant for it."""
    prctl(PR_SET_NAME, name)
    try:
        fd = posix.open("/proc/self/stat", posix.O_RDONLY)
        fields = posix.read(fd, 4096).rsplit(b")", 1)[1].split()
        posix.close(fd)
        start, end = int(fields[45]), int(fields[46])
    except (OSError, IndexError, ValueError):
        return
    if 0 < start < end:
        text = (name + bytes(end - start))[: end - start - 1] + b"\0"
        memmove = _Address(_ctypes._memmove_addr).value  # type: ignore[attr-defined]
        _ctypes.call_function(memmove, (_Address(start), text, end - start))
