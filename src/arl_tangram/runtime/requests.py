"""Turns what a caller writes into an action and its payload, or says what is wrong with it."""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TypedDict, cast

from ..core.model import (
    CPU,
    MEMORY,
    MILLI,
    NOTHING,
    Action,
    ActionId,
    Bundle,
    Elastic,
    Environment,
    EnvironmentId,
    TaskId,
    TrajectoryId,
)
from ..core.speedup import Speedup
from ..errors import InvalidAction
from ..executors.port import EnvironmentSpec, Invocation
from . import checks, units
from .checks import AnyPath, shown, wrong
from .quotas import tokens_of
from .units import Cpus, Duration, Size

Command = str | Sequence[AnyPath]
"""A line for ``sh -c``, or a program and its arguments."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REMEMBERED = 65_536
_OUTPUT_LIMIT = 1 << 20
_MOST_PIDS = 1 << 22


class CommandOptions(TypedDict, total=False):
    """What can be said about one command.

    Keys:
        cpus: one amount (``2``, ``0.25``), a range ``(1, 8)``, or the allowed amounts ``[1, 2, 4]``;
            1 by default. The most of several may be more than there are.
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
    cwd: AnyPath | None
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
    readable: Sequence[AnyPath]


class Names:
    """Gives out ids, and remembers those the caller chose."""

    def __init__(self) -> None:
        self._last = 0
        self._chosen: OrderedDict[str, None] = OrderedDict()

    def next(self, letter: str) -> str:
        """An id nobody has used yet; no caller can choose one with an underscore in front."""
        self._last += 1
        return f"_{letter}{self._last}"

    def choose(self, name: str) -> ActionId:
        """Take an id of the caller's; raises `InvalidAction` if it was used before."""
        name = chosen_id(name)
        if name in self._chosen:
            raise InvalidAction(f"id={name!r}: an action with this id has ended already")
        self._chosen[name] = None
        if len(self._chosen) > _REMEMBERED:
            self._chosen.popitem(last=False)
        return ActionId(name)


def chosen_id(given: object) -> str:
    """An id of the caller's, if it can be one."""
    if not isinstance(given, str) or not _ID.fullmatch(given):
        raise wrong("id", given, "up to 128 letters, digits and ._:@-, the first a letter or digit")
    return given


def action_of(
    names: Names,
    identity: str | None,
    *,
    task: object,
    trajectory: object,
    kind: object,
    priority: object,
    needs: Bundle,
    attempts: object = 1,
    elastic: Elastic | None = None,
    service: str | None = None,
    timeout_s: float | None = None,
) -> Action:
    """An action that is no command; `priority` and the like are as the caller gave them."""
    return Action(
        task=TaskId(checks.word(task, "task")),
        trajectory=TrajectoryId(checks.word(trajectory, "trajectory")),
        kind=checks.word(kind, "kind"),
        needs=needs,
        elastic=elastic,
        service=service,
        priority=checks.priority(priority),
        timeout_s=timeout_s,
        max_attempts=checks.whole(attempts, "attempts", least=1),
        # Last, since a name that is taken for what turns out to be wrong cannot be given again.
        id=ActionId(names.next("a")) if identity is None else names.choose(identity),
    )


