"""The embedded `Tangram`: one kernel, one driver and this machine, inside the caller's process."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from prometheus_client import CollectorRegistry

from ..core.kernel import Kernel
from ..core.model import CPU, MEMORY, MILLI, Explanation, Node, NodeId, TaskId, TrajectoryId
from ..core.policy import Policy
from ..errors import ConfigError, Unavailable
from ..executors.local import LocalHost
from ..executors.port import EnvironmentSpec, Host
from ..executors.services.devices import Devices, devices_of
from ..policies.eviction import OF_POLICIES, eviction_named
from . import checks, units
from .checks import AnyPath
from .clock import Clock, MonotonicClock
from .driver import Driver
from .environment import Environment
from .finishing import to_the_end
from .handle import Handle, to_its_end
from .intake import Intake
from .journal import Header, JournalWriter
from .lease import Lease
from .local import chosen_policy, node_of
from .machine import this_machine
from .metrics import counters
from .observers import Observer, onlookers
from .outside import Outside
from .place import SandboxPlace
from .profile import load_profile, save_profile
from .requests import Command, FreshOptions, Names, environment_for, lease_for, spec_for
from .results import Result
from .rooms import FreshRoom
from .units import Cpus, Size

DEFAULT_MEMORY = "512MiB"
MOST_GPUS = 1_024


class Tangram(Outside):
    """Takes actions, decides when and on how many units each runs, and runs them here.

    Use it as an asynchronous context manager; `local` makes one for this machine.

    Args:
        node: what the machine offers.
        host: makes what opens environments on it, when this is opened; it is closed with this.
        policy: the name of a policy, or a policy.
        journal: a file that every scheduling event is written to; it is overwritten.
        profile: a file with what was learned about durations: read at the start if it is there,
            written at the end.
        observers: see everything that happens.
        unit: how many cores a CPU unit of the node is.
        devices: finds the node's GPUs, when this is opened.
        services: a TOML file of services and quotas to declare then.

    Attributes:
        metrics: counters for Prometheus.
    """

    def __init__(
        self,
        *,
        node: Node,
        host: Callable[[], Host],
        policy: str | Policy = "inflight",
        journal: AnyPath | None = None,
        profile: AnyPath | None = None,
        observers: Sequence[Observer] = (),
        clock: Clock | None = None,
        unit: float = 1.0,
        devices: Callable[[], Devices | None] = lambda: None,
        services: AnyPath | None = None,
    ) -> None:
        super().__init__()
        self.metrics = CollectorRegistry()
        self._node = node
        self._make_host = host
        self._host: Host | None = None
        self._unit = unit
        self._policy_name, self._policy = chosen_policy(policy)
        with checks.settings():
            self._journal = checks.optional_path(journal, "journal")
            self._profile = checks.optional_path(profile, "profile")
            self._service_file = checks.optional_path(services, "services")
        self._learned = load_profile(self._profile)
        self._observers = onlookers(observers)
        self._clock = clock
        # Other processes may use the same folders and control groups of this machine.
        self._prefix = secrets.token_hex(4)
        self._intake: Intake | None = None
        self._closing: asyncio.Task[None] | None = None
        self._find_devices = devices

    @classmethod
    def local(
        cls,
        *,
        cpus: float | None = None,
        memory: Size | None = None,
        policy: str | Policy = "inflight",
        require: str | Collection[str] | None = None,
        unit: float | None = None,
        gpus: int | None = None,
        gpu_memory: Size | None = None,
        services: AnyPath | None = None,
        journal: AnyPath | None = None,
        profile: AnyPath | None = None,
        state_dir: AnyPath | None = None,
        observers: Sequence[Observer] = (),
    ) -> Self:
        """This machine.

        Args:
            cpus: how many units there are; every core this process may use by default. More units
                than cores makes each a quota of a part of a core.
            memory: how much all environments may hold together; all there is by default.
            policy: the name of a policy, or a policy.
            require: what must be guaranteed, such as ``"cpu"``, ``["memory", "files"]`` or
                ``"all"``; it raises `Unavailable` instead of doing with less.
            unit: how many cores a unit is; 1 unless `cpus` says otherwise.
            gpus: how many GPUs services may have; all of this machine by default, as far as NVML (the
                package `nvidia-ml-py`) shows them.
            gpu_memory: let bounded host memory of this size stand in for each GPU, on a machine
                that has none.
            services: a TOML file of services and quotas, declared when this is opened.
            journal: a file for every scheduling event; it is overwritten.
            profile: a file with what was learned about durations, read now and written at the end.
            state_dir: where environments keep their files.
            observers: see everything that happens.
        """
        with checks.settings():
            node, size = node_of(this_machine(), cpus=cpus, memory=memory, unit=unit)
            folder = checks.optional_path(state_dir, "state_dir")
            needed = None if require is None else checks.words(require, "require")
            devices = None if gpus is None else checks.whole(gpus, "gpus", least=0, most=MOST_GPUS)
            gpu_mib = None if gpu_memory is None else units.size_mib(gpu_memory, "gpu_memory")
        return cls(
            node=node,
            host=partial(LocalHost, folder, cpu_scale=size, pin=size == 1, require=needed),
            policy=policy,
            journal=journal,
            profile=profile,
            observers=observers,
            unit=size,
            devices=partial(devices_of, devices, gpu_mib),
            services=services,
        )

    async def open(self) -> Self:
        """Be ready for actions. Raises `Unavailable` if something required is not in force here."""
        if self._host is not None or self._closing is not None:
            raise ConfigError("this Tangram was opened before; make another one")
        self._host = host = self._make_host()
        try:
            self._intake = self._start()
            if self._service_file is not None:
                self._declare_all(self._service_file)
        except BaseException:
            self._intake = None
            await self._close_outside()
            await host.close()
            raise
        return self

    def _start(self) -> Intake:
        if (devices := self._find_devices()) is not None:
            self._node = replace(
                self._node, gpus=devices.count, gpu_mib=devices.mib, gpu_model=devices.model
            )
        clock = self._clock or MonotonicClock()
        observers = [*counters(self.metrics), *self._observers]
        eviction = OF_POLICIES.get(self._policy_name, "cost")
        if self._journal is not None:
            header = Header(
                policy=self._policy_name,
                estimates=self._learned.to_json(),
                settings={"eviction": eviction},
            )
            observers.append(JournalWriter(self._journal, header))
        kernel = Kernel(self._policy, self._learned, eviction=eviction_named(eviction))
        driver = Driver(kernel, clock=clock, observers=observers)
        self._offer(devices, driver, clock, host_mib=self._node.capacity.get(MEMORY, 0))
        driver.join(self._node)
        return Intake(driver, Names(), most_milli=self._node.capacity.get(CPU, 0))

    async def close(self) -> None:
        """Cancel every action, close every environment, and leave nothing behind; idempotent."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await to_the_end(self._closing)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def describe(self) -> Mapping[str, str]:
        """The machine and, once it is open, how grants are enforced and environments isolated."""
        milli = self._node.capacity.get(CPU, 0)
        cores = "cores" if self._unit == 1 else f"units of {self._unit:.3g} core"
        return {
            "node": self._node.id,
            "cpus": f"{milli / MILLI:g} {cores}",
            "memory": f"{self._node.capacity.get(MEMORY, 0)} MiB",
            "policy": self._policy_name,
            **self._describe_devices(),
            **(self._host.describe() if self._host else {}),
        }

    def environment(
        self,
        *,
        task: str = "default",
        trajectory: str | None = None,
        step: str | int | None = None,
        memory: Size | None = DEFAULT_MEMORY,
        network: bool = False,
        variables: Mapping[str, str] | None = None,
        readable: Sequence[AnyPath] = (),
        pids: int = 1024,
        cpus: float | None = None,
        workspace: AnyPath | None = None,
        priority: int = 0,
    ) -> Environment:
        """An environment; open it with ``async with``, or await it.

        Args:
            task: the training job it belongs to; tasks share fairly.
            trajectory: the rollout it serves.
            step: the batch that rollout belongs to; the metrics tell how far it is.
            memory: the most all its processes may hold together; None means unlimited.
            network: whether it may reach the network.
            variables: environment variables of every command in it.
            readable: paths of this machine it may read.
            pids: the most processes and threads it may have at once.
            cpus: cores it owns for life; its commands share them and take no others, so that their
                own grants are 0.
            workspace: a folder of this machine to work in, for commands you trust: they run as you,
                with your variables and your network, and only what they use is limited.
            priority: environments of a higher one are placed first.
        """
        intake = self._ready
        milli = units.owned_milli(cpus)
        spec = spec_for(
            self._prefix + intake.names.next("e"),
            memory=memory,
            pids=pids,
            network=network,
            variables={} if variables is None else variables,
            readable=readable,
            most_milli=milli or intake.most_milli,
            workspace=workspace,
        )
        self._ask_host(spec)
        environment = environment_for(
            spec, task=task, trajectory=trajectory, step=step, milli=milli, priority=priority
        )
        place = SandboxPlace(environment, spec, hosts=self._hosts(), driver=intake.driver)
        return Environment(place, intake=intake)

    async def run(
        self, command: Command, *, check: bool = False, **options: Unpack[FreshOptions]
    ) -> Result:
        """Run a command in an environment of its own; cancelling this call cancels the command."""
        must_succeed = checks.flag(check, "check")
        result = await to_its_end(self.submit(command, **options))
        return result.check() if must_succeed else result

    def submit(self, command: Command, **options: Unpack[FreshOptions]) -> Handle:
        """Let a command wait for its resources; it gets an environment of its own."""
        intake = self._ready
        task = checks.word(options.pop("task", "default"), "task")
        trajectory = options.pop("trajectory", None)
        spec = spec_for(
            self._prefix + intake.names.next("f"),
            memory=options.pop("memory", DEFAULT_MEMORY),
            network=options.pop("network", False),
            readable=options.pop("readable", ()),
            most_milli=intake.most_milli,
        )
        self._ask_host(spec)
        return intake.submit(
            command,
            options,
            room=FreshRoom(spec, self._hosts()),
            task=TaskId(task),
            trajectory=TrajectoryId(
                spec.id if trajectory is None else checks.word(trajectory, "trajectory")
            ),
            needs={MEMORY: spec.memory_mib} if spec.memory_mib else {},
        )

    def lease(
        self,
        *,
        cpus: Cpus | None = None,
        memory: Size | None = None,
        quota: Mapping[str, int] | str | None = None,
        task: str = "default",
        trajectory: str = "default",
        kind: str = "lease",
        priority: int = 0,
        resizable: bool = False,
    ) -> Lease:
        """Resources for code of one's own, held inside an ``async with`` block.

        Args:
            cpus: one core by default; none by default if it is for tokens of a quota.
            memory: how much of the machine's memory it holds.
            quota: tokens, as ``{"search": 1}`` or ``"search"``; all it needs comes at once.
            task: the training job it belongs to; tasks share fairly.
            trajectory: the rollout it belongs to.
            kind: the label under which its duration is learned.
            priority: higher goes first.
            resizable: whether its cores may change while it is held.
        """
        intake = self._ready
        action = lease_for(
            intake.names,
            cpus=cpus,
            memory=memory,
            quota=quota,
            task=task,
            trajectory=trajectory,
            kind=kind,
            priority=priority,
            resizable=resizable,
            most_milli=intake.most_milli,
        )
        return Lease(action, driver=intake.driver, core_ids=self._unit == 1)

    async def explain(self, id: str) -> Explanation:  # noqa: A002  # what it is called everywhere
        """Where an action is, what it waits for, behind whom, and since when.

        For calls and fetches that were given an id, and for everything else by the id of its handle
        or result. Raises `UnknownAction` if none has this id, or it ended long ago.
        """
        return self._ready.explain(id)

    @property
    def _ready(self) -> Intake:
        if self._closing is not None:
            raise Unavailable("this Tangram is closed")
        if self._intake is None:
            raise ConfigError("open this Tangram first: async with Tangram.local() as tangram")
        return self._intake

    def _describe_devices(self) -> Mapping[str, str]:
        if not self._node.gpus:
            return {}
        what = f"{self._node.gpus} x {self._node.gpu_model}, {self._node.gpu_mib} MiB each"
        return {"gpus": what}

    def _ask_host(self, spec: EnvironmentSpec) -> None:
        """Raise `ConfigError` for what could never be opened here, while nothing waits for it."""
        for host in self._hosts().values():
            host.check(spec)

    def _hosts(self) -> Mapping[NodeId, Host]:
        return {self._node.id: self._host} if self._host else {}

    async def _close(self) -> None:
        try:
            if self._intake is not None:
                await self._intake.driver.end_all(self._hurry_services)
                self._intake.driver.close()
        finally:
            await self._close_outside()
            if self._host is not None:
                await self._host.close()
        if self._profile is not None:
            save_profile(self._profile, self._learned)
