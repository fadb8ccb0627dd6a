"""Models served on virtual GPUs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.model import Degree, Seconds, Service
from ..core.speedup import Amdahl, Speedup
from .workload import ServedModel

MIB_PER_GB = 1e9 / 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelParameters:
    """What the parameter file of a workload says about the models it calls.

    Attributes:
        count: how many they are.
        static_instances: how many instances of each a static deployment has.
    """

    count: int
    static_instances: int
    weights_gb: float
    degrees: tuple[int, ...]
    speedup: Amdahl
    slots: int
    restore_fixed_s: Seconds
    link_gb_per_s: float

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> ModelParameters:
        """From a table of the file."""
        return cls(
            count=table["count"],
            static_instances=table["static_instances"],
            weights_gb=table["weights_gb"],
            degrees=tuple(table["degrees"]),
            speedup=Amdahl(serial=table["serial"]),
            slots=table["slots"],
            restore_fixed_s=table["restore_fixed_s"],
            link_gb_per_s=table["link_gb_per_s"],
        )

    def named(self, name: str) -> ServedModel:
        """One of them."""
        return served_model(
            name,
            degrees=self.degrees,
            speedup=self.speedup,
            weights_gb=self.weights_gb,
            slots=self.slots,
            fixed_s=self.restore_fixed_s,
            link_gb_per_s=self.link_gb_per_s,
            static_instances=self.static_instances,
        )


def served_model(
    name: str,
    *,
    degrees: Sequence[int],
    speedup: Speedup,
    weights_gb: float,
    slots: int = 1,
    fixed_s: Seconds = 0.3,
    link_gb_per_s: float = 25.0,
    static_instances: int = 1,
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
        static_instances: how many instances a static deployment has at most.
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
        static_instances=static_instances,
    )
