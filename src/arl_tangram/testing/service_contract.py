"""What every driver of services must do: checks to run against any `ServiceDriver`, on real processes.

```python
@pytest.mark.parametrize("check", service_contract.CHECKS, ids=service_contract.name)
def test_my_driver_keeps_the_contract(check):
    asyncio.run(service_contract.keep(check, my_case()))
```
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import psutil

from ..core.model import Outcome
from ..errors import Unavailable
from ..executors.services.devices import HostDevices
from ..executors.services.port import Said, Seat, ServiceDriver

Check = Callable[["Case"], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A driver with what can be asked of it.

    Attributes:
        driver: made for `devices`, of which there are two, each with room for one instance.
        mib: what an instance may hold on each of its devices.
        request: something it answers with `answer`.
        slow: something that takes it a second or more; None if there is no such thing.
        wrong: something it cannot answer.
        keeps_copy: whether what leaves its devices can come back from a copy.
        holds_mib: what it holds on a device at least; 0 if that cannot be seen.
    """

    driver: ServiceDriver
    devices: HostDevices
    request: Any
    answer: Callable[[Any], bool]
    mib: int = 0
    slow: Any = None
    wrong: Any = None
    keeps_copy: bool = True
    holds_mib: int = 0

    def seat(self, instance: str, *devices: int) -> Seat:
        return Seat(instance=instance, devices=devices or (0,), device_mib=self.mib)

    async def ask(self, instance: str, request: Any = None, *, timeout_s: float = 30.0) -> Said:
        asked = self.request if request is None else request
        return await self.driver.call(instance, asked, timeout_s=timeout_s)

    async def is_answered(self, instance: str) -> None:
        said = await self.ask(instance)
        assert Outcome.SUCCEEDED is said.outcome, said
        assert self.answer(said.value), said

    async def is_gone(self, instance: str) -> None:
        try:
            said = await self.ask(instance, timeout_s=5.0)
        except Unavailable:
            return
        raise AssertionError(f"{instance} answered {said}")


def name(check: Check) -> str:
    """A check's sentence."""
    return check.__name__.replace("_", " ")


async def keep(check: Check, case: Case) -> None:
    """Run one check and close the driver; raises `AssertionError` when the contract is broken."""
    before = set(psutil.Process().children(recursive=True))
    try:
        async with asyncio.timeout(60):
            await check(case)
    finally:
        await case.driver.close()
        held = [case.devices.mib - case.devices.free_mib(d) for d in range(case.devices.count)]
        case.devices.close()
    left = {p for p in psutil.Process().children(recursive=True) if p not in before}
    assert set() == left, "processes outlived the driver"
    assert [0] * case.devices.count == held, "memory outlived the driver"


async def an_instance_answers_as_soon_as_it_is_restored(case: Case) -> None:
    await case.driver.restore(case.seat("i1"))

    await case.is_answered("i1")


async def an_instance_holds_its_devices_only_while_it_is_up(case: Case) -> None:
    free = case.devices.free_mib(0)
    await case.driver.restore(case.seat("i1"))
    held = free - case.devices.free_mib(0)
    await case.driver.evict("i1")

    assert held >= case.holds_mib
    assert free == case.devices.free_mib(0)
    assert free == case.devices.free_mib(1)


async def what_left_comes_back_under_another_name(case: Case) -> None:
    await case.driver.restore(case.seat("i1"))
    await case.driver.evict("i1")
    assert case.keeps_copy == case.driver.warm(case.seat("i2"))
    await case.driver.restore(case.seat("i2"))

    await case.is_answered("i2")
    await case.is_gone("i1")


async def a_copy_that_is_forgotten_is_gone_with_its_process(case: Case) -> None:
    before = len(psutil.Process().children(recursive=True))
    await case.driver.restore(case.seat("i1"))
    await case.driver.evict("i1")
    await case.driver.forget("i1")

    assert not case.driver.warm(case.seat("i2"))
    assert before == len(psutil.Process().children(recursive=True))


async def two_instances_stand_side_by_side(case: Case) -> None:
    await asyncio.gather(
        case.driver.restore(case.seat("i1", 0)), case.driver.restore(case.seat("i2", 1))
    )
    await asyncio.gather(case.is_answered("i1"), case.is_answered("i2"))
    await case.driver.evict("i1")

    await case.is_answered("i2")
    await case.is_gone("i1")


