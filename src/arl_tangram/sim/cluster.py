"""The nodes that a simulation runs on, from a short text such as `15x256`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..core.model import CPU, MEMORY, MILLI, Node, NodeId
from ..errors import ConfigError

DEFAULT_MEMORY_MIB = 2_400_000_000_000 // 2**20
"""Memory of a node if nothing else is said: 2.4 TB."""

DEFAULT_GPU_NODE_MEMORY_MIB = 3_000_000_000_000 // 2**20
"""Memory of a node with GPUs: 3 TB."""
DEFAULT_GPU_MIB = 80_000_000_000 // 2**20
"""Memory of one GPU: 80 GB."""


def cluster(spec: str, *, memory_mib: int = DEFAULT_MEMORY_MIB) -> tuple[Node, ...]:
    """Nodes from `COUNTxCORES`, `CORES` for a single node, or several of these joined by `+`.

    Raises:
        ConfigError: the text is none of these, or a number in it is 0.
    """
    return tuple(
        Node(id=NodeId(f"n{i}"), capacity={CPU: cores * MILLI, MEMORY: memory_mib})
        for i, cores in enumerate(_sizes(spec, option="nodes", example="15x256", unit="CORES"))
    )


def gpu_nodes(spec: str, *, memory_mib: int = DEFAULT_GPU_NODE_MEMORY_MIB) -> tuple[Node, ...]:
    """Nodes with GPUs from `COUNTxGPUS`, `GPUS` for one node, or several of these joined by `+`.

    Raises:
        ConfigError: the text is none of these, or a number in it is 0.
    """
    return tuple(
        Node(id=NodeId(f"g{i}"), capacity={MEMORY: memory_mib}, gpus=count, gpu_mib=DEFAULT_GPU_MIB)
        for i, count in enumerate(_sizes(spec, option="gpus", example="5x8", unit="GPUS"))
    )


def gpus_of(nodes: Sequence[Node]) -> int:
    """All GPUs of the cluster."""
    return sum(node.gpus for node in nodes)


def cores_of(nodes: Sequence[Node]) -> int:
    """All cores of the cluster."""
    return sum(node.capacity.get(CPU, 0) for node in nodes) // MILLI


def widest(nodes: Sequence[Node]) -> int:
    """The cores of the largest node: no action can run on more."""
    return max((node.capacity.get(CPU, 0) for node in nodes), default=0) // MILLI


def _sizes(spec: str, *, option: str, example: str, unit: str) -> list[int]:
    sizes: list[int] = []
    for part in spec.split("+"):
        match = re.fullmatch(r"(?:([1-9]\d{0,4})x)?([1-9]\d{0,5})", part.strip())
        if match is None:
            raise ConfigError(
                f"{option}={spec!r}: give COUNTx{unit} as in {example}, or {unit} for one node; "
                f"join different nodes with +"
            )
        sizes += [int(match[2])] * int(match[1] or 1)
    return sizes
