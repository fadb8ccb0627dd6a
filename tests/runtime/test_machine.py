"""What is read from the machine, and how a part of its cores is chosen."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from arl_tangram.runtime.machine import cpu_list, memory_limits, quotas, this_machine


def test_only_the_cores_this_process_may_use_are_offered() -> None:
    before = os.sched_getaffinity(0)
    one = {min(before)}
    os.sched_setaffinity(0, one)
    try:
        machine = this_machine()
    finally:
        os.sched_setaffinity(0, before)

    assert tuple(one) == machine.cpus
    assert (tuple(one),) == machine.topology.domains
    assert machine.usable_milli <= 1000


def test_every_offered_core_is_in_exactly_one_domain() -> None:
    machine = this_machine()

    assert list(machine.cpus) == sorted(c for d in machine.topology.domains for c in d)
    assert machine.memory_mib > 0


def test_the_kernels_list_notation_is_understood() -> None:
    assert (0, 1, 2, 3, 8, 10, 11) == cpu_list("0-3,8,10-11\n")
    assert () == cpu_list("\n")


def test_the_tightest_quota_and_memory_limit_of_any_group_above_hold(tmp_path: Path) -> None:
    for name, quota, memory in (("v2", "150000 100000", "max"), ("v2/mine", "max 100000", "4096")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpu.max").write_text(f"{quota}\n")
        (tmp_path / name / "memory.max").write_text(f"{memory}\n")
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "v1" / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "v1" / "memory.limit_in_bytes").write_text("8192\n")
    v1 = tmp_path / "v1"
    groups = [
        ("", tmp_path / "v2" / "mine"),
        ("", tmp_path / "v2"),
        ("cpu", v1),
        ("memory", v1),
        ("cpu", tmp_path / "absent"),
        ("pids", v1),
    ]

    assert [1500] == quotas(groups)
    assert [4096, 8192] == memory_limits(groups)


def test_a_quota_below_the_cores_is_what_can_be_used() -> None:
    machine = this_machine()

    assert 500 == replace(machine, quota_milli=500).usable_milli
    assert len(machine.cpus) * 1000 == replace(machine, quota_milli=10**9).usable_milli
