"""Reads what people write for a service, in Python or in a file, and says what is wrong with it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from ..core.model import Degree, Quota, Service
from ..errors import ConfigError, InvalidAction
from ..executors.services.command import CommandDriver, CommandSettings
from ..executors.services.devices import Devices, HostDevices
from ..executors.services.openai import OpenAIDriver, OpenAISettings
from ..executors.services.port import ServiceDriver
from ..executors.services.sleeping import PROTOCOLS
from ..executors.services.torch import TorchDriver, TorchSettings
from . import checks, units
from .checks import AnyPath, shown, wrong
from .quotas import quota_of
from .requests import variables_of
from .services import Deployment
from .units import Duration, Size

Program = str | Sequence[str]
"""A line that is split as a shell would, or a program and its arguments."""


class ServiceOptions(TypedDict, total=False):
    """What can be said about a service, in Python or as keys of ``[services.NAME]`` in a file.

    Keys:
        driver: ``"openai"``, ``"torch"`` or ``"command"``.
        degrees: the widths it runs at with the speed-up of each, as ``{1: 1.0, 2: 1.9}``; 1 alone
            by default.
        memory: device memory of an instance on each of its devices; a mapping by degree, or one
            amount for all.
        host_memory: memory of the machine that its copy takes while it is asleep and awake.
        slots: how many calls one instance takes at once, 1 by default.
        restore: how long it takes to be ready from its copy, if that is known; by degree, or one.
        load: how long the first start takes, if that is known.
        gpu_model: the only GPU model it runs on.
        pinned: degrees of instances that are brought up at once and stay.
        start_timeout: the limit on a start, 10 minutes by default.
        wake_timeout: the limit on waking and on leaving its devices, 2 minutes by default.
        call_timeout: the limit on a call that has none of its own, 10 minutes by default.
        asleep_memory: device memory it may keep while it sleeps: on GPUs 1 GiB by default.
        reply_limit: a longer reply is a failure, 64 MiB by default.
        variables: environment variables of its processes.
        command: (openai) how to start a server; ``{port}``, ``{gpus}`` and ``{devices}`` are filled
            in.
        address: (openai) where a server runs already, one for each pinned instance.
        sleep: (openai) its protocol, ``"vllm"``, ``"sglang"`` or ``"none"``; (command) a program.
        sleep_level: (openai) of vLLM, 1 or 2.
        model: (openai) the model to ask for; the first the server lists by default.
        ready: (openai) the path that answers when it is up; (command) a program that succeeds then.
        probe: (openai, torch) a request that shows that it answers.
        module: (torch) ``"package:function"``, which returns the module.
        arguments: (torch) keyword arguments of that function.
        path: (torch) folders to import from, besides those of this process.
        start: (command) a program that runs as long as the instance.
        call: (command) a program that reads a request as JSON and prints the answer.
        wake: (command) a program that brings back what `sleep` put away.
        stop: (command) a program to run before `start` is ended.
    """

    driver: str
    degrees: Mapping[int, float]
    memory: Size | Mapping[int, Size]
    host_memory: Size
    slots: int
    restore: Duration | Mapping[int, Duration]
    load: Duration
    gpu_model: str
    pinned: Sequence[int]
    start_timeout: Duration
    wake_timeout: Duration
    call_timeout: Duration
    asleep_memory: Size
    reply_limit: Size
    variables: Mapping[str, str]
    command: Program
    address: str | Sequence[str]
    sleep: Program
    sleep_level: int
    model: str
    ready: Program
    probe: Mapping[str, Any]
    module: str
    arguments: Mapping[str, Any]
    path: str | Sequence[str]
    start: Program
    call: Program
    wake: Program
    stop: Program


_COMMON = frozenset(
    {
        *("driver", "degrees", "memory", "host_memory", "slots", "restore", "load", "gpu_model"),
        *("pinned", "start_timeout", "wake_timeout", "call_timeout", "asleep_memory"),
        *("reply_limit", "variables"),
    }
)
_OWN = {
    "openai": frozenset({"command", "address", "sleep", "sleep_level", "model", "ready", "probe"}),
    "torch": frozenset({"module", "arguments", "path", "probe"}),
    "command": frozenset({"start", "stop", "ready", "call", "sleep", "wake"}),
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_REPLY_LIMIT = 64 * 1024 * 1024


def deployment_of(name: str, options: Mapping[str, Any], devices: Devices) -> Deployment:
    """A service as it was described; raises `ConfigError` naming the key that is wrong."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"service {name!r}: a name is up to 64 letters, digits and ._-, a letter or digit first"
        )
    where = f"services.{name}"
    kind = options.get("driver", "")
    if not isinstance(kind, str) or kind not in _OWN:
        raise ConfigError(f'{where}.driver={shown(kind)}: give "openai", "torch" or "command"')
    for key in options:
        if key not in _COMMON | _OWN[kind]:
            known = ", ".join(sorted(_COMMON | _OWN[kind]))
            raise ConfigError(f"{where}.{key}: there is no such key; with driver={kind!r}: {known}")
    try:
        for key, value in options.items():
            if (check := _CHECKS.get(key)) is not None:
                check(value, key)
        driver = _driver(kind, name, options, devices)
        service = _service(name, options, driver)
        asleep = 1024 if not isinstance(devices, HostDevices) else 0
        deployment = Deployment(
            service=service,
            driver=driver,
            start_s=_span(options, "start_timeout", 600.0),
            wake_s=_span(options, "wake_timeout", 120.0),
            call_s=_span(options, "call_timeout", 600.0),
            asleep_mib=_mib(options, "asleep_memory", asleep),
        )
    except InvalidAction as error:
        raise ConfigError(f"{where}.{error}") from None
    except (TypeError, ValueError) as error:
        text = str(error)
        raise ConfigError(text if text.startswith(where) else f"{where}: {text}") from error
    return deployment


