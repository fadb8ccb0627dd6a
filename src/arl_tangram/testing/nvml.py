"""The part of NVML (package `nvidia-ml-py`) that is used, for GPUs that do not exist."""

from __future__ import annotations

from dataclasses import dataclass, field

MIB = 1024 * 1024


class NVMLError(Exception):
    """What every call of NVML raises."""


@dataclass(slots=True, eq=False)
class Gpu:
    """A GPU, as a test wants it to be; also what NVML calls its handle and its memory."""

    uuid: str
    mib: int = 1024
    used_mib: int = 0
    name: str = "Test GPU"
    lost: bool = False

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.mib * MIB

    @property
    def free(self) -> int:
        """Bytes that nobody holds."""
        return (self.mib - self.used_mib) * MIB


@dataclass(slots=True, eq=False)
class FakeNvml:
    """Stands for the module `pynvml`; its functions have the names that they have there."""

    gpus: list[Gpu]
    is_shut_down: bool = False
    NVMLError: type[Exception] = field(default=NVMLError, init=False)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        """How many there are."""
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:  # noqa: N802
        """What the other functions take."""
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, handle: Gpu) -> str:  # noqa: N802
        """Its name for ever."""
        return handle.uuid

    def nvmlDeviceGetName(self, handle: Gpu) -> bytes:  # noqa: N802
        """Its model; bytes, as older versions have it."""
        return handle.name.encode()

    def nvmlDeviceGetMemoryInfo(self, handle: Gpu) -> Gpu:  # noqa: N802
        """Its memory now."""
        if handle.lost:
            raise NVMLError("GPU is lost")
        return handle

    def nvmlShutdown(self) -> None:  # noqa: N802
        """No more calls after this."""
        self.is_shut_down = True
