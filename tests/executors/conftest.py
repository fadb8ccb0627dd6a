"""Real environments for tests: coroutine tests, hosts that are closed, and a look for leaks."""

import asyncio
import inspect
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from arl_tangram.errors import Unavailable
from arl_tangram.executors.local import LocalHost
from arl_tangram.executors.port import EnvironmentSpec, Invocation
from arl_tangram.testing.executor_contract import units


@dataclass
class Place:
    """A host made for a test, and short ways to use it."""

    host: LocalHost
    sandboxes: list = field(default_factory=list)

    async def open(self, name=None, **spec):
        spec.setdefault("memory_mib", 512)
        sandbox = await self.host.open(
            EnvironmentSpec(id=name or f"e{len(self.sandboxes)}", **spec)
        )
        self.sandboxes.append(sandbox)
        return sandbox

    async def run(self, command, *, sandbox=None, run_id="r", grant=None, **invocation):
        """Run in the given environment, or in the first one."""
        sandbox = sandbox or (self.sandboxes[0] if self.sandboxes else await self.open())
        invocation = Invocation(command=command, **invocation)
        return await sandbox.run(run_id, invocation, grant or units(1))

    def group(self, sandbox):
        return sandbox._group

    def put_first(self):
        """Let the environments go before whatever else this machine is busy with."""
        groups = self.host._groups
        if groups.name == "cgroup-v1":
            folder = groups._folders["cpu"]
            files = {folder / "cpu.shares": 262_144, folder.parent / "cpu.shares": 262_144}
        else:
            folder = groups._folder
            files = {folder / "cpu.weight": 10_000, folder.parent / "cpu.weight": 10_000}
        for file, weight in files.items():
            file.write_text(str(weight))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a coroutine test to its end and close its hosts in the same loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def whole():
        try:
            await pyfuncitem.obj(**arguments)
        finally:
            for value in arguments.values():
                places = [value] if isinstance(value, Place) else getattr(value, "made", ())
                for place in places:
                    await place.host.close()

    asyncio.run(whole())
    return True


@pytest.fixture
def state():
    """A folder for state that other users may pass through."""
    with tempfile.TemporaryDirectory(prefix="tangram-test-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.fixture
def make_place(state):
    """Makes hosts; skips where what they are to have is not there."""

    def make(**options):
        try:
            make.made.append(Place(LocalHost(state, **options)))
        except Unavailable as error:
            pytest.skip(str(error))
        return make.made[-1]

    make.made = []
    return make


@pytest.fixture
def place(make_place):
    """The best this machine offers."""
    return make_place()


@pytest.fixture
def walled(make_place):
    """A place behind walls."""
    return make_place(require=("files", "processes", "network", "user"))


@pytest.fixture
def best(make_place):
    """A place with all there is."""
    return make_place(require="all")


@pytest.fixture
def limited(make_place):
    """A place with limits by the kernel."""
    return make_place(require=("cpu", "memory", "pids", "freeze"))


@pytest.fixture(autouse=True)
def leaks(state):
    """Fails a test that leaves a process of its environments, or a group, behind."""
    yield
    assert [] == processes_of(state)
    assert [] == groups()
    assert [] == list(state.iterdir())


def processes_of(state):
    """The processes that were started for hosts below this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(state) in str((entry / "cwd").readlink()):
                found.append(entry.name)
        except OSError:
            continue
    return found


def groups():
    """The groups that this process has made and not removed."""
    return [
        str(Path(folder, name))
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        if folder.endswith("/arl-tangram")
        for name in names
        if name.startswith(f"{os.getpid()}-")
    ]
