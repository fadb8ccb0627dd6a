"""A PyTorch service that comes back from its copy in host memory, beside a plain copy of as many bytes."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import torch

from arl_tangram.executors.services.devices import HostDevices, NvmlDevices, devices_of
from arl_tangram.executors.services.port import Seat
from arl_tangram.executors.services.torch import TorchDriver, TorchSettings
from bench.measuring import Figures
from bench.serving import Ready, serve

MIB = 1024 * 1024
TENSORS, TENSOR_MIB = 16, 16
SIZE_MIB = TENSORS * TENSOR_MIB
LEAST = 5


def weights() -> torch.nn.Module:
    """A module that is all weights."""
    each = TENSOR_MIB * MIB // 4
    return torch.nn.ParameterList([torch.full((each,), 0.5) for _ in range(TENSORS)])


@contextmanager
def restores() -> Iterator[Ready]:
    """A worker with its weights in host memory; GPUs if there are any, else what stands in for one."""
    torch.set_num_threads(1)
    devices = devices_of(None, None) or HostDevices(1, SIZE_MIB + 1)
    path = str(Path(__file__).resolve().parents[2])
    settings = TorchSettings(module=f"{__package__}.restores:weights", path=(path,))
    driver = TorchDriver("weights", settings, devices)
    on_gpu = isinstance(devices, NvmlDevices)
    try:
        with asyncio.Runner() as runner:

            def restore(seconds: float, _: int) -> Figures:
                return _bandwidth(runner.run(_restores(driver, seconds)))

            yield Ready(
                {"restore": restore, "copy": _copy_to_gpu if on_gpu else _copy},
                {"torch": torch.__version__, "device": devices.model},
            )
            runner.run(driver.close())
    finally:
        devices.close()


async def _restores(driver: TorchDriver, seconds: float) -> list[float]:
    took: list[float] = []
    end = time.perf_counter() + seconds
    for number in count():
        seat = Seat(instance=f"i{number}-{end}", devices=(0,))
        begin = time.perf_counter()
        await driver.restore(seat)
        if number:  # the first also starts the worker
            took.append(time.perf_counter() - begin)
        await driver.evict(seat.instance)
        if len(took) >= LEAST and time.perf_counter() > end:
            return took
    raise AssertionError("there is no end to numbers")


def _copy(seconds: float, _: int) -> Figures:
    """To memory that is new, as a restore's is."""
    source = torch.full((SIZE_MIB * MIB // 4,), 0.5)
    return _bandwidth(_repeat(source.clone, seconds))


def _copy_to_gpu(seconds: float, _: int) -> Figures:
    source = torch.full((SIZE_MIB * MIB // 4,), 0.5).pin_memory()
    target = torch.empty_like(source, device="cuda")

    def copy() -> None:
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()

    return _bandwidth(_repeat(copy, seconds))


def _repeat(copy: Callable[[], object], seconds: float) -> list[float]:
    took: list[float] = []
    end = time.perf_counter() + seconds
    while len(took) < LEAST or time.perf_counter() < end:
        begin = time.perf_counter()
        copied = copy()
        took.append(time.perf_counter() - begin)
        del copied
    return took


def _bandwidth(took: list[float]) -> Figures:
    return {"gib_per_s": SIZE_MIB / 1024 / statistics.median(took), "count": len(took)}


if __name__ == "__main__":
    serve(restores)
