"""Reads what people write for a service, in Python or in a file, and says what is wrong with it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypedDict, TypeVar
from urllib.parse import urlsplit

from ..core.model import Degree, Service
from ..errors import ConfigError
from ..executors.services.command import CommandDriver, CommandSettings
from ..executors.services.devices import Devices, HostDevices
from ..executors.services.openai import OpenAIDriver, OpenAISettings
from ..executors.services.port import ServiceDriver
from ..executors.services.sleeping import PROTOCOLS
from ..executors.services.torch import OVERTIME_S, TorchDriver, TorchSettings
from . import checks, units
from .checks import shown, wrong
from .requests import variables_of
from .services import Deployment
from .units import Duration, Size

T = TypeVar("T")
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
        overtime: (torch) how long its worker may go on with a call that nobody waits for any more,
            10 seconds by default; then it is ended, with the calls of others in it.
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
    overtime: Duration
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
    "torch": frozenset({"module", "arguments", "path", "probe", "overtime"}),
    "command": frozenset({"start", "stop", "ready", "call", "sleep", "wake"}),
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_REPLY_LIMIT = 64 * 1024 * 1024
_WIDTHS = (1, 2, 4, 8)
_MOST_SLOTS = 4096
_FASTEST = 1e9
"""A speed-up is no larger."""


def service_name(name: object) -> str:
    """What a service may be called."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise ConfigError(
        f"service {shown(name)}: a name is up to 64 letters, digits and ._-, a letter or digit first"
    )


def deployment_of(name: str, options: Mapping[str, Any], devices: Devices) -> Deployment:
    """A service as it was described; raises `ConfigError` naming the key that is wrong."""
    where = f"services.{service_name(name)}"
    kind = options.get("driver", "")
    if not isinstance(kind, str) or kind not in _OWN:
        raise ConfigError(f'{where}.driver={shown(kind)}: give "openai", "torch" or "command"')
    for key in options:
        if key not in _COMMON | _OWN[kind]:
            known = ", ".join(sorted(_COMMON | _OWN[kind]))
            raise ConfigError(f"{where}.{key}: there is no such key; with driver={kind!r}: {known}")
    try:
        with checks.settings(where):
            _check(kind, options)
            driver = _driver(kind, name, options, devices)
            asleep = 1024 if not isinstance(devices, HostDevices) else 0
            return Deployment(
                service=_service(name, options, driver),
                driver=driver,
                start_s=_span(options, "start_timeout", 600.0),
                wake_s=_span(options, "wake_timeout", 120.0),
                call_s=_span(options, "call_timeout", 600.0),
                asleep_mib=_mib(options, "asleep_memory", asleep),
            )
    except ConfigError:
        raise
    except ValueError as error:  # of several keys together
        raise ConfigError(f"{where}: {error}") from error


