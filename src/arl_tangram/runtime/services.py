"""The instances of services on this machine: brought up, asked, watched, and taken off their devices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..core.commands import EvictService, RestoreService
from ..core.events import Event, InstanceFailed, ServiceEvicted, ServiceRestored
from ..core.model import InstanceId, Lease, Outcome, Seconds, Service
from ..errors import Unavailable
from ..executors.services.devices import Devices
from ..executors.services.port import Said, Seat, ServiceDriver
from .call import Reply
from .clock import Clock

log = logging.getLogger(__name__)
V = TypeVar("V")

FREE_S = 10.0
"""How long memory may take to be free after a service said that it left."""
END_S = 30.0
"""How long it may take to end what does not do as it is told."""
TOLD_S = 60.0
"""How long a lost call is kept for the kernel to know of its instance's end first."""
LAST_WORDS_S = 0.5
"""How much later than the last connection the end of a process may be known."""
_IN_DOUBT = frozenset({Outcome.LOST, Outcome.TIMED_OUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A service with what runs it, and how patient to be with that.

    Attributes:
        start_s: to be ready from nothing.
        wake_s: to be ready from its copy, or to leave its devices.
        call_s: to answer a call that has no limit of its own.
        asleep_mib: what it may keep of a device while it sleeps.
    """

    service: Service
    driver: ServiceDriver
    start_s: Seconds = 600.0
    wake_s: Seconds = 120.0
    call_s: Seconds = 600.0
    asleep_mib: int = 0


@dataclass(slots=True, eq=False)
class _Live:
    """An instance that is up, or on its way.

    Attributes:
        coming: brings it up; has what went wrong, which is empty if nothing did.
        gone: has the reason when it answers no more.
        told: set when the kernel knows that, too.
    """

    seat: Seat
    deployment: Deployment
    free_before: dict[int, int]
    gone: asyncio.Future[str]
    told: asyncio.Event = field(default_factory=asyncio.Event)
    coming: asyncio.Task[str] | None = None
    watch: asyncio.Task[None] | None = None


class Services:
    """Carries out what the kernel says about instances, and tells it what became of that."""

    def __init__(self, devices: Devices, *, clock: Clock, feed: Callable[[Event], None]) -> None:
        self._devices = devices
        self._now = clock.now
        self._feed = feed
        self._deployments: dict[str, Deployment] = {}
        self._live: dict[InstanceId, _Live] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = False
        self._ending: asyncio.Task[None] | None = None

    def add(self, deployment: Deployment) -> None:
        """A service that the kernel will be told of."""
        self._deployments[deployment.service.name] = deployment

    # -- what the kernel asks -------------------------------------------------------

    def restore(self, command: RestoreService) -> None:
        _ = self._begin(self._restore(command))

    def evict(self, command: EvictService) -> None:
        _ = self._begin(self._evict(command))

    async def call(
        self, lease: Lease, service: str, request: Any, *, timeout_s: Seconds | None
    ) -> Reply[Any]:
        """Ask the instance of a lease; it ends as lost if that ends before it answers."""
        live = None if lease.instance is None else self._live.get(lease.instance)
        if live is None:
            return Reply(Outcome.LOST, None, f"the instance of {service} was gone")
        limit_s = live.deployment.call_s if timeout_s is None else timeout_s
        asking = asyncio.ensure_future(self._ask(live, request, limit_s))
        try:
            either: set[asyncio.Future[Any]] = {asking, live.gone}
            await asyncio.wait(either, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            said: Said | None = None
            if asking.done() and not live.gone.done():
                said = asking.result()
            elif not live.gone.done():
                late = f"no full reply within {limit_s:g} s"
                said = Said(outcome=Outcome.TIMED_OUT, reason=late)
            # Now, for a call that is given up may take its instance along, which was well until then.
            well = said is not None and (not _in_doubt(said) or await self._is_well(live))
        finally:
            asking.cancel()
            await asyncio.wait({asking})  # until then it takes up its place
        if said is not None and well:
            if _in_doubt(said) and live.gone.done():
                await _until_told(live)
            return Reply(said.outcome, said.value, said.reason, said.retry_after_s)
        if not live.gone.done():
            what = "its time limit passed" if said is None else said.reason
            _ = self._begin(self._put_down(live, f"{what}, and it shows no sign of life"))
        reason = await live.gone
        await _until_told(live)
        return Reply(Outcome.LOST, None, f"an instance of {service} failed: {reason}")

    async def _is_well(self, live: _Live) -> bool:
        """Whether an instance that gave no good answer still lives; its end is waited for a little."""
        if live.gone.done():
            return False
        try:
            well = await live.deployment.driver.answers(live.seat.instance)
        except Unavailable:
            well = False
        if not well:
            await asyncio.wait({live.gone}, timeout=LAST_WORDS_S)
        return well

    def hurry(self) -> None:
        """Nobody calls any more: end what a cancelled call would wait for otherwise."""
        self._closing = True
        self._ending = asyncio.get_running_loop().create_task(self._close_drivers())

    async def close(self) -> None:
        """End every instance and every copy."""
        self._closing = True
        for task in list(self._tasks):
            if not task.cancelling():  # else what it tidies up would be broken off
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._ending is not None:
            await self._ending
        await self._close_drivers()  # also of what came up in the meantime
        self._devices.close()

    async def _close_drivers(self) -> None:
        every = self._deployments.items()
        await asyncio.gather(*(self._by_force(d.driver.close(), name) for name, d in every))

    # -- up ---------------------------------------------------------------------------

    async def _restore(self, command: RestoreService) -> None:
        deployment = self._deployments[command.service.name]
        width = len(command.devices)
        degree = next(d for d in command.service.degrees if d.gpus == width)
        seat = Seat(
            instance=command.instance, devices=command.devices, device_mib=degree.device_mib
        )
        live = _Live(
            seat=seat,
            deployment=deployment,
            free_before={},
            gone=asyncio.get_running_loop().create_future(),
        )
        self._live[command.instance] = live
        coming = live.coming = self._begin(self._come_up(live))
        await asyncio.wait({coming})
        if live.gone.done():
            return  # it was given up
        if trouble := coming.result():
            await self._put_down(live, trouble)
            return
        live.watch = self._begin(self._watch(live))
        self._tell(ServiceRestored(at=self._now(), instance=command.instance))

    async def _come_up(self, live: _Live) -> str:
        """Bring it up; what went wrong, which is empty if nothing did."""
        seat, deployment = live.seat, live.deployment
        limit_s = deployment.wake_s if deployment.driver.warm(seat) else deployment.start_s
        try:
            await self._have_room(seat, least=seat.device_mib)
            live.free_before = {d: self._devices.free_mib(d) for d in seat.devices}
            async with asyncio.timeout(limit_s):
                await deployment.driver.restore(seat)
        except TimeoutError:
            return f"it was not ready within {limit_s:g} s"
        except Unavailable as error:
            return str(error)
        except Exception as error:
            log.exception("could not restore %s", seat.instance, extra={"action": "restore"})
            return repr(error)
        return ""

    async def _watch(self, live: _Live) -> None:
        """Tell when an instance dies by itself."""
        reason = await live.deployment.driver.died(live.seat.instance)
        if self._leave(live, reason):
            await self._fail(live, reason)

    # -- down -------------------------------------------------------------------------

    async def _evict(self, command: EvictService) -> None:
        driver = self._deployments[command.service].driver
        if (live := self._live.get(command.instance)) is not None:
            if not self._leave(live, "it was evicted"):
                return
            if live.coming is not None and not live.coming.done():
                live.coming.cancel()
                await asyncio.wait({live.coming})
                await self._clear(live)
            elif (trouble := await self._take_off(live)) is not None:
                await self._fail(live, trouble)
                return
            del self._live[command.instance]
            live.told.set()
        if command.forget:
            await self._by_force(driver.forget(command.instance), command.instance)
        self._tell(ServiceEvicted(at=self._now(), instance=command.instance))

    async def _take_off(self, live: _Live) -> str | None:
        """Let an instance leave its devices; what went wrong, if anything did."""
        deployment, seat = live.deployment, live.seat
        try:
            async with asyncio.timeout(deployment.wake_s):
                await deployment.driver.evict(seat.instance)
        except TimeoutError:
            return f"it did not leave its devices within {deployment.wake_s:g} s"
        except Unavailable as error:
            return f"it could not leave its devices: {error}"
        except Exception as error:
            log.exception("could not evict %s", seat.instance, extra={"action": "evict"})
            return repr(error)
        held = await self._still_held(live, FREE_S)
        if held:
            return f"it said that it left its devices, and {held}"
        return None

    async def _put_down(self, live: _Live, reason: str) -> None:
        """End an instance that does not answer any more."""
        if self._leave(live, reason):
            await self._fail(live, reason)

    def _leave(self, live: _Live, reason: str) -> bool:
        """It takes no more calls, and those it has are lost; False if that was so already."""
        if live.gone.done():
            return False
        live.gone.set_result(reason)
        if live.watch is not None and live.watch is not asyncio.current_task():
            live.watch.cancel()
        return True

    async def _fail(self, live: _Live, reason: str) -> None:
        """End it by force, wait for its devices to be free, and tell."""
        instance = live.seat.instance
        if not self._closing:
            log.warning("%s failed: %s", instance, reason, extra={"action": "instance_failed"})
        await self._clear(live)
        self._live.pop(InstanceId(instance), None)
        self._tell(InstanceFailed(at=self._now(), instance=InstanceId(instance), reason=reason))
        live.told.set()

    async def _clear(self, live: _Live) -> None:
        """End it by force, and wait for its devices to be free."""
        seat = live.seat
        await self._by_force(live.deployment.driver.end(seat.instance), seat.instance)
        pause_s = FREE_S
        while held := await self._still_held(live, pause_s):
            # Whoever came next would fail for it, so nobody does.
            log.error("%s is gone, and %s", seat.instance, held, extra={"action": "memory_held"})
            pause_s = min(pause_s * 2, 120.0)
            # Its end may have been given up before it was through, and may be known only now.
            await self._by_force(live.deployment.driver.end(seat.instance), seat.instance)

    async def _by_force(self, ending: Coroutine[Any, Any, None], instance: str) -> None:
        try:
            async with asyncio.timeout(END_S):
                await ending
        except Exception:
            log.exception("could not end %s", instance, extra={"action": "end"})

    # -- their memory -------------------------------------------------------------------

    async def _have_room(self, seat: Seat, *, least: int) -> None:
        """Wait a little for memory that is still being given back. Raises `Unavailable`."""
        short = await self._short(seat.devices, dict.fromkeys(seat.devices, least), FREE_S)
        if short is not None:
            device, free = short
            raise Unavailable(
                f"device {device} has {free} MiB free and {least} are needed;"
                " something else holds its memory"
            )

    async def _still_held(self, live: _Live, wait_s: Seconds) -> str:
        """What it still holds of its devices after a while; empty if nothing."""
        least = {d: mib - live.deployment.asleep_mib for d, mib in live.free_before.items()}
        try:
            short = await self._short(list(least), least, wait_s)
        except Unavailable:  # whoever comes next will be told so
            return ""
        if short is None:
            return ""
        device, free = short
        return f"{live.free_before[device] - free} MiB of device {device} are still held"

    async def _short(
        self, devices: Sequence[int], least: dict[int, int], wait_s: Seconds
    ) -> tuple[int, int] | None:
        """A device with less free memory than this after a while, and how much it has."""
        pause_s, waited_s = 0.002, 0.0
        while True:
            free = {device: self._devices.free_mib(device) for device in devices}
            short = next(((d, mib) for d, mib in free.items() if mib < least[d]), None)
            if short is None or waited_s >= wait_s:
                return short
            await asyncio.sleep(pause_s)
            waited_s += pause_s
            pause_s = min(pause_s * 2, 0.25)

    # -- its tasks ----------------------------------------------------------------------

    async def _ask(self, live: _Live, request: Any, limit_s: Seconds) -> Said:
        try:
            return await live.deployment.driver.call(live.seat.instance, request, timeout_s=limit_s)
        except Unavailable as error:
            return Said(outcome=Outcome.LOST, reason=str(error))

    def _tell(self, event: Event) -> None:
        if not self._closing:
            self._feed(event)

    def _begin(self, work: Coroutine[Any, Any, V]) -> asyncio.Task[V]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a service broke", exc_info=error, extra={"action": "service_broke"})


def _in_doubt(said: Said) -> bool:
    """Whether it may be that nobody lives there any more; who asks for a pause does."""
    return said.outcome in _IN_DOUBT and said.retry_after_s is None


async def _until_told(live: _Live) -> None:
    """Another attempt before the kernel knows of an instance's end would go to the same instance."""
    try:
        async with asyncio.timeout(TOLD_S):
            await live.told.wait()
    except TimeoutError:
        pass
