"""How the processes of our own are started: a bare interpreter and our code."""

from __future__ import annotations

import marshal
import sys
from importlib import resources
from pathlib import Path

PACKAGE = "arl_tangram.executors.inside"
MODULES = (
    "calls",
    "tree",
    "frames",
    "capture",
    "spawn",
    "warden",
    "shell",
    "birth",
    "control",
    "first",
    "stem",
    "main",
)
CONTROL_FD, PROGRAM_FD = 3, 4

# Reads the modules from a descriptor, so that no file of ours need be visible inside.
_LOADER = f"""
import marshal,posix,sys
for n,c in marshal.loads(posix.pread({PROGRAM_FD},4194304,0)):
 m=type(sys)(n);sys.modules[n]=m;exec(c,m.__dict__)
m.main()"""


def program() -> bytes:
    """The compiled modules, in the order in which they need one another."""
    source = resources.files(PACKAGE)
    modules = [(PACKAGE, compile("", PACKAGE, "exec", dont_inherit=True))]
    for name in MODULES:
        text = (source / f"{name}.py").read_text()
        code = compile(text, f"<tangram {name}>", "exec", dont_inherit=True, optimize=2)
        modules.append((f"{PACKAGE}.{name}", code))
    return marshal.dumps(modules)


def interpreter() -> Path:
    """The real interpreter behind the one that runs this, outside any virtual environment."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def command(role: str) -> list[str]:
    """The command line of a process of our own: "first" or "stem"."""
    return [str(interpreter()), "-I", "-S", "-E", "-c", _LOADER, role]