def _service(name: str, options: Mapping[str, Any], driver: ServiceDriver) -> Service:
    given = options.get("degrees", {1: 1.0})
    if not isinstance(given, Mapping) or not given:
        raise wrong("degrees", given, "give the speed-up of each, such as {1: 1.0, 2: 1.9}")
    speedups = _by_degree(given, "degrees", _speedup)
    memory = _each(options, "memory", sorted(speedups), units.size_mib)
    if memory and (missing := sorted(speedups.keys() - memory.keys())):
        raise wrong("memory", options["memory"], f"say what it takes at degree {missing[0]}, too")
    restore = _each(options, "restore", sorted(speedups), units.seconds)
    load = options.get("load")
    return Service(
        name=name,
        degrees=tuple(
            Degree(
                gpus=gpus,
                speedup=speedups[gpus],
                device_mib=memory.get(gpus, 0),
                restore_s=restore.get(gpus),
            )
            for gpus in sorted(speedups)
        ),
        host_mib=_mib(options, "host_memory", 0),
        slots=_whole(options, "slots", 1),
        movable=driver.movable,
        load_s=None if load is None else units.seconds(load, "load"),
        gpu_model=options.get("gpu_model", ""),
        pinned=_pinned(options, speedups),
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
            raise wrong("module", module, 'give "package:function"')
        return TorchDriver(
            name,
            TorchSettings(
                module=module,
                arguments=dict(options.get("arguments", {})),
                path=_words(options.get("path", ())),
                probe=options.get("probe"),
                variables=variables,
                reply_limit_bytes=limit_bytes,
                overtime_s=_span(options, "overtime", OVERTIME_S),
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
    if "address" in options and not addresses:
        raise wrong("address", options["address"], "give one or more, or leave it out")
    for address in addresses:
        _check_address(address)
    sleep = options.get("sleep", "none")
    if ("command" in options) == bool(addresses):
        raise ValueError("command, address: give one of them")
    if not isinstance(sleep, str) or sleep not in {"none", *PROTOCOLS}:
        raise wrong("sleep", sleep, f"give one of none, {', '.join(PROTOCOLS)}")
    ready = options.get("ready", "/health")
    if not isinstance(ready, str) or not re.fullmatch(r"/[!-~]*", ready):
        raise wrong("ready", ready, "give the path of a URL, such as /health")
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
        ready=ready,
        probe=options.get("probe"),
        variables=variables,
        reply_limit_bytes=limit_bytes,
    )


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not address.startswith(("http://", "https://")):
        raise wrong("address", address, "begin with http:// or https://")
    if not whole or not re.fullmatch(r"[!-~]+", address):
        raise wrong("address", address, "give a URL such as http://127.0.0.1:8000")


def _pinned(options: Mapping[str, Any], degrees: Collection[int] = _WIDTHS) -> tuple[int, ...]:
    pinned = options.get("pinned", ())
    if isinstance(pinned, str) or not isinstance(pinned, Sequence | int):
        raise wrong("pinned", pinned, "give degrees of the service, such as [1, 2]")
    each = (pinned,) if isinstance(pinned, int) else tuple(pinned)
    for gpus in each:
        if checks.whole(gpus, "pinned", least=1) not in degrees:
            raise wrong("pinned", pinned, f"give degrees of the service, of {sorted(degrees)}")
    return each


def _by_degree(given: Mapping[Any, Any], field: str, read: Callable[[Any, str], T]) -> dict[int, T]:
    found: dict[int, T] = {}
    for key, value in given.items():
        gpus = int(key) if isinstance(key, str) and key.isascii() and key.isdigit() else key
        if type(gpus) is not int or gpus not in _WIDTHS:
            raise wrong(f"{field}[{shown(key)}]", value, "a cell has 1, 2, 4 or 8 devices")
        if gpus in found:
            raise wrong(f"{field}[{shown(key)}]", value, f"{gpus} is there twice; give it once")
        found[gpus] = read(value, f"{field}[{shown(key)}]")
    return found


def _speedup(value: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _FASTEST:
        raise wrong(field, value, "a speed-up is a number above zero, such as 1.9")
    return float(value)


def _each(
    options: Mapping[str, Any], field: str, widths: Sequence[int], read: Callable[[Any, str], T]
) -> dict[int, T]:
    """One amount for every degree, or one for each."""
    given = options.get(field)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return dict.fromkeys(widths, read(given, field))
    found = _by_degree(given, field, read)
    if not found:
        raise wrong(field, given, f"give one amount for all degrees, or one for each of {widths}")
    if unknown := sorted(found.keys() - set(widths)):
        raise wrong(f"{field}[{unknown[0]}]", found[unknown[0]], f"it has the degrees {widths}")
    return found


def _span(options: Mapping[str, Any], field: str, default: float) -> float:
    given = options.get(field)
    return default if given is None else units.seconds(given, field)


def _mib(options: Mapping[str, Any], field: str, default: int) -> int:
    given = options.get(field)
    if given is None:
        return default
    return 0 if type(given) is int and given == 0 else units.size_mib(given, field)


def _whole(options: Mapping[str, Any], field: str, default: int) -> int:
    return checks.whole(options.get(field, default), field, least=1, most=_MOST_SLOTS)


def _check(kind: str, options: Mapping[str, Any]) -> None:
    """Refuse what is of the wrong sort, whatever the other keys say."""
    for key, value in options.items():
        if key in _TEXTS:
            checks.word(value, key)
        elif key in _MAPPINGS:
            _check_mapping(value, key)
        elif key in {"address", "path"}:
            for each in checks.words(value, key):
                checks.inside(each, key)
        elif key in _PROGRAMS and (kind == "command" or key == "command"):
            _check_program(value, key)


_TEXTS = frozenset({"gpu_model", "model", "module"})
_MAPPINGS = frozenset({"arguments", "probe", "variables"})
_PROGRAMS = frozenset({"command", "start", "stop", "ready", "call", "sleep", "wake"})


def _check_mapping(value: object, key: str) -> None:
    if not isinstance(value, Mapping):
        raise wrong(key, value, "give a mapping of names to values")
    if key != "variables":
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise wrong(key, value, f"it cannot be written as JSON: {error}") from error


def _check_program(value: object, key: str) -> None:
    want = 'give a program and its arguments, as one text or as a list such as ["cat", "-n"]'
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise wrong(key, value, want)
    for part in parts:
        checks.inside(part, key)
    if isinstance(value, str):
        try:
            parts = shlex.split(value)
        except ValueError as error:
            raise wrong(key, value, f"{error}; {want}") from None
    if not parts or not parts[0].strip():
        raise wrong(key, value, want)


def _words(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
