"""What is hard to end holds no device, and nobody, for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from arl_tangram.core.commands import RestoreService
from arl_tangram.core.events import Event, InstanceFailed
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
