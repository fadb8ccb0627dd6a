"""GPUs as NVML tells of them: which may be used, what is free on them, and what if one is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arl_tangram.core.commands import EvictService, RestoreService
from arl_tangram.core.events import Event, InstanceFailed, ServiceEvicted, ServiceRestored
from arl_tangram.core.model import Degree, InstanceId, NodeId, Service
from arl_tangram.errors import Unavailable
from arl_tangram.executors.services.devices import NvmlDevices
from arl_tangram.runtime import services
from arl_tangram.runtime.clock import MonotonicClock
from arl_tangram.testing.nvml import FakeNvml, Gpu


def test_the_fake_has_no_function_that_nvml_lacks() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

    names = {name for name in dir(FakeNvml) if name.startswith("nvml")} | {"NVMLError"}
    assert names <= set(dir(pynvml))


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [(None, ["0", "1", "2"]), ("2,0", ["0", "2"]), ("GPU-b", ["1"]), ("", [])],
)
def test_only_gpus_that_this_process_may_use_count(
    visible: str | None, numbers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    gpus = [Gpu("GPU-a"), Gpu("GPU-b", mib=512), Gpu("GPU-c")]

    devices = NvmlDevices(FakeNvml(gpus))

    assert len(numbers) == devices.count
    named = devices.variables(range(devices.count), "judge")
    assert ",".join(numbers) == named["CUDA_VISIBLE_DEVICES"]
    assert ",".join(map(str, range(devices.count))) == named["ARL_TANGRAM_DEVICES"]
    assert "PCI_BUS_ID" == named["CUDA_DEVICE_ORDER"]


def test_all_have_the_memory_of_the_smallest_and_a_model_if_it_is_one() -> None:
    nvml = FakeNvml([Gpu("GPU-a", used_mib=300), Gpu("GPU-b", mib=512)])
    devices = NvmlDevices(nvml)

    assert (512, "Test GPU") == (devices.mib, devices.model)
    assert [724, 512] == [devices.free_mib(0), devices.free_mib(1)]
    nvml.gpus[1].name = "Another"
    assert "" == NvmlDevices(nvml).model
    assert 1 == NvmlDevices(nvml, 1).count
    devices.close()
    assert nvml.is_shut_down


def test_a_gpu_that_cannot_be_read_is_named() -> None:
    nvml = FakeNvml([Gpu("GPU-a"), Gpu("GPU-b")])
    devices = NvmlDevices(nvml)
    nvml.gpus[1].lost = True

    with pytest.raises(Unavailable, match="GPU 1 cannot be read: GPU is lost"):
        devices.free_mib(1)


class OnGpus:
    """A driver whose instances hold memory of the GPUs they are on."""

    movable = True

    def __init__(self, nvml: FakeNvml) -> None:
        self.nvml = nvml

    def warm(self, seat: Any) -> bool:
        return False

    async def restore(self, seat: Any) -> None:
        for device in seat.devices:
            self.nvml.gpus[device].used_mib += seat.device_mib

    async def evict(self, instance: str) -> None:
        self.nvml.gpus[0].used_mib = 0

    async def end(self, instance: str) -> None:
        self.nvml.gpus[0].used_mib = 0

    async def died(self, instance: str) -> str:
        return await asyncio.Future()

    async def close(self) -> None:
        pass


class Bench:
    """Services on one GPU, told what to do by hand."""

    def __init__(self, nvml: FakeNvml) -> None:
        self.told: asyncio.Queue[Event] = asyncio.Queue()
        driver: Any = OnGpus(nvml)
        degree = Degree(gpus=1, speedup=1.0, device_mib=600)
        self.service = Service(name="judge", degrees=(degree,))
        self.live = services.Services(
            NvmlDevices(nvml), clock=MonotonicClock(), feed=self.told.put_nowait
        )
        self.live.add(services.Deployment(service=self.service, driver=driver))

    async def restore(self, name: str) -> Event:
        command = RestoreService(
            service=self.service, instance=InstanceId(name), node=NodeId("n"), devices=(0,)
        )
        self.live.restore(command)
        return await self.next()

    async def next(self) -> Event:
        return await asyncio.wait_for(self.told.get(), 30)


def on_one_gpu(body: Callable[[Bench, Gpu], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "FREE_S", 0.05)

    async def main() -> None:
        nvml = FakeNvml([Gpu("GPU-a")])
        bench = Bench(nvml)
        await body(bench, nvml.gpus[0])
        await bench.live.close()

    asyncio.run(main())


def test_nothing_is_restored_while_others_hold_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(bench: Bench, gpu: Gpu) -> None:
        gpu.used_mib = 500
        failed = await bench.restore("i1")
        assert isinstance(failed, InstanceFailed)
        assert "device 0 has 524 MiB free and 600 are needed" in failed.reason

        gpu.used_mib = 0
        assert isinstance(await bench.restore("i2"), ServiceRestored)

    on_one_gpu(body, monkeypatch)


def test_a_restore_on_a_gpu_that_is_lost_fails_with_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(bench: Bench, gpu: Gpu) -> None:
        gpu.lost = True

        failed = await bench.restore("i1")

        assert isinstance(failed, InstanceFailed)
        assert "GPU 0 cannot be read: GPU is lost" == failed.reason

    on_one_gpu(body, monkeypatch)


def test_an_instance_whose_gpu_is_lost_can_still_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(bench: Bench, gpu: Gpu) -> None:
        assert isinstance(await bench.restore("i1"), ServiceRestored)
        gpu.lost = True

        bench.live.evict(EvictService("judge", InstanceId("i1"), NodeId("n")))

        assert isinstance(await bench.next(), ServiceEvicted)

    on_one_gpu(body, monkeypatch)
