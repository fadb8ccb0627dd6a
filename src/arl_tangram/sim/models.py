"""Models served on virtual GPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..core.model import Degree, Seconds, Service
from ..core.speedup import Speedup
from .workload import ServedModel

MIB_PER_GB = 1e9 / 2**20


def served_model(
    name: str,
    *,
    degrees: Sequence[int],
    speedup: Speedup,
    weights_gb: float,
    slots: int = 1,
    fixed_s: Seconds = 0.3,
    link_gb_per_s: float = 25.0,
) -> ServedModel:
    """A model of this size, spread evenly over the devices of an instance.

    Args:
        name: of the service.
        degrees: how many devices an instance may have; each 1, 2, 4 or 8.
        speedup: how much faster it answers on so many.
        weights_gb: what it takes on its devices, all together, and on a host.
        slots: calls that an instance takes at once.
        fixed_s: the part of a restore that takes as long whatever is moved.
        link_gb_per_s: how fast weights go to one device.
    """
    mib = weights_gb * MIB_PER_GB
    return ServedModel(
        service=Service(
            name=name,
            degrees=tuple(
                Degree(
                    gpus=gpus,
                    speedup=speedup.at(gpus),
                    device_mib=math.ceil(mib / gpus),
                    restore_s=fixed_s + weights_gb / (gpus * link_gb_per_s),
                )
                for gpus in degrees
            ),
            host_mib=math.ceil(mib),
            slots=slots,
        ),
        fixed_s=fixed_s,
        gigabytes=weights_gb,
        link_gb_per_s=link_gb_per_s,
    )