def read_services(path: AnyPath) -> tuple[dict[str, Mapping[str, Any]], list[Quota]]:
    """The services and the quotas of a TOML file, ``[services.NAME]`` and ``[quotas.NAME]``."""
    try:
        with Path(path).open("rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"services={str(path)!r}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from error
    for key in document:
        if key not in {"services", "quotas"}:
            raise ConfigError(f"{path}: {key}: there are [services.NAME] and [quotas.NAME] only")
    tables = {key: document.get(key, {}) for key in ("services", "quotas")}
    for key, table in tables.items():
        if not isinstance(table, dict) or not all(isinstance(t, dict) for t in table.values()):
            raise ConfigError(f"{path}: {key}: each has a table of its own, [{key}.NAME]")
    return tables["services"], [_quota(name, table) for name, table in tables["quotas"].items()]


def _quota(name: str, table: Mapping[str, Any]) -> Quota:
    known = {"rate", "burst", "concurrency", "daily", "windows", "adaptive"}
    if unknown := sorted(table.keys() - known):
        raise ConfigError(
            f"quotas.{name}.{unknown[0]}: there is no such key; there are {', '.join(sorted(known))}"
        )
    return quota_of(name, **table)


def _service(name: str, options: Mapping[str, Any], driver: ServiceDriver) -> Service:
    given = options.get("degrees", {1: 1.0})
    if not isinstance(given, Mapping) or not given:
        raise ValueError(
            f"degrees={shown(given)}: give the speed-up of each, such as {{1: 1.0, 2: 1.9}}"
        )
    speedups = _by_degree(given, "degrees", float)
    memory = _each(options, "memory", sorted(speedups), units.size_mib)
    restore = _each(options, "restore", sorted(speedups), units.seconds)
    load = options.get("load")
    return Service(
        name=name,
        degrees=tuple(
            Degree(
                gpus=gpus,
                speedup=speedups[gpus],
                device_mib=int(memory.get(gpus, 0)),
                restore_s=restore.get(gpus),
            )
            for gpus in sorted(speedups)
        ),
        host_mib=_mib(options, "host_memory", 0),
        slots=_whole(options, "slots", 1),
        movable=driver.movable,
        load_s=None if load is None else units.seconds(load, "load"),
        gpu_model=options.get("gpu_model", ""),
        pinned=_pinned(options),
    )


def _driver(kind: str, name: str, options: Mapping[str, Any], devices: Devices) -> ServiceDriver:
    limit = options.get("reply_limit", _REPLY_LIMIT)
    limit_bytes = units.size_bytes(limit, "reply_limit")
    variables = variables_of(
        {
            key: str(value) if type(value) in (int, float) else value
            for key, value in options.get("variables", {}).items()
        }
    )
    if kind == "openai":
        return OpenAIDriver(name, _openai(options, variables, limit_bytes), devices)
    if kind == "torch":
        module = options.get("module")
        if not isinstance(module, str) or not re.fullmatch(r"[\w.]+:[\w.]+", module):
            raise ValueError(f'module={shown(module)}: give "package:function"')
        return TorchDriver(
            name,
            TorchSettings(
                module=module,
                arguments=dict(options.get("arguments", {})),
                path=_words(options.get("path", ())),
                probe=options.get("probe"),
                variables=variables,
                reply_limit_bytes=limit_bytes,
            ),
            devices,
        )
    if "call" not in options:
        raise ValueError("call: give the program that answers a request")
    if ("sleep" in options) != ("wake" in options):
        raise ValueError("sleep, wake: one is of no use without the other")
    if "sleep" in options and "start" not in options:
        raise ValueError("sleep: only what was started, by `start`, can sleep")
    programs = {key: options[key] for key in _OWN["command"] & options.keys()}
    settings = CommandSettings(**programs, variables=variables, reply_limit_bytes=limit_bytes)
    return CommandDriver(name, settings, devices)


def _openai(
    options: Mapping[str, Any], variables: Mapping[str, str], limit_bytes: int
) -> OpenAISettings:
    addresses = _words(options.get("address", ()))
    for address in addresses:
        if not address.startswith(("http://", "https://")):
            raise ValueError(f"address={shown(address)}: begin with http:// or https://")
    sleep = options.get("sleep", "none")
    if ("command" in options) == bool(addresses):
        raise ValueError("command, address: give one of them")
    if sleep != "none" and sleep not in PROTOCOLS:
        raise ValueError(f"sleep={shown(sleep)}: give one of none, {', '.join(PROTOCOLS)}")
    level = checks.whole(options.get("sleep_level", 1), "sleep_level", least=1, most=2)
    if addresses and len(addresses) != len(_pinned(options)):
        raise ValueError(
            f"address: a server that runs already is never moved, so say where each stands: "
            f"pinned= with {len(addresses)} degrees, one for each address"
        )
    return OpenAISettings(
        command=options.get("command"),
        addresses=tuple(address.rstrip("/") for address in addresses),
        sleep=sleep,
        sleep_level=level,
        model=options.get("model"),
        ready=options.get("ready", "/health"),
        probe=options.get("probe"),
        variables=variables,
        reply_limit_bytes=limit_bytes,
    )


def _pinned(options: Mapping[str, Any]) -> tuple[int, ...]:
    pinned = options.get("pinned", ())
    if isinstance(pinned, str) or not isinstance(pinned, Sequence | int):
        raise wrong("pinned", pinned, "give degrees of the service, such as [1, 2]")
    each = (pinned,) if isinstance(pinned, int) else tuple(pinned)
    return tuple(checks.whole(gpus, "pinned", least=1) for gpus in each)


def _by_degree(given: Mapping[Any, Any], field: str, read: Callable[[Any], Any]) -> dict[int, Any]:
    found = {}
    for key, value in given.items():
        try:
            if isinstance(value, bool) or int(key) != float(key):
                raise ValueError  # noqa: TRY301  # it is told below
            found[int(key)] = read(value)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, InvalidAction):
                raise
            raise ValueError(
                f"{field}[{shown(key)}]={shown(value)}: a number for a number of GPUs"
            ) from None
    return found


