"""What an environment sees of the machine, put together by bubblewrap."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import boot

WORKSPACE = "/workspace"
HOME = "/home/user"
TMP = "/tmp"  # noqa: S108  a folder of its own
SHM = "/dev/shm"  # noqa: S108  of its own too
SYSTEM = ("/usr", "/opt")
LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# What programs need of /etc to run at all; nothing in it is secret.
ETC = (
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "fonts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "pki/tls",
    "pki/ca-trust",
    "protocols",
    "resolv.conf",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
USERS = ("passwd", "group")
# As the kernel numbers them; `os` has names for them only in later versions.
NEW_NS, NEW_UTS, NEW_IPC = 0x20000, 0x4000000, 0x8000000
NEW_USER, NEW_PID, NEW_NET = 0x10000000, 0x20000000, 0x40000000


def kinds(*, network: bool, user_namespace: bool) -> int:
    """Which namespaces an environment has of its own."""
    found = NEW_NS | NEW_UTS | NEW_IPC | NEW_PID
    return found | (0 if network else NEW_NET) | (NEW_USER if user_namespace else 0)


def make_etc(target: Path, *, uid: int) -> None:
    """Write the /etc of all environments of a host: what programs need, and users of its own."""
    target.mkdir(parents=True)
    for name in ETC:
        source = Path("/etc") / name
        into = target / name
        into.parent.mkdir(parents=True, exist_ok=True)
        try:
            if source.is_dir():
                into.mkdir()  # shown as it is: certificates alone can be many hundred links
            elif source.exists():
                shutil.copyfile(source, into)  # a link to the file's real place may lead outside
        except OSError:
            continue  # not readable for us, so not needed by what runs as us
    write_users(target, uid=uid)
    (target / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    (target / "hostname").write_text("environment\n")


def write_users(folder: Path, *, uid: int) -> None:
    """Write the `USERS` files of an environment, whose commands run as this user."""
    users = f"root:x:0:0::/root:/bin/sh\nuser:x:{uid}:{uid}::{HOME}:/bin/sh\n"
    for name, text in zip(USERS, (users, f"root:x:0:\nuser:x:{uid}:\n"), strict=True):
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)


def interpreter_folders() -> list[Path]:
    """What must be readable so that `python` inside is the one that runs us."""
    folders = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    folders.add(boot.interpreter().parent.parent)
    return sorted(f for f in folders if not _is_system(f) and len(f.parts) > 2)


def search_path() -> str:
    """PATH inside: this interpreter's programs first, then the system's."""
    own = [str(Path(p) / "bin") for p in (sys.prefix, sys.base_prefix) if not _is_system(Path(p))]
    return ":".join(dict.fromkeys([*own, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"]))


def arguments(
    *,
    bwrap: str,
    folders: Mapping[str, Path],
    etc: Path | None,
    network: bool,
    readable: Sequence[Path],
    user_namespace: bool,
    info_fd: int | None,
    refused_fd: int | None = None,
    users: Path | None = None,
    shm_bytes: int | None = None,
) -> list[str]:
    """The command line of bubblewrap, up to the program that is to be the first process.

    The folders are what it may write to, by their paths inside. A user namespace is always needed
    without root. The first process's id is reported to `info_fd`; a filter of its calls is read
    from `refused_fd`. `users` is a folder with `USERS` files of its own.
    """
    line = [bwrap, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    line += ["--die-with-parent", "--as-pid-1", "--hostname", "environment"]
    if not network:
        line.append("--unshare-net")
    if user_namespace:
        line.append("--unshare-user")
    else:
        line += ["--cap-drop", "ALL"]
    if info_fd is not None:
        line += ["--info-fd", str(info_fd)]
    if refused_fd is not None:
        line += ["--seccomp", str(refused_fd)]
    for folder in SYSTEM:
        if Path(folder).is_dir():
            line += ["--ro-bind", folder, folder]
    for name in LINKS:
        path = Path("/") / name
        if path.is_symlink():
            line += ["--symlink", str(path.readlink()).lstrip("/"), str(path)]
        elif path.is_dir():
            line += ["--ro-bind", str(path), str(path)]
    line += ["--proc", "/proc", "--dev", "/dev"]
    if shm_bytes is not None:
        line += ["--size", str(shm_bytes)]
    line += ["--tmpfs", SHM]
    line += _passable_above([Path(inside) for inside in folders])
    for inside, outside in folders.items():
        line += ["--bind", str(outside), inside]
    shown = (*interpreter_folders(), *readable)
    line += _passable_above(shown)
    for path in shown:
        line += ["--ro-bind", str(path), str(path)]
    if etc is not None:
        line += ["--ro-bind", str(etc), "/etc"]
        for shared in (f"/etc/{name}" for name in ETC):
            if Path(shared).is_dir():
                line += ["--ro-bind", shared, shared]
    if users is not None:
        for name in USERS:
            line += ["--ro-bind", str(users / name), f"/etc/{name}"]
    if user_namespace:  # else they belong to root
        line += ["--remount-ro", "/dev", "--remount-ro", "/"]
    return line


def _passable_above(paths: Sequence[Path]) -> list[str]:
    """Arguments that make the folders above these; bubblewrap makes them for root only."""
    above = dict.fromkeys(p for path in paths for p in reversed(path.parents) if p.name)
    return [word for folder in above for word in ("--dir", str(folder))]


def shut_out(readable: Sequence[Path], state: Path) -> str | None:
    """Why one of these host paths must not be shown inside; None if all may."""
    for path in readable:
        if not path.is_absolute() or not path.exists():
            return f"readable={path}: give an absolute path that exists"
        real = path.resolve()
        if real == Path("/") or state.is_relative_to(real) or real.is_relative_to(state):
            return f"readable={path}: it holds, or lies in, the state of environments"
    return None


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in SYSTEM)


def can_bound(bwrap: str) -> bool:
    """Whether this bubblewrap can give a file system in memory a size: it can since 0.7."""
    asked = subprocess.run([bwrap, "--help"], capture_output=True, check=False, env={})
    return b"--size" in asked.stdout + asked.stderr


def find_bwrap() -> str | None:
    """Where bubblewrap is installed, if it is."""
    return shutil.which("bwrap", path=os.environ.get("PATH", "/usr/bin:/bin"))
