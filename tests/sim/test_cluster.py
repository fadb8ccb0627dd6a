from __future__ import annotations

import pytest

from arl_tangram.core.model import CPU, MEMORY
from arl_tangram.errors import ConfigError
from arl_tangram.sim.cluster import cluster, cores_of, widest


def test_count_x_cores_is_so_many_nodes_of_so_many_cores() -> None:
    nodes = cluster("15x256")

    assert (15, 3840, 256) == (len(nodes), cores_of(nodes), widest(nodes))
    assert {CPU: 256_000, MEMORY: 2_288_818} == dict(nodes[14].capacity)


def test_a_number_alone_is_one_node() -> None:
    assert [8000] == [node.capacity[CPU] for node in cluster("8")]


def test_different_nodes_are_joined_by_plus() -> None:
    nodes = cluster("2x4+16", memory_mib=512)

    assert [4000, 4000, 16000] == [node.capacity[CPU] for node in nodes]
    assert ["n0", "n1", "n2"] == [node.id for node in nodes]
    assert 512 == nodes[0].capacity[MEMORY]


@pytest.mark.parametrize("spec", ["", "0", "3x0", "0x4", "x4", "4x", "-1", "4 cores", "2x4+"])
def test_anything_else_is_refused_with_what_would_be_right(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"nodes='.*': give COUNTxCORES"):
        cluster(spec)
