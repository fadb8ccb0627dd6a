"""Turns what a caller writes into an action and its payload, or says what is wrong with it."""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, cast

from ..core.model import (
    CPU,
    NOTHING,
    Action,
    ActionId,
    Bundle,
    Environment,
    EnvironmentId,
    TaskId,
    TrajectoryId,
)
from ..core.speedup import Speedup
from ..errors import InvalidAction
from ..executors.port import Invocation
from . import units
from .units import Cpus, Duration, Size

Command = str | Sequence[str]
"""A line for ``sh -c``, or a program and its arguments."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
_GIVEN = re.compile(r"[a-z]([1-9][0-9]*)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REMEMBERED = 65_536
_OUTPUT_LIMIT = 1 << 20


class CommandOptions(TypedDict, total=False):
    """What can be said about one command.

    Keys:
        cpus: one amount (``2``, ``0.25``), a range ``(1, 8)``, or the allowed amounts ``[1, 2, 4]``;
            1 by default.
        timeout: the limit on its run time; time in the queue never counts.
        idle_timeout: the limit on the time without any output.
        kind: the label under which its duration is learned, such as ``"bash"`` or ``"reward"``.
        stdin: what it can read; its input is empty and closed otherwise.
        cwd: the working directory, relative to the workspace.
        variables: environment variables, on top of its environment's.
        output_limit: how much of each stream is kept, 1 MiB by default.
        resizable: whether an elastic action's units may change while it runs.
        speedup: how much faster it gets with more units, if that is known.
        priority: higher goes first.
        id: a name of the caller's own; the same id again is the same action while it lives.
    """

    cpus: Cpus
    timeout: Duration | None
    idle_timeout: Duration | None
    kind: str
    stdin: str | bytes | None
    cwd: str | None
    variables: Mapping[str, str]
    output_limit: Size
    resizable: bool
    speedup: Speedup | None
    priority: int
    id: str | None


class FreshOptions(CommandOptions, total=False):
    """What can be said about a command that gets an environment of its own.

    Keys:
        task: the training job it belongs to; tasks share fairly.
        trajectory: the rollout it belongs to.
        memory: the most its environment may hold, 512 MiB by default; None means unlimited.
        network: whether it may reach the network.
        readable: paths of this machine it may read.
    """

    task: str
    trajectory: str | None
    memory: Size | None
    network: bool
    readable: Sequence[str | Path]


class Names:
    """Gives out ids, and remembers those the caller chose."""

    def __init__(self) -> None:
        self._last = 0
        self._chosen: OrderedDict[str, None] = OrderedDict()

    def next(self, letter: str) -> str:
        """An id nobody has used yet."""
        while True:
            self._last += 1
            if (name := f"{letter}{self._last}") not in self._chosen:
                return name

    def choose(self, name: str) -> ActionId:
        """Check an id of the caller's; raises `InvalidAction` if it was used before."""
        if not _ID.fullmatch(name):
            raise InvalidAction(
                f"id={name!r}: up to 128 letters, digits and ._:@-, the first a letter or digit"
            )
        if name in self._chosen:
            raise InvalidAction(f"id={name!r}: an action with this id has ended already")
        if (given := _GIVEN.fullmatch(name)) and int(given[1]) <= self._last:
            raise InvalidAction(
                f"id={name!r}: an action without a name of its own was given this id"
            )
        self._chosen[name] = None
        if len(self._chosen) > _REMEMBERED:
            self._chosen.popitem(last=False)
        return ActionId(name)


