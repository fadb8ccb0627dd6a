"""Whether a machine's devices can ever serve what is declared."""

from __future__ import annotations

from collections.abc import Collection

from ..core.model import Service
from ..errors import ConfigError
from ..executors.services.devices import Devices


def check_fit(
    service: Service, others: Collection[Service], devices: Devices, *, host_mib: int
) -> None:
    """Raise `ConfigError` for a service that could never answer, or would keep another from it."""
    where = f"services.{service.name}"
    if service.gpu_model not in {"", devices.model}:
        raise ConfigError(
            f"{where}.gpu_model={service.gpu_model!r}: the devices here are {devices.model!r}; "
            "give that, or leave it out"
        )
    if service.host_mib > host_mib:
        raise ConfigError(
            f"{where}.host_memory: {service.host_mib} MiB, and this machine has {host_mib} MiB"
        )
    widths = [d.gpus for d in service.degrees if d.gpus <= devices.count]
    if not widths:
        raise ConfigError(
            f"{where}.degrees: the least is {service.degrees[0].gpus} devices, and "
            f"this machine has {devices.count}; add a smaller degree"
        )
    least = min(d.device_mib for d in service.degrees if d.gpus in widths)
    if least > devices.mib:
        raise ConfigError(
            f"{where}.memory: {least} MiB on each device, and one has "
            f"{devices.mib} MiB; spread it over more devices with a higher degree"
        )
    _check_pinned(service, devices)
    together = (*others, service)
    left = devices.count - sum(sum(each.pinned) for each in together)
    if left < 0:
        raise ConfigError(
            f"{where}.pinned: {sum(service.pinned)} devices for ever, and of this machine's "
            f"{devices.count} the other services own {sum(sum(each.pinned) for each in others)}"
        )
    for each in together:
        if not each.pinned and (needs := each.degrees[0].gpus) > left:
            raise ConfigError(
                f"{where}: pinned instances leave {left} of this machine's {devices.count} devices, "
                f"and services.{each.name} needs {needs}"
            )


def _check_pinned(service: Service, devices: Devices) -> None:
    for gpus in service.pinned:
        if gpus > devices.count:
            raise ConfigError(
                f"services.{service.name}.pinned: {gpus} devices, and this machine has "
                f"{devices.count}"
            )
        mib = next(degree.device_mib for degree in service.degrees if degree.gpus == gpus)
        if mib > devices.mib:
            raise ConfigError(
                f"services.{service.name}.memory: {mib} MiB on each of {gpus} devices, for which it "
                f"is pinned, and one has {devices.mib} MiB"
            )
