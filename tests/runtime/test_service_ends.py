"""What is hard to end holds no device, and nobody, for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from arl_tangram.core.commands import EvictService, RestoreService
from arl_tangram.core.events import Event, InstanceFailed, ServiceEvicted
from arl_tangram.core.model import Degree, InstanceId, NodeId, Service
from arl_tangram.errors import Unavailable
from arl_tangram.executors.services.devices import HostDevices
from arl_tangram.runtime import services
from arl_tangram.runtime.clock import MonotonicClock


class SlowToDie:
    """A driver whose instance holds memory, does not get up, and is ended at the second try only."""

    movable = True

    def __init__(self, devices: HostDevices) -> None:
        self.held = Path(devices.variables([0], "slow")["ARL_TANGRAM_DEVICE_FOLDERS"]) / "held"
        self.ends = 0

    def warm(self, seat: Any) -> bool:
        return False

    async def restore(self, seat: Any) -> None:
        self.held.write_bytes(b"x" * (2 << 20))
        raise Unavailable("it does not get up")

    async def end(self, instance: str) -> None:
        self.ends += 1
        if self.ends == 1:
            await asyncio.sleep(3600)
        self.held.unlink()

    async def close(self) -> None:
        await asyncio.sleep(3600)


class Stuck(SlowToDie):
    """A driver whose instance never gets up."""

    async def restore(self, seat: Any) -> None:
        self.held.write_bytes(b"x" * (2 << 20))
        await asyncio.sleep(3600)

    async def forget(self, instance: str) -> None:
        pass

    async def close(self) -> None:
        pass


def test_a_start_that_is_given_up_is_ended_before_anybody_hears_of_it(monkeypatch) -> None:
    monkeypatch.setattr(services, "END_S", 0.05)
    monkeypatch.setattr(services, "FREE_S", 0.05)

    async def main() -> None:
        devices = HostDevices(1, 8)
        told: asyncio.Queue[Event] = asyncio.Queue()
        driver: Any = Stuck(devices)
        service = Service(name="stuck", degrees=(Degree(gpus=1, speedup=1.0),))
        live = services.Services(devices, clock=MonotonicClock(), feed=told.put_nowait)
        live.add(services.Deployment(service=service, driver=driver))
        instance, node = InstanceId("i1"), NodeId("n")
        live.restore(
            RestoreService(service=service, instance=instance, node=node, devices=(0,), cold=True)
        )
        async with asyncio.timeout(30):
            while not driver.held.exists():  # noqa: ASYNC110  # the driver makes it
                await asyncio.sleep(0.01)
            live.evict(EvictService("stuck", instance, node, forget=True))
            live.evict(EvictService("stuck", instance, node, forget=True))  # nothing more to do
            event = await told.get()
        assert isinstance(event, ServiceEvicted)
        assert (2, 8) == (driver.ends, devices.free_mib(0))
        await asyncio.wait_for(live.close(), 30)
        assert told.empty()

    asyncio.run(main())


def test_an_end_that_took_too_long_is_tried_again_and_a_close_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr(services, "END_S", 0.05)
    monkeypatch.setattr(services, "FREE_S", 0.05)

    async def main() -> None:
        devices = HostDevices(1, 8)
        told: asyncio.Queue[Event] = asyncio.Queue()
        driver: Any = SlowToDie(devices)
        service = Service(name="slow", degrees=(Degree(gpus=1, speedup=1.0),))
        live = services.Services(devices, clock=MonotonicClock(), feed=told.put_nowait)
        live.add(services.Deployment(service=service, driver=driver))
        live.restore(
            RestoreService(
                service=service, instance=InstanceId("i1"), node=NodeId("n"), devices=(0,)
            )
        )
        event = await asyncio.wait_for(told.get(), 30)
        await asyncio.wait_for(live.close(), 30)
        assert not devices.folder.exists()
        assert isinstance(event, InstanceFailed)
        assert ("it does not get up", 2) == (event.reason, driver.ends)

    asyncio.run(main())
