"""What is read from the machine, and how a part of its cores is chosen."""

from __future__ import annotations

import os

from arl_tangram.runtime.machine import cpu_list, this_machine


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
