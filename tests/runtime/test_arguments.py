"""Whatever is passed to the public interface is taken or refused by name, and stops nobody else."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import arl_tangram as at
from arl_tangram import blocking
from arl_tangram.core.model import CPU, MEMORY, Node, NodeId
from arl_tangram.executors.services.devices import devices_of
from arl_tangram.runtime.environment import Environment, Shell
from arl_tangram.runtime.handle import Handle
from arl_tangram.runtime.journal import Journal
from arl_tangram.runtime.lease import Lease
from arl_tangram.runtime.requests import CommandOptions, FreshOptions
from arl_tangram.runtime.service_options import ServiceOptions
from arl_tangram.runtime.tangram import Tangram
from arl_tangram.testing.scripted_host import ScriptedHost

Table = Mapping[str, tuple[type[Exception], str]]

VALUES: Mapping[str, Any] = {
    "none": None,
    "yes": True,
    "zero": 0,
    "one": 1,
    "minus": -1,
    "huge": 10**30,
    "monstrous": 10**5000,
    "real": 1.5,
    "nan": float("nan"),
    "infinite": float("inf"),
    "text": "a",
    "empty": "",
    "number": "5",
    "surrogate": "\ud800",
    "escape": "\udc80",
    "nul": "a\0b",
    "path": Path("a"),
    "bytes": b"a",
    "buffer": bytearray(b"a"),
    "list": ["u"],
    "odd list": [5],
    "nested": [["u"]],
    "mapping": {"u": 1},
    "odd mapping": {5: object()},
    "set": {"u"},
    "class": int,
    "call": lambda: 1,
    "object": object(),
}
NAME = "text number nul"
WHOLE = "zero one minus"
COUNT = "one"
FLAG = "yes"
INSIDE = "text empty number escape path"
HOST_PATH = "text number escape path"
PROGRAM = "text number escape list"
DURATION = "one real number"
SIZE = "none"  # as a number of bytes they are too small to hold a program
REFUSED, SETTING = at.InvalidAction, at.ConfigError


def rows(error: type[Exception], **fine: str) -> Table:
    """For each parameter, the error that a wrong value raises, and the names of the right values."""
    return {name: (error, right) for name, right in fine.items()}


COMMAND_OPTIONS = rows(
    REFUSED,
    cpus="one real number odd_list",
    timeout=f"none {DURATION}",
    idle_timeout=f"none {DURATION}",
    kind=NAME,
    stdin="none text empty number nul bytes buffer",
    cwd=f"none {INSIDE}",
    variables="",
    output_limit="one real number",
    resizable=FLAG,
    speedup="none",
    priority=WHOLE,
    id="none text number",
)
FRESH_OPTIONS = {
    **COMMAND_OPTIONS,
    **rows(REFUSED, task=NAME, trajectory=f"none {NAME}", memory=SIZE, network=FLAG),
    **rows(REFUSED, readable="list set"),
}
RUN = rows(REFUSED, command="text number escape list", check=FLAG)
LABELS = rows(REFUSED, task=NAME, trajectory=NAME, priority=WHOLE)
ASKED = rows(REFUSED, kind=f"none {NAME}", attempts=COUNT, id="none text number")
SIZES = "one real number"
SPANS = f"none {DURATION}"

TABLES: Mapping[str, Table] = {
    "local": rows(
        SETTING,
        cpus="none one real",
        memory=SIZE,
        policy="",
        require="none text number list set nul",
        unit="none one",
        gpus="none zero one",
        gpu_memory=SIZE,
        services=f"none {HOST_PATH}",
        journal=f"none {HOST_PATH}",
        profile=f"none {HOST_PATH}",
        state_dir=f"none {HOST_PATH}",
        observers="empty",
    ),
    "environment": {
        **LABELS,
        **rows(REFUSED, trajectory=f"none {NAME}", step=f"none {NAME} {WHOLE}", memory=SIZE),
        **rows(REFUSED, network=FLAG, variables="none", readable="list set", pids=COUNT),
        **rows(REFUSED, cpus="none one real number odd_list"),
        **rows(SETTING, workspace=f"none {HOST_PATH}"),
    },
    "run": {**FRESH_OPTIONS, **RUN},
    "submit": {**FRESH_OPTIONS, **rows(REFUSED, command="text number escape list")},
    "lease": {
        **LABELS,
        **rows(REFUSED, cpus="none one real number odd_list", memory=SIZE, kind=NAME),
        **rows(REFUSED, resizable=FLAG, quota=f"none mapping {NAME}"),
    },
    "quota": rows(
        SETTING,
        name="text number",
        rate="none one real infinite_",
        burst=COUNT,
        concurrency=f"none {COUNT}",
        daily=f"none {COUNT}",
        windows="none",
        adaptive=FLAG,
    ),
    "fetch": {**LABELS, **ASKED, **rows(REFUSED, quota=NAME, request=NAME)},
    "service": rows(
        SETTING,
        name="text number",
        driver="",
        degrees="",
        memory="none",
        host_memory="none zero",
        slots=COUNT,
        restore=SPANS,
        load=SPANS,
        gpu_model=NAME,
        pinned=COUNT,
        start_timeout=SPANS,
        wake_timeout=SPANS,
        call_timeout=SPANS,
        asleep_memory="none zero",
        reply_limit=SIZES,
        variables="mapping",
        command=PROGRAM,
        address="",
        sleep=PROGRAM,
        sleep_level=COUNT,
        model=NAME,
        ready=PROGRAM,
        probe="mapping",
        module="",
        arguments="mapping",
        path="text number list set",
        overtime=SPANS,
        start=PROGRAM,
        call=PROGRAM,
        wake=PROGRAM,
        stop=PROGRAM,
    ),
    "call": {
        **LABELS,
        **ASKED,
        **rows(REFUSED, name="", timeout=SPANS, quota=f"none mapping {NAME}"),
        **rows(REFUSED, request=" ".join(VALUES).replace("odd ", "odd_")),
    },
    "explain": rows(REFUSED, id=NAME),
    "env.run": {**COMMAND_OPTIONS, **RUN},
    "env.submit": {**COMMAND_OPTIONS, **rows(REFUSED, command="text number escape list")},
    "env.write": rows(REFUSED, path=INSIDE, data="text empty number nul bytes buffer"),
    "env.read": rows(REFUSED, path=INSIDE),
    "env.read_text": rows(REFUSED, path=INSIDE),
    "env.upload": rows(REFUSED, source=HOST_PATH, path=INSIDE),
    "env.download": rows(REFUSED, path=INSIDE, target=HOST_PATH),
    "env.list": rows(REFUSED, path=INSIDE),
    "shell.run": {**COMMAND_OPTIONS, **RUN},
    "Request": rows(
        REFUSED,
        url=NAME,
        method=NAME,
        params="none mapping odd_mapping",
        headers="none",
        json="none yes zero one minus huge real text empty number surrogate escape nul list odd_list "
        "nested mapping",
        content="none bytes",
        timeout_s=DURATION,
        body_limit_bytes="zero one",
    ),
}
RIGHT: Mapping[str, dict[str, Any]] = {
    "run": {"command": "true"},
    "submit": {"command": "true"},
    "quota": {"name": "other", "rate": 1},
    "fetch": {"quota": "search", "request": "http://127.0.0.1:1/"},
    "call": {"name": "judge", "request": "x"},
    "write": {"path": "x", "data": "x"},
    "read": {"path": "x"},
    "read_text": {"path": "x"},
    "upload": {"source": "/x", "path": "x"},
    "download": {"path": "x", "target": "/x"},
    "Request": {"url": "http://127.0.0.1:1/"},
}
DRIVERS = {
    "openai": ("command", "address", "sleep", "sleep_level", "model", "ready", "probe"),
    "torch": ("module", "arguments", "path", "overtime"),
}
SERVICES: Mapping[str, dict[str, Any]] = {
    "openai": {"driver": "openai", "command": "serve"},
    "torch": {"driver": "torch", "module": "a:b"},
    "command": {"driver": "command", "call": "cat"},
}
PUBLIC = {"": Tangram, "env": Environment, "shell": Shell}
WITHOUT_ARGUMENTS = {"open", "close", "describe", "shell", "metrics"}
OPTIONS = {"CommandOptions": CommandOptions, "FreshOptions": FreshOptions} | {
    "ServiceOptions": ServiceOptions
}


def cases() -> Iterator[tuple[str, str]]:
    for call, table in TABLES.items():
        for parameter in table:
            yield call, parameter


def wrong_values(call: str, parameter: str) -> Iterator[tuple[str, Any]]:
    _, right = TABLES[call][parameter]
    fine = {name.replace("_", " ") for name in right.split()}
    return ((name, value) for name, value in VALUES.items() if name not in fine)


def arguments(call: str, parameter: str, value: Any) -> dict[str, Any]:
    name = call.rpartition(".")[2]
    right = dict(RIGHT.get(name, {}))
    if name == "service":
        driver = next((d for d, keys in DRIVERS.items() if parameter in keys), "command")
        right = {"name": "other", **SERVICES[driver]}
    right[parameter] = value
    if name == "service" and parameter == "address":
        del right["command"]
    return right


def complaint(call: str, parameter: str, value: str, error: Exception | None) -> str | None:
    """What is wrong with how a value was answered; None if it was refused as documented."""
    expected, _ = TABLES[call][parameter]
    said = f"{call}({parameter}={value}) "
    if error is None:
        return said + "was taken"
    if type(error) is not expected:
        return said + f"raised {error!r}"
    named = "service" if (call, parameter) == ("call", "name") else parameter
    if not re.search(rf"\b({named}|{parameter})\b", str(error)):
        return said + f"does not name it: {error}"
    return said + "is a lot to read" if len(str(error)) > 600 else None


def host_and_node() -> dict[str, Any]:
    return {
        "host": ScriptedHost,
        "node": Node(id=NodeId("n0"), capacity={CPU: 2000, MEMORY: 4096}),
        "devices": partial(devices_of, 1, 64),
    }


async def ask(call: Callable[..., Any], given: dict[str, Any]) -> Exception | None:
    try:
        got = call(**given)
        if inspect.isawaitable(got) and not isinstance(got, Environment | Handle):
            await got
        if isinstance(got, Lease):
            async with got:
                pass
    except Exception as error:  # noqa: BLE001
        return error
    return None


def ask_without_await(call: Callable[..., Any], given: dict[str, Any]) -> Exception | None:
    try:
        got = call(**given)
        if isinstance(got, blocking.Lease):
            with got:
                pass
    except Exception as error:  # noqa: BLE001
        return error
    return None


def found(call: str, objects: Mapping[str, Any]) -> Callable[..., Any]:
    owner, _, name = call.rpartition(".")
    return getattr(objects[owner], name)


@pytest.mark.parametrize(
    ("call", "parameter"), [c for c in cases() if c[0] not in {"local", "Request"}]
)
def test_a_wrong_argument_is_refused_by_name_and_the_others_go_on(
    call: str, parameter: str, tmp_path: Path
) -> None:
    complaints: list[str | None] = []

    async def main() -> None:
        journal = tmp_path / "journal"
        async with asyncio.timeout(60), Tangram(journal=journal, **host_and_node()) as tangram:
            tangram.quota("search", concurrency=1)
            tangram.service("judge", driver="command", call="cat")
            async with tangram.environment() as env, await env.shell() as shell:
                method = found(call, {"": tangram, "env": env, "shell": shell})
                for name, value in wrong_values(call, parameter):
                    error = await ask(method, arguments(call, parameter, value))
                    complaints.append(complaint(call, parameter, name, error))
                    assert (await tangram.run("true")).ok
        assert Journal.read(journal).first_difference() is None

    asyncio.run(main())
    assert "" == "\n".join(filter(None, complaints))


@pytest.mark.parametrize("parameter", TABLES["local"])
def test_a_wrong_setting_of_the_machine_is_refused_by_name(parameter: str) -> None:
    async def main() -> list[str | None]:
        return [
            complaint("local", parameter, name, await ask(Tangram.local, {parameter: value}))
            for name, value in wrong_values("local", parameter)
        ]

    assert "" == "\n".join(filter(None, asyncio.run(main())))


@pytest.mark.parametrize("parameter", TABLES["Request"])
def test_a_wrong_field_of_a_request_is_refused_by_name(parameter: str) -> None:
    complaints: list[str | None] = []

    async def main() -> None:
        async with asyncio.timeout(60), Tangram(**host_and_node()) as tangram:
            tangram.quota("search", concurrency=1)
            for name, value in wrong_values("Request", parameter):
                request = at.Request(**arguments("Request", parameter, value))
                error = await ask(tangram.fetch, {"quota": "search", "request": request})
                complaints.append(complaint("Request", parameter, name, error))

    asyncio.run(main())
    assert "" == "\n".join(filter(None, complaints))


@pytest.mark.parametrize("call", [c for c in TABLES if c not in {"local", "Request"}])
def test_the_interface_without_await_refuses_the_same(call: str) -> None:
    complaints = []
    with blocking.Tangram(Tangram(**host_and_node())) as tangram:
        tangram.quota("search", concurrency=1)
        tangram.service("judge", driver="command", call="cat")
        with tangram.environment() as env, env.shell() as shell:
            method = found(call, {"": tangram, "env": env, "shell": shell})
            for parameter in TABLES[call]:
                for name, value in wrong_values(call, parameter):
                    error = ask_without_await(method, arguments(call, parameter, value))
                    complaints.append(complaint(call, parameter, name, error))
            assert tangram.run("true").ok
    assert "" == "\n".join(filter(None, complaints))


@pytest.mark.parametrize("call", ["run", "call", "fetch"])
def test_an_id_is_not_used_up_by_what_was_refused(call: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), Tangram(**host_and_node()) as tangram:
            tangram.quota("search", concurrency=1)
            tangram.service("judge", driver="command", call="cat")
            given = RIGHT[call] | {"id": "mine"}
            with pytest.raises(at.InvalidAction, match="priority='a'"):
                await getattr(tangram, call)(**given, priority="a")

            assert (await tangram.run("true", id="mine")).ok

    asyncio.run(main())


def test_every_parameter_of_every_public_call_is_in_the_table() -> None:
    calls = {
        f"{owner}.{name}".lstrip("."): parameters_of(getattr(kind, name))
        for owner, kind in PUBLIC.items()
        for name in vars(kind) | ({"quota": 0, "fetch": 0, "service": 0, "call": 0} if not owner else {})
        if not name.startswith("_")
        and name not in WITHOUT_ARGUMENTS
        and callable(getattr(kind, name))
    }  # fmt: skip
    calls["Request"] = set(inspect.signature(at.Request).parameters)

    assert calls == {call: set(table) for call, table in TABLES.items()}


def parameters_of(call: Callable[..., Any]) -> set[str]:
    found = set()
    for name, parameter in inspect.signature(call).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            of = next(kind for said, kind in OPTIONS.items() if said in str(parameter.annotation))
            found |= inspect.get_annotations(of).keys() | getattr(of, "__annotations__", {}).keys()
            found |= {key for base in getattr(of, "__orig_bases__", ()) for key in keys_of(base)}
        elif name != "self":
            found.add(name)
    return found


def keys_of(kind: Any) -> set[str]:
    return set(getattr(kind, "__annotations__", {}))
