"""The system calls that Python has no name for."""

# ruff: noqa: SLF001 -- that is what their names begin with

import _ctypes
import posix
import sys

PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SETPCAP, CAP_SYS_NICE = 5, 6, 7, 8, 23
CAPABILITIES_VERSION = 0x20080522
MOST_CAPABILITIES = 64
JOIN_SESSION_KEYRING = 1
FILTER, FILTER_MODE = 1, 2
# Else older kernels slow down all that is filtered, against what it might guess of itself.
SPECULATION_ALLOWED = 4
# By machine: seccomp and keyctl.
NUMBERS = {"x86_64": (317, 250), "aarch64": (277, 219)} if sys.maxsize >> 32 else {}


class _Address(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "P"


class _Text(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "z"


_library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None is this program
_prctl = _ctypes.dlsym(_library, "prctl")
_setns = _ctypes.dlsym(_library, "setns")
_capset = _ctypes.dlsym(_library, "capset")
_syscall = _ctypes.dlsym(_library, "syscall")


def prctl(option: int, value: "int | bytes" = 0) -> int:
    """Change one attribute of this process; returns 0 on success."""
    result: int = _ctypes.call_function(_prctl, (option, value, 0, 0, 0))
    return result


def join_namespaces(pid: int, kinds: int) -> None:
    """Enter the namespaces of another process; children are in its PID namespace too."""
    fd = posix.pidfd_open(pid)
    failed = _ctypes.call_function(_setns, (fd, kinds))
    posix.close(fd)
    if failed:
        raise PermissionError(1, f"the namespaces of process {pid} cannot be entered")


def keep_capabilities(kept: "tuple[int, ...]") -> None:
    """Give up all capabilities but these, for good."""
    for capability in range(MOST_CAPABILITIES):
        if capability not in kept:
            prctl(PR_CAPBSET_DROP, capability)  # those that do not exist are refused
    low = sum(1 << capability for capability in kept)
    header = CAPABILITIES_VERSION.to_bytes(4, "little") + bytes(4)
    # Effective, permitted and inheritable, for the capabilities up to 31 and then for the others.
    data = (low.to_bytes(4, "little") * 2 + bytes(4)) + bytes(12)
    if _ctypes.call_function(_capset, (header, data)):
        raise PermissionError(1, "capabilities could not be given up")


def leave_keyring() -> None:
    """Go on with a session keyring of its own, as far as keys are left to have; children share it."""
    if numbers := NUMBERS.get(posix.uname().machine):
        _ctypes.call_function(_syscall, (numbers[1], JOIN_SESSION_KEYRING, None))


def refuse(program: bytes) -> None:
    """Have this filter look at every call of this process and its children, for good."""
    instructions = _Text(program)
    size = (len(program) // 8).to_bytes(2, sys.byteorder)
    whole = size + bytes(6) + bytes(instructions)
    numbers = NUMBERS.get(posix.uname().machine)
    if numbers is not None:
        how = (numbers[0], FILTER, SPECULATION_ALLOWED, whole)
        if _ctypes.call_function(_syscall, how) == 0:
            return
    if _ctypes.call_function(_prctl, (PR_SET_SECCOMP, FILTER_MODE, whole, 0, 0)):
        raise PermissionError(1, "the kernel takes no filter of calls")


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
