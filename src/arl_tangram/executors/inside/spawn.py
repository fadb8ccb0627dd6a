"""Starting a command so that it has its grant, its user and nothing of its warden's."""

import posix

# What a warden or Python ignores, which would be handed on; what is handled is not.
_IGNORED = [1, 2, 3, 10, 12, 13, 15, 25]


class Spawner:
    """Starts the commands of one warden.

    Args:
        user: the user and group id that commands run as; None means the warden's own.
        oom: a writable descriptor of the warden's own `oom_score_adj`; -1 if there is none.
    """

    def __init__(self, user: "int | None", oom: int) -> None:
        self._user = user
        self._oom = oom
        self._pinned = False

    def pin(self, cores: "tuple[int, ...]") -> None:
        """Give the commands started from now on these cores; none means all that there are."""
        if cores or self._pinned:
            try:
                posix.sched_setaffinity(0, cores or range(posix.cpu_count() or 1))
                self._pinned = bool(cores)
            except OSError:
                pass  # a core that is not ours to use; the quota still holds

    def start(
        self,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
        fds: list[tuple[int, int]],
    ) -> int:
        """Start it with `fds` as (ours, its); returns its pid, raises `OSError` if it cannot be."""
        path = self._find(argv[0], env.get(b"PATH", b"/usr/bin:/bin"), cwd)
        posix.chdir(cwd)
        self._lower()
        try:
            return posix.posix_spawn(
                path,
                argv,
                env,
                file_actions=[(posix.POSIX_SPAWN_DUP2, ours, its) for ours, its in fds],
                setpgroup=0,  # a session of its own would cost more than all the rest
                resetids=self._user is not None,
                setsigmask=[],
                setsigdef=_IGNORED,
            )
        finally:
            self._raise()

    def _find(self, name: bytes, path: bytes, cwd: bytes) -> bytes:
        if b"/" in name:
            return name
        denied = None
        for folder in path.split(b":"):
            candidate = (folder or cwd) + b"/" + name
            if posix.access(candidate, posix.X_OK):
                return candidate
            if posix.access(candidate, posix.F_OK):
                denied = candidate
        if denied:
            raise PermissionError(13, "Permission denied", denied)
        raise FileNotFoundError(2, "command not found", name)

    def _lower(self) -> None:
        # Only while a command starts does the warden carry its user id and its place in the queue
        # of the out-of-memory killer; so it cannot be killed by a command that runs.
        if self._oom >= 0:
            posix.pwrite(self._oom, b"500", 0)
        if self._user is not None:
            posix.setresgid(self._user, 0, 0)
            posix.setresuid(self._user, 0, 0)

    def _raise(self) -> None:
        if self._user is not None:
            posix.setresuid(0, 0, 0)
            posix.setresgid(0, 0, 0)
        if self._oom >= 0:
            posix.pwrite(self._oom, b"0", 0)