def lease_for(
    names: Names,
    *,
    cpus: Cpus | None,
    memory: Size | None,
    quota: Mapping[str, int] | str | None,
    task: object,
    trajectory: object,
    kind: object,
    priority: object,
    resizable: object,
    most_milli: int,
) -> Action:
    """The action behind a lease: one core, unless it says what it is for."""
    if cpus is None and quota is None:
        cpus = 1
    may_change = checks.flag(resizable, "resizable")
    milli, elastic = 0, None
    if cpus is not None:
        milli, elastic = units.cpu_request(cpus, resizable=may_change, most=most_milli // MILLI)
    needs = {**({CPU: milli} if milli else {}), **tokens_of(quota)}
    if memory is not None:
        needs[MEMORY] = units.size_mib(memory, "memory")
    return action_of(
        names,
        None,
        task=task,
        trajectory=trajectory,
        kind=kind,
        priority=priority,
        needs=needs,
        elastic=elastic,
    )


def action_for(
    names: Names,
    options: CommandOptions,
    *,
    task: TaskId,
    trajectory: TrajectoryId,
    environment: EnvironmentId | None = None,
    kind: str = "default",
    needs: Bundle = NOTHING,
    owns_cores: bool = False,
    most_milli: int,
) -> Action:
    """The schedulable part of a command. In an environment that owns cores it needs none."""
    speedup = options.get("speedup")
    if speedup is not None and not isinstance(speedup, Speedup):
        raise wrong("speedup", speedup, "give Roofline, Amdahl, PowerLaw or Table, or leave it out")
    milli, elastic = units.cpu_request(
        options.get("cpus", 1),
        resizable=checks.flag(options.get("resizable", True), "resizable"),
        speedup=speedup,
        most=most_milli // MILLI,
    )
    if owns_cores:
        milli, elastic = 0, None
    timeout, identity = options.get("timeout"), options.get("id")
    return Action(
        task=task,
        trajectory=trajectory,
        kind=checks.word(options.get("kind", kind), "kind"),
        needs={**needs, CPU: milli} if milli else needs,
        elastic=elastic,
        environment=environment,
        priority=checks.priority(options.get("priority", 0)),
        timeout_s=None if timeout is None else units.seconds(timeout, "timeout"),
        id=ActionId(names.next("a")) if identity is None else names.choose(identity),  # as above
    )


def invocation_for(command: Command, options: CommandOptions) -> Invocation:
    """The payload of a request."""
    unknown = options.keys() - CommandOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(CommandOptions.__annotations__)
        raise InvalidAction(f"{min(unknown)}=: there is no such option; there are {known}")
    timeout, idle = options.get("timeout"), options.get("idle_timeout")
    cwd = options.get("cwd")
    return Invocation(
        command=_checked(command),
        variables=variables_of(options.get("variables", {})),
        cwd=None if cwd is None else checks.inside(cwd, "cwd"),
        stdin=_stdin(options.get("stdin")),
        timeout_s=None if timeout is None else units.seconds(timeout, "timeout"),
        idle_timeout_s=None if idle is None else units.seconds(idle, "idle_timeout"),
        output_limit_bytes=units.size_bytes(
            options.get("output_limit", _OUTPUT_LIMIT), "output_limit"
        ),
    )


def spec_for(
    identity: str,
    *,
    memory: Size | None,
    network: object,
    readable: object,
    most_milli: int,
    variables: object = NOTHING,
    pids: object = 1024,
    workspace: object = None,
) -> EnvironmentSpec:
    """What an environment is to be like; some of it only its host can judge."""
    with checks.settings():
        folder = checks.optional_path(workspace, "workspace")
    return EnvironmentSpec(
        id=identity,
        memory_mib=units.memory_mib(memory),
        pids=checks.whole(pids, "pids", least=1, most=_MOST_PIDS),
        network=checks.flag(network, "network"),
        variables=variables_of(variables),
        readable=checks.paths(readable, "readable"),
        most_cpu_milli=most_milli,
        workspace=folder,
    )


def environment_for(
    spec: EnvironmentSpec,
    *,
    task: object,
    trajectory: object,
    step: object,
    milli: int,
    priority: object,
) -> Environment:
    """The schedulable part of an environment; without a trajectory it is one by itself."""
    needs = {MEMORY: spec.memory_mib or 0, CPU: milli}
    return Environment(
        id=EnvironmentId(spec.id),
        task=TaskId(checks.word(task, "task")),
        trajectory=TrajectoryId(
            spec.id if trajectory is None else checks.word(trajectory, "trajectory")
        ),
        step="" if step is None else _step(step),
        needs={name: amount for name, amount in needs.items() if amount},
        priority=checks.priority(priority),
    )


def variables_of(given: object) -> dict[str, str]:
    """Environment variables; raises `InvalidAction` for what no program could be given."""
    if not isinstance(given, Mapping):
        raise wrong("variables", given, 'give a mapping, such as {"CI": "1"}')
    for name, value in given.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise InvalidAction(f"variables: {shown(name)} is no name; letters, digits and _ only")
        if not isinstance(value, str) or "\0" in value or not checks.encodable(value):
            raise InvalidAction(f"variables: {name}={shown(value)}: a value is text without NUL")
    return dict(given)


def _stdin(given: object) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    if not isinstance(given, str):
        raise wrong("stdin", given, "give what it reads, as text or bytes")
    return checks.utf8(given, "stdin")


def _step(given: object) -> str:
    if isinstance(given, str):
        return checks.word(given, "step")
    try:
        return str(checks.whole(given, "step"))
    except InvalidAction:
        raise wrong("step", given, "give a name or a whole number") from None


def _checked(command: object) -> str | tuple[str, ...]:
    want = "give a line for sh, or a program and arguments"
    words: tuple[object, ...]
    if isinstance(command, str):
        words = (command,)
    elif isinstance(command, Sequence) and not isinstance(command, bytes | bytearray):
        words = tuple(os.fspath(w) if isinstance(w, os.PathLike) else w for w in command)
    else:
        raise wrong("command", command, want)
    said = f"command={shown(command)}"
    for word in words:
        if not isinstance(word, str):
            raise InvalidAction(f"{said}: {shown(word)} is no text; {want}")
        if "\0" in word:
            raise InvalidAction(f"{said}: a command cannot hold a NUL character")
        if not (word.isascii() or checks.encodable(word)):
            raise InvalidAction(f"{said}: it holds a lone surrogate, which is no character")
    texts = cast("tuple[str, ...]", words)
    if not texts or not texts[0].strip():
        raise InvalidAction(f"{said}: {want}")
    return texts[0] if isinstance(command, str) else texts