def _each(
    options: Mapping[str, Any],
    field: str,
    widths: Sequence[int],
    read: Callable[[Any, str], float],
) -> dict[int, float]:
    """One amount for every degree, or one for each."""
    given = options.get(field)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return dict.fromkeys(widths, read(given, field))
    found = _by_degree(given, field, lambda value: read(value, field))
    if unknown := sorted(found.keys() - set(widths)):
        raise ValueError(f"{field}[{unknown[0]}]: the service has the degrees {list(widths)}")
    return found


def _span(options: Mapping[str, Any], field: str, default: float) -> float:
    given = options.get(field)
    return default if given is None else units.seconds(given, field)


def _mib(options: Mapping[str, Any], field: str, default: int) -> int:
    given = options.get(field)
    if given is None:
        return default
    return 0 if given == 0 else units.size_mib(given, field)


def _whole(options: Mapping[str, Any], field: str, default: int) -> int:
    return checks.whole(options.get(field, default), field, least=1)


def _mapping(value: object, key: str) -> None:
    if not isinstance(value, Mapping):
        raise wrong(key, value, "give a mapping of names to values")


def _program(value: object, key: str) -> None:
    parts = (value,) if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise wrong(key, value, "give a program and its arguments")
    if not parts or not parts[0].strip():
        raise wrong(key, value, "give a program and its arguments")
    for part in parts:
        checks.inside(part, key)


_CHECKS: Mapping[str, Callable[[object, str], object]] = {
    **dict.fromkeys(("gpu_model", "model", "module"), checks.word),
    **dict.fromkeys(("arguments", "probe", "variables"), _mapping),
    **dict.fromkeys(("command", "start", "stop", "ready", "call", "sleep", "wake"), _program),
    **dict.fromkeys(("address", "path"), checks.words),
}


def _words(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
