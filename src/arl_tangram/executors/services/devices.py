"""The devices of this machine: how many there are, and how much memory of each is free."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...errors import ConfigError, Unavailable
from ..owner import is_stray, new_name
from .guard import DEVICE_FOLDERS

MIB = 1024 * 1024
DEVICES = "ARL_TANGRAM_DEVICES"
"""The variable with the numbers of the devices a process was given."""


class Devices(Protocol):
    """What a node's devices are.

    Attributes:
        count: how many, numbered from 0.
        mib: memory of each.
        model: what they are called.
    """

    count: int
    mib: int
    model: str

    def free_mib(self, device: int) -> int:
        """Memory of a device that nobody holds now, as the device itself says."""

    def variables(self, devices: Sequence[int], owner: str) -> Mapping[str, str]:
        """What tells a process of `owner` which devices it may use."""

    def left(self, owner: str) -> None:
        """The process of `owner` has ended, and its memory goes with it."""

    def close(self) -> None:
        """Let go of them."""


class HostDevices:
    """Stand-ins: each device is a bounded amount of host memory, as files in a folder in memory.

    A process puts what would be in device memory into files in the folders it is given, so that
    anybody can see what is held. For machines without GPUs; nothing is faster for it. Where there is
    no room for that, the files are where others are.
    """

    def __init__(self, count: int, mib: int) -> None:
        self.count = count
        self.mib = mib
        self.model = "host memory"
        parent = Path("/dev/shm")  # noqa: S108  # memory, as devices have
        # A container often has 64 MiB there, and files on a disk are cached in memory, too.
        if not os.access(parent, os.W_OK) or shutil.disk_usage(parent).free < count * mib * MIB:
            parent = Path(tempfile.gettempdir())
        prefix = "arl-tangram-devices-"
        for place in {Path("/dev/shm"), Path(tempfile.gettempdir())}:  # noqa: S108
            for old in place.glob(f"{prefix}*"):
                if is_stray(old.name.removeprefix(prefix)):
                    shutil.rmtree(old, ignore_errors=True)
        self.folder = parent / f"{prefix}{new_name()}"
        self.folder.mkdir(mode=0o700)
        for device in range(count):
            (self.folder / str(device)).mkdir()

    def free_mib(self, device: int) -> int:
        used = 0
        for folder, _, names in os.walk(self.folder / str(device)):
            for name in names:
                try:
                    used += os.stat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH116, PTH118
                except FileNotFoundError:
                    continue
        return self.mib - -(-used // MIB)

    def variables(self, devices: Sequence[int], owner: str) -> Mapping[str, str]:
        folders = [self.folder / str(device) / owner for device in devices]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        return {
            DEVICES: ",".join(map(str, devices)),
            DEVICE_FOLDERS: os.pathsep.join(map(str, folders)),
            "CUDA_VISIBLE_DEVICES": "",
        }

    def left(self, owner: str) -> None:
        for device in range(self.count):
            shutil.rmtree(self.folder / str(device) / owner, ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class NvmlDevices:
    """The NVIDIA GPUs that this process may use, read through NVML (package `nvidia-ml-py`)."""

    def __init__(self, nvml: Any, most: int | None = None) -> None:
        self._nvml = nvml
        allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
        found: list[tuple[str, Any]] = []
        for i in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(i)
            names = {str(i), _text(nvml.nvmlDeviceGetUUID(handle))}
            if allowed is None or names & set(allowed.split(",")):
                found.append((str(i), handle))
        self._found = found[:most]
        self.count = len(self._found)
        sizes = [int(nvml.nvmlDeviceGetMemoryInfo(handle).total) for _, handle in self._found]
        self.mib = min(sizes, default=0) // MIB
        models = {_text(nvml.nvmlDeviceGetName(handle)) for _, handle in self._found}
        self.model = models.pop() if len(models) == 1 else ""

    def free_mib(self, device: int) -> int:
        number, handle = self._found[device]
        try:
            return int(self._nvml.nvmlDeviceGetMemoryInfo(handle).free) // MIB
        except self._nvml.NVMLError as error:
            raise Unavailable(f"GPU {number} cannot be read: {error}") from error

    def variables(self, devices: Sequence[int], owner: str) -> Mapping[str, str]:
        return {
            DEVICES: ",".join(map(str, devices)),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the numbers that NVML gives them
            "CUDA_VISIBLE_DEVICES": ",".join(self._found[device][0] for device in devices),
        }

    def left(self, owner: str) -> None:
        """The system takes a process's device memory back by itself."""

    def close(self) -> None:
        self._nvml.nvmlShutdown()


def devices_of(gpus: int | None, gpu_mib: int | None) -> Devices | None:
    """The devices to use: GPUs of this machine, or host memory in their place; None if there are none.

    Args:
        gpus: how many; all GPUs there are by default.
        gpu_mib: memory of each, which makes them stand-ins in host memory.

    Raises:
        ConfigError: there are fewer, or the number is none.
    """
    given: object = gpus
    if given is not None and (type(given) is not int or given < 0):
        raise ConfigError(f"gpus={gpus!r}: a whole number of devices, from 0")
    if gpu_mib is not None:
        if not gpus:
            raise ConfigError("gpu_memory= is for stand-ins in host memory: say how many, gpus=2")
        return HostDevices(gpus, gpu_mib)
    if gpus == 0:
        return None
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception as error:  # whatever is wrong with the GPUs here
        why = str(error) or type(error).__name__
        if isinstance(error, ImportError):
            why = "the package nvidia-ml-py is not installed"
        if gpus is None:
            return None
        raise ConfigError(
            f"gpus={gpus}: the GPUs of this machine cannot be seen ({why}); "
            'gpu_memory="1GiB" lets host memory stand in for them'
        ) from error
    try:
        found = NvmlDevices(nvml, gpus)
    except Exception as error:
        nvml.nvmlShutdown()
        raise Unavailable(f"the GPUs of this machine cannot be read: {error}") from error
    if found.count < (gpus or 0):
        found.close()
        raise ConfigError(f"gpus={gpus}: this machine has {found.count} for this process")
    if not found.count:
        found.close()
        return None
    return found


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
