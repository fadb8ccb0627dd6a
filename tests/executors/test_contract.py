import asyncio

import pytest

from arl_tangram.executors import shell
from arl_tangram.executors.local import LocalHost
from arl_tangram.testing import executor_contract as contract
from arl_tangram.testing.scripted_host import ScriptedHost

REAL = (*contract.CHECKS, *contract.PROCESS_CHECKS)


@pytest.mark.parametrize("check", contract.CHECKS, ids=contract.name)
def test_the_scripted_host_keeps_the_contract(check):
    asyncio.run(contract.keep(check, ScriptedHost()))


@pytest.mark.parametrize("check", REAL, ids=contract.name)
def test_this_machine_keeps_the_contract(check, state):
    asyncio.run(contract.keep(check, LocalHost(state)))


@pytest.mark.parametrize(
    "check", [check for check in REAL if check.__name__.startswith("a_shell_")], ids=contract.name
)
def test_a_shell_keeps_the_contract_where_there_is_no_bash(check, state, monkeypatch):
    if check is contract.a_shell_survives_a_timeout_with_its_state:
        pytest.skip("bash: no other shell can be told to drop a command")
    monkeypatch.setattr(shell, "SHELLS", (b"/bin/sh",))
    asyncio.run(contract.keep(check, LocalHost(state)))


@pytest.mark.parametrize("check", REAL, ids=contract.name)
def test_this_machine_keeps_the_contract_without_limits_and_walls(check, state):
    host = LocalHost(state, enforcement="rlimits", isolation="process-group")
    asyncio.run(contract.keep(check, host))
