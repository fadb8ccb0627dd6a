"""How an action ended, for whoever asked for it, with an exact account of its time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Self

from ..core.model import ActionId, Outcome, Seconds
from ..errors import (
    ActionCancelled,
    ActionError,
    ActionFailed,
    ActionLost,
    ActionOutOfMemory,
    ActionRejected,
    ActionTimedOut,
)

_TAIL_CHARACTERS = 2_000
_RAISED = {
    Outcome.FAILED: ActionFailed,
    Outcome.TIMED_OUT: ActionTimedOut,
    Outcome.OUT_OF_MEMORY: ActionOutOfMemory,
    Outcome.CANCELLED: ActionCancelled,
    Outcome.REJECTED: ActionRejected,
    Outcome.LOST: ActionLost,
}


class Timing(NamedTuple):
    """Where the time of an action went, in seconds.

    Attributes:
        queued_s: waiting for resources; never counted against a time limit.
        overhead_s: the rest: starting and ending it, and attempts that were lost.
        run_s: the command itself, in the attempt that counted.
    """

    queued_s: Seconds
    overhead_s: Seconds
    run_s: Seconds

    @property
    def act_s(self) -> Seconds:
        """The action completion time: ``queued_s + overhead_s + run_s``."""
        return self.queued_s + self.overhead_s + self.run_s


class Usage(NamedTuple):
    """What an action used, and what was kept for it.

    Attributes:
        cpu_s: processor seconds it used, as far as they can be told apart.
        peak_memory_bytes: the most its environment held while it ran; 0 if unknown.
        unit_s: units times the seconds it held them, over all attempts.
    """

    cpu_s: Seconds = 0.0
    peak_memory_bytes: int = 0
    unit_s: Seconds = 0.0


class Held(NamedTuple):
    """From `at_s` seconds after its start, an action held this many cores (units)."""

    at_s: Seconds
    cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How an action ended.

    Attributes:
        outcome: who or what ended it; a failing command is `FAILED`, never an exception.
        exit_code: the command's status, 128 + n if signal n ended it; None if it never ran.
        raw_stdout: what it printed; head and tail around a marker line if `truncated`.
        stdout_bytes: how much it printed in all.
        reason: why it ended so, in one sentence; empty on success.
        grants: every amount it held in its last attempt.
        attempts: how often it was started.
        node: where it ran last; empty if it never ran.
        enforcement: how its grant was enforced, in one word.
        state_survived: whether the environment's files and background processes are intact.
    """

    id: ActionId
    outcome: Outcome
    timing: Timing
    exit_code: int | None = None
    raw_stdout: bytes = field(default=b"", repr=False)
    raw_stderr: bytes = field(default=b"", repr=False)
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    truncated: bool = False
    reason: str = ""
    usage: Usage = Usage()
    grants: tuple[Held, ...] = ()
    attempts: int = 0
    node: str = ""
    enforcement: str = ""
    state_survived: bool = True

    @property
    def stdout(self) -> str:
        """What it printed, as text; bytes that are no UTF-8 show as U+FFFD."""
        return self.raw_stdout.decode(errors="replace")

    @property
    def stderr(self) -> str:
        """What it printed to standard error, as text."""
        return self.raw_stderr.decode(errors="replace")

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.outcome is Outcome.SUCCEEDED

    def check(self) -> Self:
        """Return the result if it succeeded, else raise the `ActionError` of its outcome."""
        if self.ok:
            return self
        raise self.error()

    def error(self) -> ActionError:
        """The exception that stands for the outcome of an action that did not succeed."""
        tail = (self.stderr.strip() or self.stdout.strip())[-_TAIL_CHARACTERS:]
        return error_of(self.id, self.outcome, reason=self.reason, tail=tail)


def error_of(identity: ActionId, outcome: Outcome, *, reason: str, tail: str = "") -> ActionError:
    """The exception that stands for an outcome other than success."""
    message = f"{identity} {outcome.value.replace('_', ' ')}"
    if reason:
        message += f": {reason}"
    return _RAISED[outcome](
        f"{message}\n{tail}" if tail else message, outcome=outcome.value, output_tail=tail
    )
