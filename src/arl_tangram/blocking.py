"""The same interface without ``await``, for code that does not use asyncio.

Everything runs on an event loop in one background thread, so that several threads may share one
`Tangram`. An interrupt (Ctrl-C) during a call cancels what the call was waiting for.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from prometheus_client import CollectorRegistry

from .core.model import ActionId, NodeId
from .errors import Unavailable
from .runtime import environment as _environment
from .runtime import handle as _handle
from .runtime import lease as _lease
from .runtime import tangram as _tangram

P = ParamSpec("P")
A = TypeVar("A")  # a class of the asynchronous interface
B = TypeVar("B", bound="_Twin[Any]")  # the class here that stands for it
R = TypeVar("R")

__all__ = ["Environment", "Handle", "Lease", "Shell", "Tangram"]


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._loop is not None:
            return
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tangram", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run it there and wait for it; an interrupt cancels it and waits for that."""
        loop = self._loop
        if loop is None:
            coroutine.close()
            raise Unavailable("this Tangram is not open")
        done = concurrent.futures.Future[R]()
        tasks: list[asyncio.Task[R]] = []

        def start() -> None:
            task = loop.create_task(coroutine)
            tasks.append(task)
            task.add_done_callback(lambda task: _copy(task, done))

        loop.call_soon_threadsafe(start)
        try:
            return done.result()
        except BaseException:
            if not done.done():
                loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
                concurrent.futures.wait([done])
            raise


def _copy(task: asyncio.Task[R], done: concurrent.futures.Future[R]) -> None:
    if task.cancelled():
        done.set_exception(concurrent.futures.CancelledError())
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


class _Twin(Generic[A]):
    """Stands for an object of the asynchronous interface."""

    def __init__(self, twin: A, loop: _Loop | None = None) -> None:
        self._twin = twin
        self._loop = loop or _Loop()

    def __repr__(self) -> str:
        return repr(self._twin)


def _parts(owner: _Twin[A]) -> tuple[_Loop, A]:
    return owner._loop, owner._twin  # noqa: SLF001 - the descriptors below are a part of it


class _Waits(Generic[P, R]):
    """The method of the twin, waited for."""

    def __init__(self, method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]]) -> None:
        self._method: Callable[..., Coroutine[Any, Any, R]] = method

    def __get__(self, owner: _Twin[Any], kind: type) -> Callable[P, R]:
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            loop, twin = _parts(owner)
            return loop.run(self._method(twin, *args, **kwargs))

        return update_wrapper(call, self._method)


class _Calls(Generic[P, R]):
    """The method of the twin, called in the thread where its loop runs."""

    def __init__(self, method: Callable[Concatenate[A, P], R]) -> None:
        self._method: Callable[..., R] = method

    def __get__(self, owner: _Twin[Any], kind: type) -> Callable[P, R]:
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            loop, twin = _parts(owner)

            async def call_there() -> R:
                return self._method(twin, *args, **kwargs)

            return loop.run(call_there())

        return update_wrapper(call, self._method)


class _Gives(Generic[P, B]):
    """As `_Waits` or `_Calls`; what the method gives is given as the class that stands for it."""

    def __init__(
        self, kind: Callable[[Any, _Loop], B], method: _Waits[P, Any] | _Calls[P, Any]
    ) -> None:
        self._kind = kind
        self._inner = method

    def __get__(self, owner: _Twin[Any], kind: type) -> Callable[P, B]:
        inner = self._inner.__get__(owner, kind)

        def call(*args: P.args, **kwargs: P.kwargs) -> B:
            loop, _ = _parts(owner)
            return self._kind(inner(*args, **kwargs), loop)

        return update_wrapper(call, inner)


class Handle(_Twin[_handle.Handle]):
    __doc__ = _handle.Handle.__doc__

    cancel = _Calls(_handle.Handle.cancel)
    result = _Waits(_handle.Handle.result)
    explain = _Waits(_handle.Handle.explain)

    @property
    def id(self) -> ActionId:
        return self._twin.id

    @property
    def phase(self) -> str:
        return self._twin.phase