async def an_instance_on_two_devices_answers(case: Case) -> None:
    await case.driver.restore(case.seat("i1", 0, 1))

    await case.is_answered("i1")


async def many_calls_at_once_are_all_answered(case: Case) -> None:
    await case.driver.restore(case.seat("i1"))

    await asyncio.gather(*(case.is_answered("i1") for _ in range(8)))


async def the_end_of_its_process_is_told(case: Case) -> None:
    before = set(psutil.Process().children(recursive=True))
    await case.driver.restore(case.seat("i1"))
    watch = asyncio.ensure_future(case.driver.died("i1"))
    await asyncio.sleep(0)
    started = set(psutil.Process().children(recursive=True)) - before
    assert not watch.done()
    if not started:  # it has no process while it is not asked
        await case.driver.end("i1")
    for process in started:
        with contextlib.suppress(psutil.NoSuchProcess):  # one goes with another
            if "guard.py" not in " ".join(process.cmdline()):
                process.kill()

    reason = await watch
    assert "ended" in reason or "exited" in reason, reason  # as whichever went first has it


async def an_instance_can_be_ended_by_force_at_any_time(case: Case) -> None:
    free = case.devices.free_mib(0)
    restoring = asyncio.ensure_future(case.driver.restore(case.seat("i1")))
    await asyncio.sleep(0.05)
    restoring.cancel()
    await asyncio.wait([restoring])
    await case.driver.end("i1")
    assert free == case.devices.free_mib(0)
    await case.driver.restore(case.seat("i2"))
    await case.driver.end("i2")
    await case.driver.end("i2")

    assert free == case.devices.free_mib(0)
    await case.is_gone("i2")


async def a_call_ends_at_its_time_limit_and_harms_nothing(case: Case) -> None:
    await case.driver.restore(case.seat("i1"))
    said = await case.ask("i1", case.slow, timeout_s=0.2 if case.slow is not None else 30.0)

    expected = Outcome.SUCCEEDED if case.slow is None else Outcome.TIMED_OUT
    assert expected is said.outcome
    assert await case.driver.answers("i1")
    await case.is_answered("i1")


async def a_call_can_be_cancelled(case: Case) -> None:
    await case.driver.restore(case.seat("i1"))
    asking = asyncio.ensure_future(case.ask("i1", case.slow))
    await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait([asking])

    await case.is_answered("i1")


async def a_wrong_request_is_a_failure_with_a_reason_and_harms_nothing(case: Case) -> None:
    await case.driver.restore(case.seat("i1"))
    said = await case.ask("i1", case.wrong)

    assert Outcome.FAILED is said.outcome
    assert said.reason
    await case.is_answered("i1")


async def a_request_that_is_no_json_is_a_failure(case: Case) -> None:
    await case.driver.restore(case.seat("i1"))
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for piece in (object(), deep):
        said = await case.ask("i1", {"prompt": piece, "method": "logprobs", "inputs": piece})
        assert Outcome.FAILED is said.outcome
        assert "the request is no JSON" in said.reason


async def nobody_answers_for_an_instance_that_never_was(case: Case) -> None:
    await case.is_gone("i9")
    await case.driver.end("i9")
    await case.driver.forget("i9")


CHECKS: tuple[Check, ...] = (
    an_instance_answers_as_soon_as_it_is_restored,
    an_instance_holds_its_devices_only_while_it_is_up,
    what_left_comes_back_under_another_name,
    a_copy_that_is_forgotten_is_gone_with_its_process,
    two_instances_stand_side_by_side,
    an_instance_on_two_devices_answers,
    many_calls_at_once_are_all_answered,
    the_end_of_its_process_is_told,
    an_instance_can_be_ended_by_force_at_any_time,
    a_call_ends_at_its_time_limit_and_harms_nothing,
    a_call_can_be_cancelled,
    a_wrong_request_is_a_failure_with_a_reason_and_harms_nothing,
    a_request_that_is_no_json_is_a_failure,
    nobody_answers_for_an_instance_that_never_was,
)
