from __future__ import annotations

import pytest

from arl_tangram.core.model import CpuTopology
from arl_tangram.demo.setting import Setting, setting_for
from arl_tangram.runtime.machine import Machine


def machine(cores: int, *, quota_milli: int | None = None) -> Machine:
    cpus = tuple(range(cores))
    return Machine(
        name="m",
        cpus=cpus,
        quota_milli=quota_milli,
        memory_mib=4096,
        topology=CpuTopology(domains=(cpus,)),
    )


@pytest.mark.parametrize(
    ("cores", "units", "unit_cores"),
    [(1, 12, 0.08), (2, 12, 0.16), (8, 12, 0.64), (12, 12, 1.0), (16, 15, 1.0), (64, 63, 1.0)],
)
def test_a_unit_is_a_core_where_there_are_enough_and_else_a_part_of_one(
    cores: int, units: int, unit_cores: float
) -> None:
    setting = setting_for(machine(cores))

    assert (units, pytest.approx(unit_cores)) == (setting.units, setting.unit_cores)


def test_a_quota_of_the_machine_is_respected() -> None:
    setting = setting_for(machine(64, quota_milli=2000))

    assert 2.0 >= setting.units * setting.unit_cores


@pytest.mark.parametrize("cores", [1, 2, 13, 50])
def test_static_wastes_no_unit(cores: int) -> None:
    setting = setting_for(machine(cores))

    assert setting.units == 3 * setting.containers


def test_a_unit_that_is_no_core_is_told() -> None:
    assert "a unit is a quota of 0.16 of a core" in str(Setting(units=12, unit_cores=0.16))
    assert "15 units of one whole core" == str(Setting(units=15, unit_cores=1.0))
