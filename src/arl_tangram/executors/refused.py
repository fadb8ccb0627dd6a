"""Which calls of the kernel untrusted commands are refused, as a filter that the kernel runs.

They are those that reach what all users of a kernel share, ordinary programs never need, and a
user without rights may nevertheless make. What only root may do is not in the list: commands have
no rights of root to lose.

- Keys: the keyrings of the host's session and of a user are no part of any namespace.
- New user namespaces: all rights within one open most of the kernel to a user who has none.
- `bpf`, `perf_event_open`, `userfaultfd`, `io_uring`: large parts of the kernel that container
  engines refuse too, and that count or look at more than their caller.
- The kernel's log, and sockets to the hypervisor (vsock), which no network namespace holds.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NAMES = ("add_key", "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd", "syslog")
IO_URING_SETUP, CLONE3 = 425, 435  # the same everywhere, as all that came after them
NEW_USER = 0x10000000
VSOCK = 40
X32 = 0x40000000

_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_LOAD, _AND, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """The numbers of one architecture.

    Attributes:
        tag: what the kernel calls it (AUDIT_ARCH_…).
        plain: those of `NAMES`, which are refused whatever their arguments.
        new_users: of `clone` and `unshare`, which are refused a new user namespace.
    """

    tag: int
    plain: Sequence[int]
    new_users: Sequence[int]
    socket: int


_X86_64 = _Calls(
    tag=0xC000003E,
    plain=(248, 249, 250, 321, 298, 323, 103),
    new_users=(56, 272),
    socket=41,
)
_I386 = _Calls(
    tag=0x40000003,
    plain=(286, 287, 288, 357, 336, 374, 103),
    new_users=(120, 310),
    socket=359,
)
_AARCH64 = _Calls(
    tag=0xC00000B7,
    plain=(217, 218, 219, 280, 241, 282, 116),
    new_users=(220, 97),
    socket=198,
)
_ARM = _Calls(
    tag=0x40000028,
    plain=(309, 310, 311, 386, 364, 388, 103),
    new_users=(120, 337),
    socket=281,
)
# By machine: all that a program on it may be made for. The first x86-64 has two sets of numbers.
MACHINES: Mapping[str, Sequence[_Calls]] = {
    "x86_64": (_X86_64, _I386),
    "aarch64": (_AARCH64, _ARM),
}


def program(machine: str | None = None) -> bytes:
    """The filter for this machine, or for one of that name; empty if there is none."""
    if machine is None:
        if not Path("/proc/sys/kernel/seccomp/actions_avail").exists():
            return b""
        machine = platform.machine()
    if machine not in MACHINES:
        return b""
    steps = [(_LOAD, 0, 0, _ARCHITECTURE_AT)]
    for calls in MACHINES[machine]:
        block = _block(calls)
        steps += [(_EQUAL, 0, len(block), calls.tag), *block]
    steps.append((_RETURN, 0, 0, _FAIL | errno.EPERM))  # of no architecture that we know
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _block(calls: _Calls) -> list[tuple[int, int, int, int]]:
    """What is done with the calls of one architecture; it always comes to an end."""
    steps = [(_LOAD, 0, 0, _NUMBER_AT)]
    if calls is _X86_64:
        steps.append((_AND, 0, 0, ~X32 & 0xFFFFFFFF))
    for number in (*calls.plain, IO_URING_SETUP):
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _FAIL | errno.EPERM)]
    # Its arguments lie in memory, out of sight. Who finds it missing falls back on `clone`.
    steps += [(_EQUAL, 0, 1, CLONE3), (_RETURN, 0, 0, _FAIL | errno.ENOSYS)]
    refused = [(_RETURN, 0, 0, _FAIL | errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    first, second = calls.new_users
    steps += [(_EQUAL, 1, 0, first), (_EQUAL, 0, 4, second)]
    steps += [(_LOAD, 0, 0, _FIRST_ARGUMENT_AT), (_ANY_BIT, 0, 1, NEW_USER), *refused]
    steps += [(_EQUAL, 0, 4, calls.socket)]
    steps += [(_LOAD, 0, 0, _FIRST_ARGUMENT_AT), (_EQUAL, 0, 1, VSOCK), *refused]
    steps.append((_RETURN, 0, 0, _ALLOW))
    return steps
