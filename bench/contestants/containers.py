"""Namespaces with one `true` in them: bubblewrap, and runc if it is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from bench.measuring import Absent, one_by_one
from bench.serving import Ready, serve

LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
NAMESPACES = ("pid", "ipc", "uts", "mount", "network")


@contextmanager
def containers() -> Iterator[Ready]:
    """Each call makes the namespaces, runs `true` in them and takes them down."""
    bwrap, runc = shutil.which("bwrap"), shutil.which("runc")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        bundle = Path(folder)
        _write_bundle(bundle)
        names = (f"bench-{os.getpid()}-{number}" for number in count())

        def bubblewrap() -> list[str]:
            if bwrap is None:
                raise Absent("bwrap is not installed")
            line = [bwrap, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"]
            return [*line, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "true"]  # noqa: S108

        def run_with_runc() -> list[str]:
            if runc is None:
                raise Absent("runc is not installed")
            root = str(bundle / "state")
            return [runc, "--root", root, "run", "--bundle", str(bundle), next(names)]

        yield Ready(
            {
                "bwrap": lambda seconds, _: one_by_one(_runs(bubblewrap), seconds),
                "runc": lambda seconds, _: one_by_one(_runs(run_with_runc), seconds),
            },
            {"bwrap": _version(bwrap), "runc": _version(runc)},
        )


def _runs(line: Callable[[], list[str]]) -> Callable[[], None]:
    """Spawn it and wait. Its complaints are read only when it fails, by doing it again."""
    null = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]

    def run() -> None:
        argv = line()
        pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=null)
        _, status = os.waitpid(pid, 0)
        if status != 0:
            again = subprocess.run(
                line(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            complaint = again.stderr.strip().splitlines() or ["it said nothing"]
            raise Absent(f"{Path(argv[0]).name} cannot make a container here: {complaint[-1]}")

    return run


def _write_bundle(bundle: Path) -> None:
    """A container of runc that sees the system's programs read-only."""
    rootfs = bundle / "rootfs"
    for name in ("usr", "proc", "dev", "tmp"):
        (rootfs / name).mkdir(parents=True)
    for name in LINKS:
        path = Path("/") / name
        if path.is_symlink():
            (rootfs / name).symlink_to(str(path.readlink()).lstrip("/"))
    shown = {"type": "bind", "options": ["rbind", "ro"]}
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["true"],
            "env": ["PATH=/usr/bin:/bin"],
            "cwd": "/",
        },
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "bench",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},  # noqa: S108  inside
            {"destination": "/usr", "source": "/usr", **shown},
            *(
                {"destination": f"/{name}", "source": f"/{name}", **shown}
                for name in LINKS
                if Path("/", name).is_dir() and not Path("/", name).is_symlink()
            ),
        ],
        "linux": {"namespaces": [{"type": kind} for kind in NAMESPACES]},
    }
    (bundle / "config.json").write_text(json.dumps(config))


def _version(program: str | None) -> str:
    if program is None:
        return "not installed"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return (told.stdout.strip().splitlines() or ["unknown"])[0]


if __name__ == "__main__":
    serve(containers)
