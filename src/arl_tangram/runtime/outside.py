"""What a `Tangram` offers beside processes: services on devices, quotas of APIs, and requests to both."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from typing import Any, TypeVar, Unpack

from ..core.events import QuotaDeclared, ServiceDeclared
from ..core.model import API, Lease, Outcome, Quota, Service
from ..errors import ConfigError, InvalidAction
from ..executors.api import Request, Response
from ..executors.services.devices import Devices
from . import checks, declarations, units
from .call import Answer, CallWork, Reply
from .checks import AnyPath, shown
from .clock import Clock
from .driver import Driver
from .fetch import Fetcher, backoff, sendable
from .fitting import check_fit
from .intake import Intake
from .pauses import Pauses
from .quotas import Rate, quota_of, tokens_of
from .repeats import Repeats
from .requests import action_of, chosen_id
from .service_options import ServiceOptions, deployment_of, service_name
from .services import Services
from .units import Duration

T = TypeVar("T")


class Outside:
    """The part of a `Tangram` that knows of services and quotas."""

    def __init__(self) -> None:
        self._quotas: dict[str, Quota] = {}
        self._fetch: Fetcher | None = None
        self._devices: Devices | None = None
        self._host_mib = 0
        self._pauses: Pauses | None = None
        self._services: Services | None = None
        self._served: dict[str, Service] = {}
        self._answers: Repeats[Any] = Repeats()

    @property
    def _ready(self) -> Intake:
        raise AssertionError("a Tangram says what it is ready for")

    def quota(
        self,
        name: str,
        *,
        rate: Rate | None = None,
        burst: int = 1,
        concurrency: int | None = None,
        daily: int | None = None,
        windows: Mapping[str, int] | None = None,
        adaptive: bool = False,
    ) -> Quota:
        """Declare what an API allows, shared by everyone who uses it through this Tangram.

        Args:
            name: what to call it.
            rate: calls a second, or text such as ``"10/s"`` or ``"600/min"``.
            burst: how many of them may come at once after a rest.
            concurrency: calls under way at once.
            daily: calls in any 24 hours.
            windows: further limits, such as ``{"1h": 500}``; all of them hold at once.
            adaptive: find the real limit below `rate` and `concurrency` from what is refused.

        Raises:
            ConfigError: a field is wrong, or the name is taken.
        """
        declared = quota_of(
            name,
            rate=rate,
            burst=burst,
            concurrency=concurrency,
            daily=daily,
            windows=windows,
            adaptive=adaptive,
        )
        return self._declare(declared)

    def _declare(self, quota: Quota) -> Quota:
        intake = self._ready
        if quota.name in self._quotas:
            raise ConfigError(
                f"quota {quota.name!r} is declared already; two limits need two names"
            )
        self._quotas[quota.name] = quota
        intake.driver.feed(QuotaDeclared(at=intake.driver.now(), quota=quota))
        return quota

    async def fetch(
        self,
        quota: str,
        request: str | Request,
        *,
        task: str = "default",
        trajectory: str = "default",
        kind: str | None = None,
        priority: int = 0,
        attempts: int = 8,
        id: str | None = None,  # noqa: A002  # what it is called everywhere
    ) -> Answer[Response]:
        """Send an HTTP request under a quota, over a connection that is kept.

        A reply of 429, or of 503 with ``Retry-After``, pauses the quota for everybody, for as long as
        it says and a day at most; faults that may pass are tried again, those that will not are failures at once. No
        cookie is kept: a request is sent with those in its own headers.

        Args:
            quota: whose token it takes.
            request: a URL to get, or a `Request`.
            task: the training job it belongs to; tasks share fairly.
            trajectory: the rollout it belongs to.
            kind: the label under which its duration is learned; the quota's name by default.
            priority: higher goes first.
            attempts: how often it is tried in all.
            id: a name of the caller's own; the same id again gets the first answer, while that is
                kept, and never sends anything again. It is sent for as long as anybody waits.
        """
        intake = self._ready
        sent = sendable(request)
        if self._fetch is None:
            self._pauses = self._pauses or Pauses(intake.driver)
            self._fetch = Fetcher(intake.driver, self._pauses)
        needs = {API + checks.word(quota, "quota"): 1}
        if id is not None:
            known = self._fetch.repeats.known(chosen_id(id), (quota, sent))
            if known is not None:
                return await known
        action = action_of(
            intake.names,
            id,
            task=task,
            trajectory=trajectory,
            kind=quota if kind is None else kind,
            needs=needs,
            priority=priority,
            attempts=attempts,
        )
        return await self._fetch.fetch(action, quota, sent, remember=id is not None)

    def service(self, name: str, **options: Unpack[ServiceOptions]) -> Service:
        """Declare a model served on this machine's devices; its instances come and go with its calls.

        Raises:
            ConfigError: a key is wrong, the name is taken, or no device here could hold it.
        """
        return self._deploy(name, options)

    def _deploy(self, name: str, options: Mapping[str, Any]) -> Service:
        intake = self._ready
        if self._devices is None or self._services is None:
            raise ConfigError(
                f"service {shown(name)}: there are no devices here to serve it on; "
                'Tangram.local(gpus=2, gpu_memory="1GiB") lets host memory stand in for them'
            )
        name = service_name(name)
        if name in self._served:
            raise ConfigError(f"service {name!r} is declared already; two services need two names")
        deployment = deployment_of(name, options, self._devices)
        check_fit(deployment.service, self._served.values(), self._devices, host_mib=self._host_mib)
        self._services.add(deployment)
        self._served[name] = deployment.service
        intake.driver.feed(ServiceDeclared(at=intake.driver.now(), service=deployment.service))
        return deployment.service

    async def call(
        self,
        name: str,
        request: Any,
        *,
        kind: str | None = None,
        timeout: Duration | None = None,
        quota: Mapping[str, int] | str | None = None,
        task: str = "default",
        trajectory: str = "default",
        priority: int = 0,
        attempts: int = 3,
        id: str | None = None,  # noqa: A002  # what it is called everywhere
    ) -> Answer[Any]:
        """Ask a service; an instance is brought up for it if that is worth it.

        Args:
            name: the service.
            request: what its driver takes: for `openai` the body of a request, for `torch`
                ``{"method": "logprobs", "inputs": …}``, for `command` anything that is JSON.
            kind: the label under which its duration is learned; the service's name by default.
            timeout: the limit on one attempt; waiting for an instance never counts.
            quota: tokens it holds besides, as ``{"search": 1}`` or ``"search"``.
            task: the training job it belongs to; tasks share fairly.
            trajectory: the rollout it belongs to.
            priority: higher goes first.
            attempts: how often it is tried when the service is to blame.
            id: a name of the caller's own; the same id again gets the first answer, while that is
                kept, and never asks anything again. It is asked for as long as anybody waits.

        Raises:
            InvalidAction: no service has this name, another request had this id, or its answer is
                kept no more.
        """
        intake = self._ready
        services = self._services
        if services is None or checks.word(name, "name") not in self._served:
            known = ", ".join(sorted(self._served)) or "none"
            raise InvalidAction(f"service {shown(name)} is not declared; there are: {known}")
        limit_s = None if timeout is None else units.seconds(timeout, "timeout")
        asked = (name, request)
        if id is not None:
            if (repeated := self._answers.known(chosen_id(id), asked)) is not None:
                return await repeated
            asked = name, request = _copied(asked)  # the caller may change it later
        held = tokens_of(quota)
        action = action_of(
            intake.names,
            id,
            task=task,
            trajectory=trajectory,
            kind=name if kind is None else kind,
            needs=held,
            service=name,
            priority=priority,
            timeout_s=limit_s,
            attempts=attempts,
        )

        pauses = self._pauses = self._pauses or Pauses(intake.driver)

        async def attempt(lease: Lease) -> Reply[Any]:
            reply = await services.call(lease, name, request, timeout_s=limit_s)
            asked_s = reply.retry_after_s
            if asked_s is not None and held:
                for each in held:  # nobody comes back before that, so there is nothing to wait for
                    pauses.pause(each.removeprefix(API), asked_s)
            elif reply.outcome is Outcome.LOST and lease.attempt < attempts:
                # It may be in trouble only for now.
                await asyncio.sleep(backoff(lease.attempt, asked_s or 0.0))
            return reply

        work = CallWork(action, attempt, driver=intake.driver)
        return await (work.result() if id is None else self._answers.first(asked, work))

    def _offer(
        self, devices: Devices | None, driver: Driver, clock: Clock, *, host_mib: int
    ) -> None:
        """Be able to serve on these devices, with so much memory of the host for copies."""
        if devices is not None:
            self._host_mib = host_mib
            self._devices = devices
            self._services = Services(devices, clock=clock, feed=driver.feed)
            driver.instances = self._services

    def _declare_all(self, path: AnyPath) -> None:
        """Declare what a file says."""
        services, quotas = declarations.read(path)
        with declarations.of(path):
            for name, limits in quotas.items():
                self._declare(quota_of(name, **limits))
            for name, options in services.items():
                self._deploy(name, options)

    def _hurry_services(self) -> None:
        if self._services is not None:
            self._services.hurry()

    async def _close_outside(self) -> None:
        if self._fetch is not None:
            await self._fetch.close()
        if self._services is not None:
            await self._services.close()


def _copied(request: T) -> T:
    try:
        return copy.deepcopy(request)
    except Exception as error:
        raise InvalidAction(f"request: it cannot be copied, and so not kept: {error!r}") from error
