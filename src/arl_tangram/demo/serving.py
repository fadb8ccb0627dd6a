"""Plays trajectories that call models, for real: each a service of its own, on devices that they share."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ..core.model import Outcome, Seconds
from ..errors import TangramError, Unavailable
from ..runtime.call import Answer
from ..runtime.service_options import ServiceOptions
from ..runtime.tangram import Tangram
from ..workloads import demo
from .device_ledger import RESIDENT, RESTORING, DeviceLedger
from .played import STATIC, Act, Played, Told
from .scene import Look

MODELS = str(Path(demo.__file__).parent / "models")
SPARE_MIB = 4
LOOKS = {
    RESIDENT: Look("in device memory, idle", "#e4e7eb"),
    RESTORING: Look("being restored", "#9aa5b1"),
}
COLOURS = (
    *("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#d55e00", "#f0e442", "#7b61a8"),
    *("#8c6d31", "#5ab4ac", "#c51b7d", "#4d9221"),
)
NOTES = {
    STATIC: "Every instance is pinned to devices of its own, and waits there to be asked.",
    "tangram": "The paper's way: restored when asked for, and what was used longest ago makes room.",
    "inflight": "What costs least to be without makes room, and what will be asked for comes back early.",
}


class Rollout(Protocol):
    """A trajectory that can be acted out."""

    @property
    def id(self) -> str:
        """What it is called."""


R = TypeVar("R", bound=Rollout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosting:
    """Models, and what they are given.

    Attributes:
        services: the options of each model.
        warm_up: a request for each, which is asked before the step begins.
        pinned: the instances of each model under `static`, by their degree.
        devices: how many the models share under other policies.
        device_mib: memory of each, room for one model.
        quotas: what is declared besides, by name.
    """

    services: Mapping[str, ServiceOptions]
    warm_up: Any
    pinned: tuple[int, ...]
    devices: int
    device_mib: int
    quotas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def devices_under(self, policy: str) -> int:
        """How many devices there are under a policy."""
        return len(self.services) * sum(self.pinned) if policy == STATIC else self.devices

    def local(self, policy: str, ledger: DeviceLedger) -> Tangram:
        """This machine, with host memory in the place of devices."""
        return Tangram.local(
            policy=policy,
            gpus=self.devices_under(policy),
            gpu_memory=f"{self.device_mib}MiB",
            observers=[ledger],
        )


class Stage:
    """What the trajectories of a step share."""

    def __init__(self, tangram: Tangram, policy: str, told: Told) -> None:
        self.tangram = tangram
        self.policy = policy
        self.acts: list[Act] = []
        self._told = told

    async def ask(self, rollout: Rollout, service: str, request: Any) -> Any:
        """The answer of a model. Raises `Unavailable` if there is none."""
        answer = await self.tangram.call(service, request, task="demo", trajectory=rollout.id)
        return self.note(rollout, service, answer)

    def note(self, rollout: Rollout, kind: str, answer: Answer[Any]) -> Any:
        """Write an action down; its value, or `Unavailable` if it has none."""
        timing = answer.timing
        act = Act(
            rollout.id, kind, answer.outcome, timing.queued_s, timing.overhead_s, timing.run_s
        )
        self.wrote(act)
        if answer.outcome is not Outcome.SUCCEEDED:
            raise Unavailable(f"{kind}: {answer.outcome.value}: {answer.reason}")
        return answer.value

    def wrote(self, act: Act) -> None:
        """Write an action down."""
        self.acts.append(act)
        self._told()


async def play(
    hosting: Hosting,
    rollouts: Sequence[R],
    act_out: Callable[[Stage, R], Awaitable[float]],
    *,
    policy: str,
    told: Told,
) -> Played:
    """Play a step to its end.

    Args:
        hosting: the models; each has been asked once before the step begins.
        rollouts: all of them arrive at once.
        act_out: acts one out, and gives its reward.
        policy: `static` pins every instance to devices of its own.
        told: called after every action.
    """
    ledger = DeviceLedger()
    rewards: dict[str, float | None] = {rollout.id: None for rollout in rollouts}
    troubles: dict[str, str] = {}
    lives_s: dict[str, Seconds] = {}
    async with hosting.local(policy, ledger) as tangram:
        for name, options in hosting.services.items():
            told_too: ServiceOptions = {"pinned": hosting.pinned} if policy == STATIC else {}
            tangram.service(name, **(options | told_too))
        for name, limits in hosting.quotas.items():
            tangram.quota(name, **limits)
        await _warm_up(tangram, hosting)
        stage = Stage(tangram, policy, told)
        began = time.monotonic()

        async def one(rollout: R) -> None:
            try:
                rewards[rollout.id] = await act_out(stage, rollout)
            except Unavailable as error:
                troubles[rollout.id] = str(error)
            lives_s[rollout.id] = time.monotonic() - began

        try:
            async with asyncio.TaskGroup() as group:
                for rollout in rollouts:
                    group.create_task(one(rollout))
        except* TangramError as errors:
            raise errors.exceptions[0] from None
        ended = time.monotonic()
    spans = ledger.spans(began, ended)
    resting = {RESTORING, RESIDENT}
    return Played(
        policy=policy,
        acts=tuple(stage.acts),
        rewards=rewards,
        troubles=troubles,
        lives_s=lives_s,
        spans=spans,
        step_s=ended - began,
        units=hosting.devices_under(policy),
        units_reserved_s=sum(span.unit_s for span in spans if span.kind in resting),
        units_used_s=sum(span.unit_s for span in spans if span.kind not in resting),
        counts={"restores": sum(at >= began for at in ledger.restores)},
    )


async def _warm_up(tangram: Tangram, hosting: Hosting) -> None:
    """Have a copy of every model in host memory."""
    answers = await asyncio.gather(
        *(tangram.call(name, hosting.warm_up, timeout="60s") for name in hosting.services)
    )
    for name, answer in zip(hosting.services, answers, strict=True):
        if answer.outcome is not Outcome.SUCCEEDED:
            raise Unavailable(f"{name} does not answer: {answer.reason}")


async def describe(hosting: Hosting) -> dict[str, str]:
    """This machine, with its stand-ins for devices."""
    async with hosting.local("inflight", DeviceLedger()) as tangram:
        described = dict(tangram.describe())
    del described["policy"]
    return described


def looks_of(hosting: Hosting) -> dict[str, Look]:
    """A colour for each model."""
    return {
        **LOOKS,
        **{name: Look(name, c) for name, c in zip(hosting.services, COLOURS, strict=False)},
    }


def need(workload: str, packages: Mapping[str, str]) -> None:
    """Raise `Unavailable`, with what to install, unless all of these can be imported.

    Args:
        workload: what needs them.
        packages: the name that is imported, and the one that is installed.
    """
    missing = [p for name, p in packages.items() if importlib.util.find_spec(name) is None]
    if missing:
        raise Unavailable(
            f"--workload {workload} runs real models, and {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not installed. To mend: "
            f"{sys.executable} -m pip install {' '.join(missing)}"
            + (
                " (PyTorch's own site has a far smaller build without GPUs)"
                if "torch" in missing
                else ""
            )
        )
