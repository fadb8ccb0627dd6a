"""Restores on one node share what its host can send."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from arl_tangram.core.commands import RestoreService
from arl_tangram.core.model import InstanceId, NodeId
from arl_tangram.sim.restores import Host, Restore
from arl_tangram.sim.workload import ServedModel
from arl_tangram.testing.served import service

MODEL = ServedModel(service=service("teacher", 1, 2, 4), fixed_s=0.5, gigabytes=50.0)


def restore(name: str, devices: Sequence[int], *, now: float) -> Restore:
    command = RestoreService(MODEL.service, InstanceId(name), NodeId("g0"), tuple(devices))
    return Restore(command, MODEL, now=now)


def test_a_restore_alone_takes_its_weights_over_its_links() -> None:
    one, four = restore("a", [0], now=0.0), restore("b", [0, 1, 2, 3], now=3.0)

    assert [one] == Host(100.0).begin(one, now=0.0)
    assert [four] == Host(100.0).begin(four, now=3.0)

    assert [0.5 + 50 / 25, 3.0 + 0.5 + 50 / 100] == [one.ends_at(), four.ends_at()]


def test_restores_that_need_no_more_than_the_host_has_do_not_slow_each_other() -> None:
    host = Host(100.0)
    for i in range(3):
        host.begin(restore(str(i), [i], now=0.0), now=0.0)

    (*_, last) = host.begin(restore("3", [3], now=0.0), now=0.0)

    assert 2.5 == last.ends_at()


def test_restores_that_need_more_share_it_and_speed_up_when_one_ends() -> None:
    host = Host(100.0)
    wide, other = restore("a", range(4), now=0.0), restore("b", range(4, 8), now=0.0)
    host.begin(wide, now=0.0)

    both = host.begin(other, now=0.0)
    assert [1.5, 1.5] == [each.ends_at() for each in both]

    (left,) = host.end(wide, now=1.0)
    assert other is left
    # Half a second at half the speed has moved 25 of 50 GB; the rest goes at full speed.
    assert 1.25 == pytest.approx(other.ends_at())


def test_an_end_foreseen_before_another_began_is_void() -> None:
    host = Host(50.0)
    first = restore("a", [0, 1], now=0.0)
    host.begin(first, now=0.0)
    version = first.version

    host.begin(restore("b", [2, 3], now=0.1), now=0.1)

    assert first.version > version