class Shell(_Twin[_environment.Shell]):
    __doc__ = _environment.Shell.__doc__

    run = _Waits(_environment.Shell.run)
    close = _Waits(_environment.Shell.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Environment(_Twin[_environment.Environment]):
    """A sandbox whose files and background processes last until it is closed.

    Use it as a context manager, or `open` and `close` it. It holds its memory all the time, and
    processors only while a command runs in it.
    """

    close = _Waits(_environment.Environment.close)
    run = _Waits(_environment.Environment.run)
    submit = _Gives(Handle, _Calls(_environment.Environment.submit))
    shell = _Gives(Shell, _Waits(_environment.Environment.shell))
    write = _Waits(_environment.Environment.write)
    read = _Waits(_environment.Environment.read)
    read_text = _Waits(_environment.Environment.read_text)
    upload = _Waits(_environment.Environment.upload)
    download = _Waits(_environment.Environment.download)
    list = _Waits(_environment.Environment.list)

    def open(self) -> Self:
        """Wait until it can be used."""
        _ = self._loop.run(self._twin.open())
        return self

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        return self._twin.id

    @property
    def task(self) -> str:
        return self._twin.task

    @property
    def trajectory(self) -> str:
        return self._twin.trajectory

    @property
    def step(self) -> str | None:
        return self._twin.step

    @property
    def node(self) -> NodeId | None:
        return self._twin.node


class Lease(_Twin[_lease.Lease]):
    """A context manager that waits for resources and holds them until its end."""

    def __enter__(self) -> Self:
        self._loop.run(self._twin.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.run(self._twin.__aexit__(kind, error, traceback))

    @property
    def cpus(self) -> float:
        return self._twin.cpus

    @property
    def cores(self) -> tuple[int, ...]:
        return self._twin.cores

    @property
    def revoked(self) -> bool:
        return self._twin.revoked


class _Makes(Generic[P, A]):
    """The alternative constructor of the twin."""

    def __init__(self, make: Callable[P, A]) -> None:
        self._make = make

    def __get__(self, owner: object, kind: type[B]) -> Callable[P, B]:
        def call(*args: P.args, **kwargs: P.kwargs) -> B:
            return kind(self._make(*args, **kwargs))

        return update_wrapper(call, self._make)


class Tangram(_Twin[_tangram.Tangram]):
    """Takes actions, decides when and on how many units each runs, and runs them here.

    Use it as a context manager; `local` makes one for this machine. Several threads may share it.
    """

    local = _Makes(_tangram.Tangram.local)

    run = _Waits(_tangram.Tangram.run)
    submit = _Gives(Handle, _Calls(_tangram.Tangram.submit))
    environment = _Gives(Environment, _Calls(_tangram.Tangram.environment))
    lease = _Gives(Lease, _Calls(_tangram.Tangram.lease))
    describe = _Calls(_tangram.Tangram.describe)
    quota = _Calls(_tangram.Tangram.quota)
    fetch = _Waits(_tangram.Tangram.fetch)
    service = _Calls(_tangram.Tangram.service)
    call = _Waits(_tangram.Tangram.call)
    explain = _Waits(_tangram.Tangram.explain)

    def open(self) -> Self:
        """Be ready for actions."""
        self._loop.start()
        try:
            self._loop.run(self._twin.open())
        except BaseException:
            self._loop.stop()
            raise
        return self

    def close(self) -> None:
        """Cancel every action, close every environment, and leave nothing behind; idempotent."""
        self._loop.start()  # it may never have been opened
        try:
            self._loop.run(self._twin.close())
        finally:
            self._loop.stop()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def metrics(self) -> CollectorRegistry:
        """Counters for Prometheus."""
        return self._twin.metrics