def action_for(
    identity: ActionId,
    options: CommandOptions,
    *,
    task: TaskId,
    trajectory: TrajectoryId,
    environment: EnvironmentId | None = None,
    kind: str = "default",
    needs: Bundle = NOTHING,
    owns_cores: bool = False,
) -> Action:
    """The schedulable part of a request. In an environment that owns cores it needs none."""
    milli, elastic = units.cpu_request(
        options.get("cpus", 1),
        resizable=options.get("resizable", True),
        speedup=options.get("speedup"),
    )
    if owns_cores:
        milli, elastic = 0, None
    timeout = options.get("timeout")
    return Action(
        id=identity,
        task=task,
        trajectory=trajectory,
        kind=_word(options.get("kind", kind), "kind"),
        needs={**needs, CPU: milli} if milli else needs,
        elastic=elastic,
        environment=environment,
        priority=_whole(options.get("priority", 0), "priority"),
        timeout_s=None if timeout is None else units.seconds(timeout, "timeout"),
    )


def invocation_for(command: Command, options: CommandOptions) -> Invocation:
    """The payload of a request."""
    unknown = options.keys() - CommandOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(CommandOptions.__annotations__)
        raise InvalidAction(f"{min(unknown)}=: there is no such option; there are {known}")
    timeout, idle = options.get("timeout"), options.get("idle_timeout")
    stdin = options.get("stdin")
    for field in ("cwd", "stdin"):
        value = options.get(field)
        if isinstance(value, str) and not (value.isascii() or _encodable(value)):
            raise InvalidAction(f"{field}: it holds a lone surrogate, which is no character")
    return Invocation(
        command=_checked(command),
        variables=variables_of(options.get("variables", {})),
        cwd=options.get("cwd"),
        stdin=stdin.encode() if isinstance(stdin, str) else stdin,
        timeout_s=None if timeout is None else units.seconds(timeout, "timeout"),
        idle_timeout_s=None if idle is None else units.seconds(idle, "idle_timeout"),
        output_limit_bytes=units.size_bytes(
            options.get("output_limit", _OUTPUT_LIMIT), "output_limit"
        ),
    )


def environment_for(
    identity: str,
    *,
    task: str,
    trajectory: str | None,
    step: str | int | None,
    memory_mib: int | None,
    milli: int,
    priority: int,
) -> Environment:
    """The schedulable part of an environment; without a trajectory it is one by itself."""
    needs = {"memory": memory_mib or 0, CPU: milli}
    return Environment(
        id=EnvironmentId(identity),
        task=TaskId(_word(task, "task")),
        trajectory=TrajectoryId(
            identity if trajectory is None else _word(trajectory, "trajectory")
        ),
        step="" if step is None else _word(str(step), "step"),
        needs={name: amount for name, amount in needs.items() if amount},
        priority=_whole(priority, "priority"),
    )


def variables_of(given: Mapping[str, str]) -> dict[str, str]:
    """Environment variables; raises `InvalidAction` for what no program could be given."""
    for name, value in cast("Mapping[object, object]", given).items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise InvalidAction(f"variables: {name!r} is no name; letters, digits and _ only")
        if not isinstance(value, str) or "\0" in value or not _encodable(value):
            raise InvalidAction(f"variables: {name}={value!r}: a value is text without NUL")
    return dict(given)


def _encodable(text: str) -> bool:
    """Whether it can be given to a program: a model's JSON may hold half a surrogate pair."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def _checked(command: Command) -> Command:
    if isinstance(command, str):
        words: Sequence[str] = (command,)
    else:
        words = tuple(os.fspath(word) for word in command)
        command = words
    if not words or not words[0].strip():
        raise InvalidAction(f"command={command!r}: give a line for sh, or a program and arguments")
    if not all(_encodable(word) for word in words):
        raise InvalidAction(
            f"command={command!r}: it holds a lone surrogate, which is no character"
        )
    if any("\0" in word for word in words):
        raise InvalidAction(f"command={command!r}: a command cannot hold a NUL character")
    return command


def _word(value: str, field: str) -> str:
    given: object = value
    if not isinstance(given, str) or not given:
        raise InvalidAction(f"{field}={value!r}: give a name")
    return value


def _whole(value: int, field: str) -> int:
    given: object = value
    if not isinstance(given, int):
        raise InvalidAction(f"{field}={value!r}: give a whole number; higher goes first")
    return value
