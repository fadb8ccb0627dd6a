"""Whatever stands in a file of services and quotas is taken, or refused by file, table, key and value."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import arl_tangram as at
from arl_tangram.core.model import CPU, MEMORY, Node, NodeId
from arl_tangram.executors.services.devices import devices_of
from arl_tangram.runtime import service_options
from arl_tangram.runtime.tangram import Tangram
from arl_tangram.testing.scripted_host import ScriptedHost

VALUES: Mapping[str, str] = {
    "true": "true",
    "false": "false",
    "zero": "0",
    "one": "1",
    "minus": "-1",
    "huge": "9223372036854775807",
    "monstrous": "1" + 400 * "0",
    "real": "1.5",
    "nan": "nan",
    "infinite": "inf",
    "text": '"a"',
    "empty": '""',
    "blank": '"  "',
    "number": '"5"',
    "minus_text": '"-5"',
    "no": '"no"',
    "quote": '"a \'b"',
    "nul": '"a\\u0000b"',
    "letter": '"é"',
    "size": '"1MiB"',
    "span": '"2s"',
    "date": "2026-01-31",
    "moment": "2026-01-31T12:00:00Z",
    "clock": "12:00:00",
    "list": '["a"]',
    "empty_list": "[]",
    "list_of_empty": '[""]',
    "ones": "[1]",
    "mixed": '["a", 1]',
    "lists": '[["a"]]',
    "table": '{ a = "b" }',
    "empty_table": "{}",
    "counts": "{ a = 1 }",
    "dates": "{ a = 2026-01-31 }",
    "degrees": "{ 1 = 1.0, 2 = 1.5 }",
    "degrees_of_text": '{ 1 = "1.0" }',
    "dotted": "{ 1.5 = 1.0 }",
    "degree_of_three": "{ 3 = 1.0 }",
    "degree_twice": "{ 1 = 1.0, 01 = 2.0 }",
    "no_degree": "{ 1 = 0 }",
    "negative": "{ 1 = -1.0 }",
    "nan_degree": "{ 1 = nan }",
    "sizes": '{ 1 = "1MiB" }',
    "windows": '{ "1h" = 500 }',
    "no_window": '{ "1h" = 0 }',
    "never": '{ "0s" = 5 }',
}
NAME = "text blank number minus_text no quote nul letter size span"
SPAN = "one real number span"
PROGRAM = "text number minus_text no letter size span list"
MAPPING = "table empty_table counts degrees degrees_of_text dotted degree_of_three degree_twice \
no_degree negative sizes windows no_window never"
QUOTAS = {
    "rate": "one real",
    "burst": "one",
    "concurrency": "one",
    "daily": "one",
    "windows": "empty_table windows",
    "adaptive": "true false",
}
COMMON = {
    "driver": "",
    "degrees": "degrees",
    "memory": "size sizes",
    "host_memory": "zero size",
    "slots": "one",
    "restore": f"{SPAN} degrees_of_text",
    "load": SPAN,
    "gpu_model": "",
    "pinned": "one ones empty_list",
    "start_timeout": SPAN,
    "wake_timeout": SPAN,
    "call_timeout": SPAN,
    "asleep_memory": "zero size",
    "reply_limit": "one real number size",
    "variables": "table empty_table counts",
}
OPENAI = {
    "command": PROGRAM,
    "address": "",
    "sleep": "",
    "sleep_level": "one",
    "model": NAME,
    "ready": "",
    "probe": MAPPING,
}
TORCH = {
    "module": "",
    "arguments": MAPPING,
    "path": f"{NAME} list empty_list".replace(" nul", ""),
    "probe": MAPPING,
    "overtime": SPAN,
}
COMMAND = dict.fromkeys(("start", "stop", "ready", "call"), PROGRAM)
SLEEPS = dict.fromkeys(("sleep", "wake"), PROGRAM)
TABLES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "quotas.x": ("daily = 9", QUOTAS),
    "services.x": ('driver = "command"\ncall = "cat"', COMMON | COMMAND),
    "services.y": ('driver = "openai"\ncommand = "serve"', OPENAI),
    "services.z": ('driver = "torch"\nmodule = "a:b"', TORCH),
    "services.s": ('driver = "command"\ncall = "a"\nstart = "a"\nsleep = "a"\nwake = "a"', SLEEPS),
}


def declared(file: Path, text: str | bytes) -> Exception | None:
    """What is wrong with a file; None if a Tangram can be opened with it."""
    file.write_bytes(text if isinstance(text, bytes) else text.encode())

    async def main() -> Exception | None:
        node = Node(id=NodeId("n0"), capacity={CPU: 2000, MEMORY: 4096})
        devices = partial(devices_of, 2, 64)
        tangram = Tangram(node=node, host=ScriptedHost, devices=devices, services=file)
        try:
            await tangram.open()
        except Exception as error:  # noqa: BLE001
            return error
        finally:
            await tangram.close()
        return None

    return asyncio.run(main())


def complaint(file: Path, table: str, key: str, name: str) -> str | None:
    """What is wrong with how a value was answered; None if it was as it should be."""
    others, keys = TABLES[table]
    kept = [line for line in others.splitlines() if not line.startswith(f"{key} =")]
    if key == "address":
        kept.remove('command = "serve"')
    error = declared(file, "\n".join([f"[{table}]", *kept, f"{key} = {VALUES[name]}"]))
    said = f"{table}.{key} = {VALUES[name][:60]} "
    fine = name in keys[key].split()
    if error is None or fine:
        return None if fine == (error is None) else said + f"got {error!r}"
    if type(error) is not at.ConfigError:
        return said + f"raised {error!r}"
    if not re.match(rf"{re.escape(str(file))}: {re.escape(table)}\.{key}\b", str(error)):
        return said + f"is not named: {error}"
    return said + "is a lot to read" if len(str(error)) > 700 else None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "key"), [(table, key) for table, (_, keys) in TABLES.items() for key in keys]
)
def test_a_wrong_value_is_refused_by_file_table_and_key(tmp_path, table, key) -> None:
    complaints = [complaint(tmp_path / "x.toml", table, key, name) for name in VALUES]

    assert "" == "\n".join(filter(None, complaints))


def test_every_key_is_in_the_table() -> None:
    assert service_options._COMMON == set(COMMON)
    assert {
        "openai": frozenset(OPENAI),
        "torch": frozenset(TORCH),
        "command": frozenset(COMMAND) | frozenset(SLEEPS),
    } == service_options._OWN


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"# a\n[quotas.\xff]\n", "line 2: the byte 0xff is no UTF-8"),
        ("[quotas.q]\nrate=1".encode("utf-16"), "line 1: the byte 0xff is no UTF-8"),
        (b"rate\n", "it is no TOML: .*line 1"),
        (b"x = " + b"[" * 100_000, "it is nested too deeply"),
        (b"quotas = 3", r"quotas: each has a table of its own"),
        (b"[quotas]\nrate = 1", r"quotas: each has a table of its own"),
        (b"[[services.a]]", r"services: each has a table of its own"),
        (b"[queues.a]", r"queues: there are"),
        (b"[quotas.a]\nburts = 1", r"quotas\.a\.burts: there is no such key; there are adaptive"),
        (b"[quotas.a]\nburst = 1", r"quotas\.a: it limits nothing"),
        (b'[quotas."a b"]\nrate = 1', r"name='a b': a quota's is up to"),
        (b'[quotas.""]\nrate = 1', r"name='': a quota's is up to"),
        (b'[services.""]\ndriver = "command"', r"service '': a name is up to"),
        (b"[services.a]", r"services\.a\.driver='': give"),
        (
            b"[services.a]\ndriver='command'\ncall='a'\ndegrees={1=1.0,01=2.0}",
            r"services\.a\.degrees\['01'\]=2.0: 1 is there twice",
        ),
        (
            b"[services.a]\ndriver='command'\ncall='a'\nmemory={2='1MiB'}",
            r"services\.a\.memory\[2\]=1: it has the degrees \[1\]",
        ),
        (
            b"[services.a]\ndriver='command'\ncall='a'\nmemory={1='1MiB'}\ndegrees={1=1,2=2}",
            r"services\.a\.memory=.*: say what it takes at degree 2, too",
        ),
        (
            b"[services.a]\ndriver='command'\ncall='a'\npinned=[2]",
            r"services\.a\.pinned=\[2\]: give degrees of the service, of \[1\]",
        ),
        (
            b"[services.a]\ndriver='openai'\naddress='http://h:99999'\npinned=1",
            r"services\.a\.address='http://h:99999': give a URL",
        ),
        (b'[services.a]\ndriver="command"\ncall="\'"', r"services\.a\.call=.*closing quotation"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_name(tmp_path, text, says) -> None:
    error = declared(file := tmp_path / "x.toml", text)

    assert at.ConfigError is type(error)
    assert re.match(f"{re.escape(str(file))}: {says}", str(error)), str(error)


def test_a_file_that_begins_with_the_mark_of_an_editor_is_read(tmp_path) -> None:
    assert declared(tmp_path / "x.toml", b"\xef\xbb\xbf[quotas.q]\nrate = 1") is None


@pytest.mark.parametrize(("path", "says"), [("none.toml", "No such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_is_named(tmp_path, path, says) -> None:
    async def main() -> None:
        with pytest.raises(at.ConfigError, match=f"services=.*{says}"):
            await at.Tangram.local(services=tmp_path / path).open()

    asyncio.run(main())


def declare(degrees: Mapping[Any, Any]) -> None:
    """Declares a service of these degrees in Python."""

    async def main() -> None:
        node = Node(id=NodeId("n0"), capacity={CPU: 2000, MEMORY: 4096})
        async with Tangram(
            node=node, host=ScriptedHost, devices=partial(devices_of, 2, 64)
        ) as tangram:
            tangram.service("a", driver="command", call="cat", degrees=degrees)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("degrees", "says"),
    [
        ({1: 1.0, "1": 2.0}, r"degrees\['1'\]=2.0: 1 is there twice"),
        ({1.5: 1.0}, r"degrees\[1.5\]=1.0: a cell has 1, 2, 4 or 8"),
        ({True: 1.0}, r"degrees\[True\]=1.0: a cell has"),
        ({b"1": 1.0}, r"degrees\[b'1'\]=1.0: a cell has"),
    ],
)
def test_a_degree_is_a_whole_number_once(degrees, says) -> None:
    with pytest.raises(at.ConfigError, match=rf"services\.a\.{says}"):
        declare(degrees)
