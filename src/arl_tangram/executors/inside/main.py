"""Which of the processes of our own an interpreter is to be."""

import posix
import sys

from arl_tangram.executors.inside.control import CONTROL
from arl_tangram.executors.inside.first import First
from arl_tangram.executors.inside.stem import Stem


def main() -> None:
    """Read the arguments: ``first`` or ``stem``, then the user id of commands or ``-``."""
    role, user = sys.argv[1:3]
    posix.closerange(CONTROL + 1, 1 << 20)
    commands_run_as = None if user == "-" else int(user)
    if role == "stem":
        Stem(commands_run_as).serve()
    else:
        First(commands_run_as).serve()
    posix._exit(0)
