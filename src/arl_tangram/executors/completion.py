"""From a warden's report to how a command ended: whose doing it was, and what it printed."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from ..core.model import Outcome, Seconds
from .inside import frames
from .port import MIB, Completion, Invocation
from .warden import Report

_WORDS_OF_WANT = (b"MemoryError", b"Cannot allocate memory", b"std::bad_alloc", b"out of memory")
_WORDS_OF_A_KILL = (b"Killed", b"killed", b"SIGKILL", b"signal 9", b"137")
KILLED_STATUS = 128 + signal.SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the host knows about a command's end besides its warden's report.

    Attributes:
        stopped: why it was told to end, if it was.
        warden_trouble: how its warden broke down, if it did.
        environment_died: whether the whole environment is gone.
        oom_kills: how many processes were killed for want of memory while it ran.
        crowded: whether another command ran in its environment meanwhile.
        background_lost: whether all of what an earlier command had left behind has ended.
        peak: the most bytes the environment held; 0 if unknown.
        memory_limited: whether the kernel limits the environment's memory as a whole.
        memory_mib: the environment's memory limit, if it has one.
    """

    stopped: Outcome | None
    environment_died: bool
    warden_trouble: str
    oom_kills: int
    crowded: bool
    background_lost: bool
    peak: int
    memory_limited: bool
    memory_mib: int | None


def conclude(report: Report | None, invocation: Invocation, around: Circumstances) -> Completion:
    """How the command ended; `report` is None when its warden was lost."""
    if report is None:
        return _lost(invocation, around)
    stdout, cut_out = join(report.stdout, report.stdout_bytes)
    stderr, cut_err = join(report.stderr, report.stderr_bytes)
    outcome, reason = _judge(report, invocation, around.stopped)
    if outcome is Outcome.FAILED and around.memory_mib is not None:
        wanting = not around.memory_limited and any(w in stderr[-4096:] for w in _WORDS_OF_WANT)
        if wanting or _was_hit(report, stderr, around):
            outcome, reason = Outcome.OUT_OF_MEMORY, _memory_reason(around.memory_mib, around.peak)
        elif around.oom_kills and around.background_lost:
            reason += "; what had been left in the background was ended for want of memory"
    if report.flags & frames.UNKILLABLE:
        reason += "; some of its processes could not be ended"
    return Completion(
        outcome=outcome,
        exit_code=report.status if report.status >= 0 else None,
        stdout=stdout,
        stderr=stderr,
        stdout_bytes=report.stdout_bytes,
        stderr_bytes=report.stderr_bytes,
        truncated=cut_out or cut_err,
        reason=reason,
        run_s=report.run_us / 1e6,
        cpu_s=report.cpu_us / 1e6,
        peak_memory_bytes=around.peak or report.maxrss_kib * 1024,
        state_survived=not report.flags & frames.SHELL_LOST
        and not (around.oom_kills and around.background_lost),
    )


def _was_hit(report: Report, stderr: bytes, around: Circumstances) -> bool:
    """Whether a process of this command was killed for want of memory, as far as can be known.

    The kernel counts for the whole environment. Where something else in it may have been hit, the
    command's own end has to tell.
    """
    if around.oom_kills > 0 and (around.crowded or around.background_lost):
        return report.status == KILLED_STATUS or any(w in stderr[-4096:] for w in _WORDS_OF_A_KILL)
    return around.oom_kills > 0


def _judge(report: Report, invocation: Invocation, stopped: Outcome | None) -> tuple[Outcome, str]:
    if report.flags & frames.KILLED or (stopped is not None and report.status == KILLED_STATUS):
        return _ordered(stopped, invocation)
    if report.flags & frames.IDLE:
        return Outcome.TIMED_OUT, f"printed nothing for {_seconds(invocation.idle_timeout_s)}"
    if report.flags & frames.NEVER_RAN:
        return Outcome.FAILED, f"could not be started: {report.reason}"
    if report.status == 0:
        return Outcome.SUCCEEDED, ""
    if report.status > 128 and report.status - 128 in signal.valid_signals():
        number = report.status - 128
        return Outcome.FAILED, f"exit status {report.status}, as after {signal_name(number)}"
    return Outcome.FAILED, f"exit status {report.status}"


def _ordered(stopped: Outcome | None, invocation: Invocation) -> tuple[Outcome, str]:
    if stopped is Outcome.TIMED_OUT:
        limit = _seconds(invocation.timeout_s)
        return Outcome.TIMED_OUT, f"ran into its time limit of {limit}"
    return Outcome.CANCELLED, "was told to stop"


def _lost(invocation: Invocation, around: Circumstances) -> Completion:
    if around.oom_kills > 0 and around.memory_mib is not None:
        outcome, reason = Outcome.OUT_OF_MEMORY, _memory_reason(around.memory_mib, around.peak)
    elif around.stopped is not None:
        outcome, reason = _ordered(around.stopped, invocation)
        reason += "; it did not let go, so its environment was ended"
    elif around.environment_died:
        outcome, reason = Outcome.LOST, "its environment ended under it"
    elif around.warden_trouble:
        outcome, reason = Outcome.LOST, f"its warden broke down: {around.warden_trouble}"
    else:
        outcome, reason = Outcome.FAILED, "it killed the process that watched over it"
    return Completion(
        outcome=outcome,
        exit_code=None if outcome is Outcome.LOST else KILLED_STATUS,
        reason=reason,
        peak_memory_bytes=around.peak,
        state_survived=not around.environment_died,
    )


def join(kept: tuple[bytes, bytes], total: int) -> tuple[bytes, bool]:
    """Head and tail as one text, with a line between that says what is missing, if anything is."""
    head, tail = kept
    if total <= len(head) + len(tail):
        return head + tail, False
    head, tail = _whole_end(head), _whole_start(tail)
    missing = total - len(head) - len(tail)
    return head + b"\n[... %d bytes left out ...]\n" % missing + tail, True


def _whole_end(text: bytes) -> bytes:
    """The text without a character that is cut off at its end."""
    for back in range(1, min(4, len(text)) + 1):
        byte = text[-back]
        if byte & 0xC0 != 0x80:
            needs = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return text[:-back] if needs > back else text
    return text


def _whole_start(text: bytes) -> bytes:
    """The text without the rest of a character that is cut off at its start."""
    for skip in range(min(4, len(text))):
        if text[skip] & 0xC0 != 0x80:
            return text[skip:]
    return text


def signal_name(number: int) -> str:
    """A signal as people write it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _memory_reason(limit_mib: int, peak: int) -> str:
    held = f"; it held {peak / MIB:.0f} MiB at most" if peak else ""
    return f"ran into the memory limit of {limit_mib} MiB{held}"


def _seconds(span: Seconds | None) -> str:
    return f"{span:g} s"
