"""Where copies of a module's weights go: GPUs, or files in memory that stand for them."""

from __future__ import annotations

import copy
import ctypes
import os
from pathlib import Path
from typing import Any, Protocol

from .guard import DEVICE_FOLDERS

_ALIGNED = 64


class Place(Protocol):
    """One device."""

    def prepare(self, module: Any) -> None:
        """Let its host memory be what copies fastest from there."""

    def copy(self, module: Any, instance: str) -> Any:
        """The module with its weights on this device."""

    def clear(self, instance: str) -> None:
        """Give back what an instance had, once nobody refers to it."""


def places(torch: Any) -> list[Place]:
    """The devices of this process, in order."""
    if folders := os.environ.get(DEVICE_FOLDERS):
        return [HostPlace(torch, Path(folder)) for folder in folders.split(os.pathsep)]
    return [GpuPlace(torch, i) for i in range(torch.cuda.device_count())]


class GpuPlace:
    """A GPU."""

    def __init__(self, torch: Any, number: int) -> None:
        self._torch = torch
        self.device = torch.device("cuda", number)

    def prepare(self, module: Any) -> None:
        for tensor in _tensors(module):
            tensor.data = tensor.data.pin_memory()

    def copy(self, module: Any, instance: str) -> Any:
        memo = {
            id(t): _like(self._torch, t, t.data.to(self.device, non_blocking=True))
            for t in _tensors(module)
        }
        made = copy.deepcopy(module, memo)
        self._torch.cuda.synchronize(self.device)
        return made

    def clear(self, instance: str) -> None:
        with self._torch.cuda.device(self.device):
            self._torch.cuda.empty_cache()


class HostPlace:
    """Host memory in the place of a GPU: one file in memory for each instance."""

    def __init__(self, torch: Any, folder: Path) -> None:
        self._torch = torch
        self._folder = folder
        self.device = torch.device("cpu")

    def prepare(self, module: Any) -> None:
        """It is host memory already."""

    def copy(self, module: Any, instance: str) -> Any:
        torch = self._torch
        found = {id(t): t for t in _tensors(module)}
        sizes = {key: t.numel() * t.element_size() for key, t in found.items()}
        total = sum(-(-size // _ALIGNED) * _ALIGNED for size in sizes.values()) or _ALIGNED
        starts: dict[int, int] = {}
        path = self._folder / instance
        # Written, the pages are new and filled at once; memory that is only mapped is zeroed before.
        with path.open("wb", buffering=0) as file:
            at = 0
            for key, tensor in found.items():
                starts[key] = at
                _write(file.fileno(), tensor.data.contiguous(), at)
                at += -(-sizes[key] // _ALIGNED) * _ALIGNED
            file.truncate(total)
        memory = torch.from_file(str(path), shared=True, size=total, dtype=torch.uint8)
        memo: dict[int, Any] = {}
        for key, tensor in found.items():
            piece = memory[starts[key] : starts[key] + sizes[key]]
            memo[key] = _like(torch, tensor, piece.view(tensor.dtype).view(tensor.shape))
        return copy.deepcopy(module, memo)

    def clear(self, instance: str) -> None:
        (self._folder / instance).unlink(missing_ok=True)


def _write(file: int, tensor: Any, at: int) -> None:
    """Put the bytes of a tensor in host memory into a file."""
    size = tensor.numel() * tensor.element_size()
    content = memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())) if size else b""
    done = 0
    while done < size:
        done += os.pwrite(file, content[done:], at + done)


def _tensors(module: Any) -> list[Any]:
    return [*module.parameters(), *module.buffers()]


def _like(torch: Any, tensor: Any, data: Any) -> Any:
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(data, requires_grad=False)
    return data
