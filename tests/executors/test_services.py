"""Every driver of services keeps the contract, on real processes, with host memory for devices."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from arl_tangram.executors.services.command import CommandDriver, CommandSettings
from arl_tangram.executors.services.devices import HostDevices
from arl_tangram.executors.services.openai import OpenAIDriver, OpenAISettings
from arl_tangram.executors.services.torch import TorchDriver, TorchSettings
from arl_tangram.testing import service_contract as contract
from arl_tangram.testing.service_contract import Case

pytestmark = pytest.mark.slow

SERVER = (sys.executable, "-m", "arl_tangram.testing.model_server", "--port", "{port}")


def openai(*options: str, sleep: str = "vllm", level: int = 1) -> Case:
    devices = HostDevices(2, 8)
    settings = OpenAISettings(
        command=(*SERVER, "--protocol", sleep, "--mib", "4", *options),
        sleep=sleep,
        sleep_level=level,
    )
    return Case(
        driver=OpenAIDriver("reverse", settings, devices),
        devices=devices,
        request={"prompt": "abc"},
        answer=lambda value: value["choices"][0]["text"] == "cba",
        slow={"prompt": "wait", "sleep_s": 60},
        wrong={"messages": []},
        mib=8,
        holds_mib=4,
        keeps_copy=sleep != "none",
    )


HOLD = "d=${ARL_TANGRAM_DEVICE_FOLDERS%%:*}; head -c 4194304 /dev/zero > $d/held; touch $d/up; "
SLEEP = ["sh", "-c", "rm ${ARL_TANGRAM_DEVICE_FOLDERS%%:*}/*"]
WAKE = ["sh", "-c", HOLD]
ANSWER = """
import json, os, sys, time
request = json.load(sys.stdin)
if request == "slow":
    time.sleep(60)
if request == "wrong":
    sys.exit("that is no word")
print(json.dumps({"text": request[::-1], "devices": os.environ["ARL_TANGRAM_DEVICES"]}))
"""


def command(*, start: bool = True, sleep: bool = False) -> Case:
    devices = HostDevices(2, 8)
    settings = CommandSettings(
        start=["sh", "-c", HOLD + "sleep 1000 & wait"] if start else None,
        ready=["sh", "-c", "test -e ${ARL_TANGRAM_DEVICE_FOLDERS%%:*}/up"] if start else None,
        sleep=SLEEP if sleep else None,
        wake=WAKE if sleep else None,
        call=[sys.executable, "-c", ANSWER],
    )
    return Case(
        driver=CommandDriver("reverse", settings, devices),
        devices=devices,
        request="abc",
        answer=lambda value: value["text"] == "cba",
        slow="slow",
        wrong="wrong",
        mib=8,
        holds_mib=4 if start else 0,
        keeps_copy=sleep,
    )


def torch() -> Case:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    devices = HostDevices(2, 8)
    settings = TorchSettings(
        module="torch_modules:tiny",
        arguments={"vocabulary": 50, "width": 16},
        path=(str(Path(__file__).parent / "modules"),),
        variables={"OMP_NUM_THREADS": "1"},
    )
    return Case(
        driver=TorchDriver("tiny", settings, devices),
        devices=devices,
        request={"method": "logprobs", "inputs": [[1, 2, 3], [4, 5]]},
        answer=lambda value: [2, 1] == [len(row) for row in value["outputs"]],
        slow={"method": "wait", "inputs": [1]},  # nothing ends it before its time
        wrong={"method": "nothing", "inputs": [[1]]},
        mib=8,
        holds_mib=1,
    )


CASES: dict[str, Callable[[], Case]] = {
    "vllm, level 1": openai,
    "vllm, level 2": lambda: openai(level=2),
    "sglang": lambda: openai(sleep="sglang"),
    "a server that cannot sleep": lambda: openai(sleep="none"),
    "sglang, slow to release": lambda: openai("--fault", "slow-release", sleep="sglang"),
    "programs": command,
    "programs that sleep": lambda: command(sleep=True),
    "a program for each call": lambda: command(start=False),
    "torch": torch,
}
SLOW_TO_RELEASE = {
    contract.an_instance_holds_its_devices_only_while_it_is_up,  # whoever evicts it waits for that
    contract.what_left_comes_back_under_another_name,  # as does whoever restores it
}


@pytest.mark.parametrize("check", contract.CHECKS, ids=contract.name)
@pytest.mark.parametrize("case", CASES)
def test_a_driver_keeps_the_contract(case, check):
    if "slow to release" in case and check in SLOW_TO_RELEASE:
        pytest.skip("its memory is free a little later")
    asyncio.run(contract.keep(check, CASES[case]()))


def test_a_vllm_server_that_gave_up_its_weights_loads_them_before_its_cache_is_made() -> None:
    async def check(case: Case) -> None:
        await case.driver.restore(case.seat("i1"))
        await case.driver.evict("i1")
        await case.driver.restore(case.seat("i2"))
        steps = ["/wake_up?tags=weights", "/collective_rpc", "/wake_up?tags=kv_cache"]

        assert ["/sleep?level=2", *steps] == (await case.ask("i2", {"path": "/asked"})).value

    asyncio.run(contract.keep(check, openai(level=2)))
