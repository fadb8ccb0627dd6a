"""The warden: runs one command at a time and answers for everything that command starts."""

import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import posix
import resource  # noqa: F401  wait4 needs it, and must not look for it inside
import select
import time

from arl_tangram.executors.inside import frames, tree
from arl_tangram.executors.inside.capture import CHUNK, Capture
from arl_tangram.executors.inside.spawn import Spawner

DYING_S = 0.8  # the host waits a little longer
END_WAIT_S = 10.0  # by then the host has lost its patience
LARGEST_ORDER = 1 << 32
GLANCE_S = 0.002
CLOSE_ON_EXEC = 0x40000000  # MSG_CMSG_CLOEXEC
MOST_GIVEN = 64  # bytes, with what the kernel puts before them


class Gone(BaseException):
    """The host has closed its end."""


class Warden:
    """Args:
    sock: the socket to the host.
    spawner: how commands are started.
    """

    def __init__(self, sock: _socket.socket, spawner: Spawner) -> None:
        self._sock = sock
        self._spawner = spawner
        self._reader = frames.Reader(LARGEST_ORDER)
        self._orders: list[tuple[object, ...]] = []
        self._given: list[int] = []
        self._wake, waker = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        self._nothing = posix.open("/dev/null", posix.O_RDONLY | posix.O_CLOEXEC)
        self.listen(False)
        _signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda number, stack: None)
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._poll.register(sock.fileno(), select.POLLIN)
        self._main = 0
        self._status: int | None = None
        self._alive = False
        self._cpu_s = 0.0
        self._maxrss = 0

    def serve(self) -> None:
        """Say hello, then carry out orders until the host is gone or something stays behind."""
        self._sock.sendall(frames.to_host([frames.HELLO], []))
        while True:
            match self.next_order():
                case ("run", *order):
                    if not self.run(*order):  # type: ignore[arg-type]
                        return
                case ("shell", int(serial), bytes(path), dict(env), bytes(cwd)):
                    self._serve_shell(serial, path, env, cwd)
                    return
                case _:
                    pass  # meant for a command that has ended

    def _serve_shell(self, serial: int, path: bytes, env: dict[bytes, bytes], cwd: bytes) -> None:
        from arl_tangram.executors.inside.shell import Shell  # noqa: PLC0415  needs this module

        try:
            shell = Shell(self, path, env, cwd, self._given[0])
        except OSError as error:
            self._report_unstarted(serial, error, path, cwd)
            return
        finally:
            self._let_go(1)
        self._sock.sendall(frames.to_host([frames.RESULT, serial], [b""] * frames.TEXTS))
        shell.serve()

    def next_order(self) -> "tuple[object, ...]":
        """Wait for the next order, reaping meanwhile."""
        while not self._orders:
            for fd, _ in self._poll.poll():
                self.attend(fd)
        return self._orders.pop(0)

    @property
    def waits(self) -> "tuple[int, int]":
        """The descriptors to wait on besides the outputs; `attend` takes care of them."""
        return (self._wake, self._sock.fileno())

    @property
    def status(self) -> "int | None":
        """The exit status of the main process, once it has ended."""
        return self._status

    def attend(self, fd: int) -> None:
        """Do what is due when one of `waits` is ready."""
        if fd == self._wake:
            self.reap()
        else:
            self._receive()

    def _receive(self) -> None:
        data, ancillary, _, _ = self._sock.recvmsg(CHUNK, MOST_GIVEN, CLOSE_ON_EXEC)
        if not data:
            raise Gone
        for _, _, content in ancillary:
            self._given += memoryview(content).cast("i")
        self._orders += map(marshal.loads, self._reader.feed(data))

    def run(  # noqa: PLR0917  an order has these parts
        self,
        serial: int,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
        given: "tuple[int, ...]",
        cores: "tuple[int, ...]",
        idle_s: "float | None",
        limit: int,
    ) -> bool:
        """Run one command and report; False when this warden has done its last.

        What was sent with the order becomes the descriptors `given`.
        """
        out, err = Capture(limit), Capture(limit)
        self.begin()
        began = time.monotonic()
        try:
            self._start_with(argv, env, cwd, given, cores, out, err)
        except (OSError, ValueError) as error:
            out.close()
            err.close()
            self._report_unstarted(serial, error, argv[0], cwd)
            return True
        out.close_writing()
        err.close_writing()
        captures = {out.reading: out, err.reading: err}
        flags = 0
        if not self._glance():
            for fd in captures:
                self._poll.register(fd, select.POLLIN)
            self.listen(True)
            flags = self._watch(serial, dict(captures), idle_s)
            self.listen(False)
            for fd, capture in captures.items():
                if not capture.ended:
                    self._poll.unregister(fd)
        run_us = int((time.monotonic() - began) * 1e6)
        out.drain()
        err.drain()
        if self._alive:
            flags |= frames.LEFT
        self.report(serial, self._status or 0, flags, run_us, out, err)
        if self._alive:
            self.linger([out, err])
            return False
        out.close()
        err.close()
        return True

    def _start_with(  # noqa: PLR0917
        self,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
        given: "tuple[int, ...]",
        cores: "tuple[int, ...]",
        out: Capture,
        err: Capture,
    ) -> None:
        fds = [(self._nothing, 0), (out.writing, 1), (err.writing, 2)]
        fds += zip(self._given, given, strict=False)  # it may hold those of the next order
        try:
            self._spawner.pin(cores)
            self.start(argv, env, cwd, fds)
        finally:
            self._let_go(len(given))

    def _answer(self) -> None:
        """Take the orders that mean those in the background."""
        while self._orders:
            match self._orders.pop(0):
                case ("still", int(serial)):
                    self.tell_what_lives(serial, frozenset())
                case _:
                    pass  # meant for the command that has ended

    def tell_what_lives(self, serial: int, spared: frozenset[int]) -> None:
        """Report whether anything but the spared lives, when what has been killed is gone."""
        deadline = time.monotonic() + DYING_S
        while True:
            self.reap()
            below = [p for p in tree.descendants(posix.getpid()) if p not in spared]
            if not tree.dying(below) or time.monotonic() > deadline:
                break
            self.wait_for_child(5)
        flags = frames.LEFT if tree.living(below) else 0
        numbers = [frames.RESULT, serial, 0, flags]
        self._sock.sendall(frames.to_host(numbers, [b""] * frames.TEXTS))

    def _let_go(self, count: int) -> None:
        """Close what was sent with the order that is being carried out."""
        for fd in self._given[:count]:
            posix.close(fd)
        del self._given[:count]

    def listen(self, on: bool) -> None:  # noqa: FBT001
        """Whether the end of a child interrupts what this process waits for."""
        how = _signal.SIG_UNBLOCK if on else _signal.SIG_BLOCK
        _signal.pthread_sigmask(how, (_signal.SIGCHLD,))

    def _glance(self) -> bool:
        """Whether the main process ends at once: most do, and need no more than this wait."""
        _signal.sigtimedwait((_signal.SIGCHLD,), GLANCE_S)
        self.reap()
        return self._status is not None

    def begin(self) -> None:
        """Count processor time anew."""
        self._cpu_s, self._maxrss = 0.0, 0

    def start(
        self,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
        fds: list[tuple[int, int]],
    ) -> int:
        """Start the main process; returns its id."""
        self._status = None
        self._main = self._spawner.start(argv, env, cwd, fds)
        return self._main

    def _watch(self, serial: int, captures: dict[int, Capture], idle_s: "float | None") -> int:
        flags = 0
        heard = time.monotonic()
        wait: float | None = None
        while self._status is None:
            if self.stop_ordered(serial):
                return flags | frames.KILLED | self.end_all()
            if idle_s is not None:
                wait = max(0.0, (heard + idle_s - time.monotonic()) * 1000 + 1)
                wait = min(wait, 1e9)  # poll(2) takes no more, and it is asked again
            ready = self._poll.poll(wait)
            for fd, _ in ready:
                if fd in self.waits:
                    self.attend(fd)
                elif captures[fd].pull():
                    heard = time.monotonic()
                else:
                    self._poll.unregister(fd)
            if idle_s is not None and not ready and time.monotonic() >= heard + idle_s:
                return flags | frames.IDLE | self.end_all()
        return flags

    def stop_ordered(self, serial: int) -> bool:
        """Whether the host wants the running command ended; new cores are seen to on the way."""
        stop = False
        while self._orders:
            match self._orders.pop(0):
                case ("kill", which) if which == serial:
                    stop = True
                case ("pin", which, cores) if which == serial:
                    self.pin_running(cores)  # type: ignore[arg-type]
                case _:
                    pass
        return stop

    def pin_running(self, cores: "tuple[int, ...]") -> None:
        """Move what runs to these cores."""
        self._spawner.pin(cores)
        for pid in tree.descendants(posix.getpid()):
            for thread in tree.threads(pid):
                try:
                    posix.sched_setaffinity(int(thread), cores)
                except OSError:
                    pass

    def end_all(self) -> int:
        """Kill everything below this warden and wait, a bounded time, until it is gone."""
        deadline = time.monotonic() + END_WAIT_S
        me = posix.getpid()
        while True:
            tree.end_below(me)
            self.reap()
            if not self._alive:
                return 0
            if time.monotonic() > deadline:
                if self._status is None:
                    self._status = 137
                return frames.UNKILLABLE
            self.wait_for_child(5)

    def settle(self, spared: frozenset[int]) -> None:
        """Wait, a bounded time, until of the killed ones only the spared are left."""
        deadline = time.monotonic() + END_WAIT_S
        while time.monotonic() < deadline:
            self.reap()
            below = tree.descendants(posix.getpid())
            if not tree.living([p for p in below if p not in spared]):
                return
            self.wait_for_child(5)

    def wait_for_child(self, milliseconds: float) -> None:
        """Wait, a bounded time, until a child has ended."""
        waker = select.poll()
        waker.register(self._wake, select.POLLIN)
        waker.poll(milliseconds)

    def reap(self) -> None:
        """Collect every child that has ended, and note whether any is left."""
        try:
            posix.read(self._wake, 4096)
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status, usage = posix.wait4(-1, posix.WNOHANG)
            except ChildProcessError:
                self._alive = False
                return
            if not pid:
                self._alive = True
                return
            self._cpu_s += usage.ru_utime + usage.ru_stime
            self._maxrss = max(self._maxrss, usage.ru_maxrss)
            if pid == self._main:
                code = posix.waitstatus_to_exitcode(status)
                self._status = code if code >= 0 else 128 - code
                self._main = 0

    def report(  # noqa: PLR0917
        self, serial: int, status: int, flags: int, run_us: int, out: Capture, err: Capture
    ) -> None:
        numbers = [frames.RESULT, serial, status, flags, run_us, int(self._cpu_s * 1e6)]
        numbers += [self._maxrss, out.total, err.total]
        self._sock.sendall(frames.to_host(numbers, [*out.kept(), *err.kept(), b""]))

    def _report_unstarted(self, serial: int, error: Exception, name: bytes, cwd: bytes) -> None:
        number = error.errno if isinstance(error, OSError) else 0
        folder = isinstance(error, OSError) and error.filename == cwd
        status = -1 if folder else {2: 127, 7: 126, 8: 126, 13: 126}.get(number or 0, -1)
        what = cwd if folder else name[:200]
        text = error.strerror if isinstance(error, OSError) else str(error)
        reason = what.decode(errors="replace") + ": " + str(text)
        numbers = [frames.RESULT, serial, status, frames.NEVER_RAN]
        texts = [b"", b"", b"", b"", reason.encode(errors="replace")]
        self._sock.sendall(frames.to_host(numbers, texts))

    def linger(self, captures: list[Capture]) -> None:
        """Stay as the parent of what was left in the background, and take its output."""
        open_captures = {capture.reading: capture for capture in captures if not capture.ended}
        for fd in open_captures:
            self._poll.register(fd, select.POLLIN)
        self.listen(True)
        self.reap()
        while self._alive:
            for fd, _ in self._poll.poll():
                if fd in self.waits:
                    self.attend(fd)
                    self._answer()
                    continue
                capture = open_captures[fd]
                capture.begin(0)
                if not capture.pull():
                    self._poll.unregister(fd)
