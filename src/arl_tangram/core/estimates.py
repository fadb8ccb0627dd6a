"""How long actions are expected to last, learned from what finished."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .model import Action, ActionId, Outcome, Seconds
from .speedup import Amdahl, Roofline, Speedup

#: Expected work of a kind that nothing is known about at all.
PRIOR_WORK_S = 1.0
#: Weight of the prior, in observations: a kind's first few samples move the estimate gently.
PRIOR_WEIGHT = 1.0
#: Spread (sigma of ln seconds) assumed until a kind has shown its own.
PRIOR_SIGMA = 1.0
#: Shorter durations are all the same to a scheduler, and the logarithm needs a floor.
SHORTEST_S = 1e-4
#: How often each of two widths must be seen before a speed-up is fitted to them.
WIDTH_SAMPLES = 3


class Running(Protocol):
    """What estimates need to know of a running action."""

    @property
    def action(self) -> Action:
        """What was asked for."""

    def done_by(self, now: Seconds) -> Seconds:
        """Work done by now."""


class Estimates(Protocol):
    """What a policy may believe about durations. Work is in seconds on one unit."""

    def work(self, action: Action) -> Seconds:
        """Expected work of an action that has not started."""

    def remaining(self, action: Action, done: Seconds) -> Seconds:
        """Expected work left once `done` seconds of it are behind; above zero."""

    def left(self, entries: Sequence[Running], now: Seconds) -> list[Seconds]:
        """`remaining` of several running actions at once."""

    def speedup(self, action: Action) -> Speedup:
        """The speed-up curve to believe in: what the action says, else what was learned."""

    def observe(
        self, action: Action, *, work: Seconds, outcome: Outcome, units: int, run_s: Seconds
    ) -> None:
        """Learn from an attempt that ended; `units` is 0 if it held several widths."""


@dataclass(slots=True)
class LogNormal:
    """The log-normal fit of one kind's work, with the timeouts as an atom of their own.

    Tool durations have a coefficient of variation of 3 to 6, and some run into a limit. Moments of
    the logarithm are not moved by one huge value, and the atom keeps limits out of the fit. The
    mean residual life of a log-normal has a closed form,
    ``E[W | W > d] = exp(mu + sigma^2 / 2) * Q((ln d - mu - sigma^2) / sigma) / Q((ln d - mu) / sigma)``
    with Q the upper tail of the standard normal distribution.
    """

    weight: float = PRIOR_WEIGHT
    mean: float = math.log(PRIOR_WORK_S)
    square: float = PRIOR_WEIGHT * PRIOR_SIGMA**2
    timeouts: int = 0
    timeout_total_s: float = 0.0
    _fit: tuple[float, float, float, float] | None = field(default=None, repr=False, compare=False)

    def add(self, work: Seconds, *, timed_out: bool) -> None:
        """Take one finished attempt into account (Welford's update of the log-moments)."""
        self._fit = None
        if timed_out:
            self.timeouts += 1
            self.timeout_total_s += work
            return
        value = math.log(max(work, SHORTEST_S))
        self.weight += 1.0
        delta = value - self.mean
        self.mean += delta / self.weight
        self.square += delta * (value - self.mean)

    @property
    def expected(self) -> Seconds:
        """The mean work."""
        return (self._fit or self._refit())[3]

    def remaining(self, done: Seconds) -> Seconds:
        """The mean work left after `done`."""
        spread, shift, body, expected = self._fit or self._refit()
        if done <= SHORTEST_S:
            return expected
        z = (math.log(done) - self.mean) / spread
        # Both are counted in observations, so that the timeouts simply add up with them.
        alive = 0.5 * self.weight * math.erfc(z)
        total = 0.5 * self.weight * body * math.erfc(z - shift)
        if self.timeouts and self.timeout_total_s > done * self.timeouts:
            alive += self.timeouts
            total += self.timeout_total_s
        if alive < _UNHEARD_OF:
            return done  # older than anything known: it may well last as long again
        return max(total / alive - done, SHORTEST_S)

    def _refit(self) -> tuple[float, float, float, float]:
        """sigma * sqrt(2), sigma / sqrt(2), the mean of the log-normal, and that of everything."""
        variance = self.square / self.weight
        sigma = max(math.sqrt(variance), 1e-3)
        body = math.exp(min(self.mean + variance / 2, 40.0))
        total = body * self.weight + self.timeout_total_s
        expected = total / (self.weight + self.timeouts)
        self._fit = (sigma * _SQRT2, sigma / _SQRT2, body, expected)
        return self._fit


#: No sum of durations, and no logarithm of one, is larger; the arithmetic here cannot overflow.
_MOST, _MOST_LOG = 1e18, 100.0
_SQRT2 = math.sqrt(2.0)
_UNHEARD_OF = 1e-9


@dataclass(slots=True)
class Widths:
    """Durations by width, and the serial share that explains them best.

    Amdahl's law says ``t(k) = a + b / k``, so a least-squares line through the mean durations over
    1/k gives the serial share ``a / (a + b)``.
    """

    seen: dict[int, tuple[int, float]] = field(default_factory=dict)  # width: samples, mean ln s

    def add(self, units: int, run_s: Seconds) -> None:
        """Take one run on a constant number of units into account."""
        count, mean = self.seen.get(units, (0, 0.0))
        value = math.log(max(run_s, SHORTEST_S))
        self.seen[units] = (count + 1, mean + (value - mean) / (count + 1))

    def serial(self) -> float | None:
        """The serial share, in hundredths; None until two widths have enough samples."""
        rows = [
            (1.0 / units, math.exp(mean), count)
            for units, (count, mean) in sorted(self.seen.items())
            if count >= WIDTH_SAMPLES
        ]
        if len(rows) < 2:
            return None
        total = sum(n for _, _, n in rows)
        mean_x = sum(x * n for x, _, n in rows) / total
        mean_t = sum(t * n for _, t, n in rows) / total
        slope = sum(n * (x - mean_x) * (t - mean_t) for x, t, n in rows)
        b = slope / sum(n * (x - mean_x) ** 2 for x, _, n in rows)
        a = mean_t - b * mean_x
        if b <= 0:
            return 1.0
        return round(min(max(a / (a + b), 0.0), 1.0), 2)


class Learned:
    """Estimates from the attempts that ended, by task and kind; an unknown task borrows its kind's.

    Nothing has to be profiled beforehand; `to_json` and `from_json` carry it to the next run.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], LogNormal] = {}
        self._widths: dict[tuple[str, str], Widths] = {}

    def work(self, action: Action) -> Seconds:
        """Expected work of an action that has not started."""
        return self._of(action).expected

    def remaining(self, action: Action, done: Seconds) -> Seconds:
        """Expected work left once `done` seconds of it are behind; above zero."""
        return self._of(action).remaining(done)

    def left(self, entries: Sequence[Running], now: Seconds) -> list[Seconds]:
        """`remaining` of several running actions at once."""
        return [self._of(entry.action).remaining(entry.done_by(now)) for entry in entries]

    def speedup(self, action: Action) -> Speedup:
        """What the action says; else an Amdahl curve if several widths were seen; else linear."""
        if action.elastic is None:
            return _RIGID
        if action.elastic.speedup is not None:
            return action.elastic.speedup
        widths = self._widths.get((action.task, action.kind))
        serial = widths.serial() if widths else None
        if serial is None:
            return Roofline(cap=float(action.elastic.most))
        return Amdahl(serial=serial)

    def observe(
        self, action: Action, *, work: Seconds, outcome: Outcome, units: int, run_s: Seconds
    ) -> None:
        """Learn from an attempt that ended by itself or at its limit; others teach nothing."""
        if outcome not in _TELLING:
            return
        timed_out = outcome is Outcome.TIMED_OUT
        for key in ((action.task, action.kind), (_ANY_TASK, action.kind)):
            known = self._kinds.get(key)
            if known is None:
                known = self._kinds[key] = LogNormal()
            known.add(work, timed_out=timed_out)
        if action.elastic and action.elastic.speedup is None and units and not timed_out:
            self._widths.setdefault((action.task, action.kind), Widths()).add(units, run_s)

    def to_json(self) -> dict[str, Any]:
        """Everything learned, as JSON values."""
        return {
            "version": 1,
            "kinds": [
                {
                    "task": task,
                    "kind": kind,
                    "weight": known.weight,
                    "mean": known.mean,
                    "square": known.square,
                    "timeouts": known.timeouts,
                    "timeout_total_s": known.timeout_total_s,
                }
                for (task, kind), known in sorted(self._kinds.items())
            ],
            "widths": [
                {"task": task, "kind": kind, "seen": {str(k): list(v) for k, v in w.seen.items()}}
                for (task, kind), w in sorted(self._widths.items())
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Learned:
        """What `to_json` gave. Raises `ValueError` naming what is wrong."""
        given: object = data
        version = given.get("version") if isinstance(given, Mapping) else None
        if version != 1:
            raise ValueError(f"version={version!r}: this profile is not of version 1")
        learned = cls()
        row: Any = "what it holds"
        try:
            for row in data["kinds"]:
                learned._kinds[str(row["task"]), str(row["kind"])] = LogNormal(
                    weight=_number(row["weight"], "weight", least=PRIOR_WEIGHT),
                    mean=_number(row["mean"], "mean", least=-_MOST_LOG, most=_MOST_LOG),
                    square=_number(row["square"], "square", least=0.0),
                    timeouts=int(_number(row["timeouts"], "timeouts", least=0.0)),
                    timeout_total_s=_number(row["timeout_total_s"], "timeout_total_s", least=0.0),
                )
            for row in data["widths"]:
                learned._widths[str(row["task"]), str(row["kind"])] = Widths(
                    seen={
                        int(_number(units, "units", least=1.0)): (
                            int(_number(samples, "samples", least=1.0)),
                            _number(mean, "mean", least=-_MOST_LOG, most=_MOST_LOG),
                        )
                        for units, (samples, mean) in row["seen"].items()
                    }
                )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(f"the profile is damaged at {row!r}: {error!r}") from error
        return learned

    def _of(self, action: Action) -> LogNormal:
        return (
            self._kinds.get((action.task, action.kind))
            or self._kinds.get((_ANY_TASK, action.kind))
            or _UNKNOWN
        )


class Oracle:
    """The true work of every action, for comparisons in the simulator only."""

    def __init__(self, work: Mapping[ActionId, Seconds]) -> None:
        self._work = work

    def work(self, action: Action) -> Seconds:
        """The true work."""
        return max(self._work[action.id], SHORTEST_S)

    def remaining(self, action: Action, done: Seconds) -> Seconds:
        """The true work left."""
        return max(self._work[action.id] - done, SHORTEST_S)

    def left(self, entries: Sequence[Running], now: Seconds) -> list[Seconds]:
        """`remaining` of several running actions at once."""
        return [self.remaining(entry.action, entry.done_by(now)) for entry in entries]

    def speedup(self, action: Action) -> Speedup:
        """What the action says; linear if it says nothing."""
        if action.elastic is None:
            return _RIGID
        return action.elastic.speedup or Roofline(cap=float(action.elastic.most))

    def observe(
        self, action: Action, *, work: Seconds, outcome: Outcome, units: int, run_s: Seconds
    ) -> None:
        """An oracle has nothing to learn."""


def _number(value: Any, name: str, *, least: float = -_MOST, most: float = _MOST) -> float:
    number = float(value)
    if not least <= number <= most:
        raise ValueError(f"{name}={value!r}")
    return number


_ANY_TASK = ""  # no task has this name
_RIGID = Roofline(cap=1.0)
_UNKNOWN = LogNormal()
_TELLING = frozenset({Outcome.SUCCEEDED, Outcome.FAILED, Outcome.TIMED_OUT})
