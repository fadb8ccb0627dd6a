"""Which of the processes of our own an interpreter is to be."""

import posix
import sys

from arl_tangram.executors.inside.control import CONTROL
from arl_tangram.executors.inside.first import First
from arl_tangram.executors.inside.stem import Stem


def main() -> None:
    """Read the argument: ``first`` or ``stem``."""
    posix.closerange(CONTROL + 1, 1 << 20)
    if sys.argv[1] == "stem":
        Stem().serve()
    else:
        First().serve()
    posix._exit(0)
