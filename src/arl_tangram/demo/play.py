"""Plays the rollouts of a step under one policy, for real: one environment each, all at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ..core.model import Seconds
from ..errors import TangramError, Unavailable
from ..runtime.environment import Environment
from ..runtime.results import Result
from ..runtime.tangram import Tangram
from .ledger import Ledger, Span
from .plan import STEP_WORK, Rollout
from .played import STATIC, Act, Played, Told
from .recordings import REWARD_COMMAND, Turn, reward_of
from .setting import STATIC_UNITS, Setting

REWARD = "reward"
MEMORY = "192MiB"


async def play(
    rollouts: Sequence[Rollout], policy: str, *, setting: Setting, told: Told = lambda: None
) -> Played:
    """Play a step to its end.

    Args:
        rollouts: all of them arrive at once.
        policy: `static` gives each environment its own units for life.
        setting: the units there are.
        told: called after every action.
    """
    ledger = Ledger()
    async with _local(setting, policy, ledger) as tangram:
        began = time.monotonic()
        stage = _Stage(tangram, ledger, setting, told, owned=policy == STATIC)
        try:
            async with asyncio.TaskGroup() as group:
                for rollout in rollouts:
                    group.create_task(stage.play(rollout))
        except* TangramError as errors:
            raise errors.exceptions[0] from None  # the others failed for the same reason
        step_s = time.monotonic() - began
    spans = tuple(_from(span, began) for span in ledger.spans)
    return Played(
        policy=policy,
        acts=tuple(stage.acts),
        rewards={rollout.id: stage.rewards.get(rollout.id) for rollout in rollouts},
        troubles=stage.troubles,
        lives_s=stage.lives_s,
        spans=spans,
        step_s=step_s,
        units=setting.units,
        units_reserved_s=sum(span.unit_s for span in spans),
        units_used_s=stage.cpu_s / setting.unit_cores,
        counts={},
    )


async def describe(setting: Setting) -> dict[str, str]:
    """This machine, and how grants are enforced and environments isolated on it."""
    async with _local(setting, STATIC, Ledger()) as tangram:
        described = dict(tangram.describe())
    del described["policy"]
    return described


def _local(setting: Setting, policy: str, ledger: Ledger) -> Tangram:
    return Tangram.local(
        cpus=setting.units, unit=setting.unit_cores, policy=policy, observers=[ledger]
    )


class _Stage:
    """What the rollouts of a step share."""

    def __init__(
        self, tangram: Tangram, ledger: Ledger, setting: Setting, told: Told, *, owned: bool
    ) -> None:
        self.acts: list[Act] = []
        self.cpu_s: Seconds = 0.0
        self.rewards: dict[str, float] = {}
        self.troubles: dict[str, str] = {}
        self.lives_s: dict[str, Seconds] = {}
        self._tangram = tangram
        self._ledger = ledger
        self._setting = setting
        self._told = told
        self._owned = owned

    async def play(self, rollout: Rollout) -> None:
        environment = self._tangram.environment(
            task="demo",
            trajectory=rollout.id,
            step="demo",
            memory=MEMORY,
            variables={"DEMO_WORK": str(STEP_WORK)},
            cpus=STATIC_UNITS if self._owned else None,
        )
        # The sandbox is asked for while the model thinks about its first action.
        making = asyncio.create_task(self._make(environment, rollout))
        try:
            await self._act_out(environment, rollout, making)
        except Unavailable as error:  # the sandbox broke: no reward, which is told, and not a zero
            self.troubles[rollout.id] = f"its environment is gone: {error}"
        finally:
            if not making.done():
                making.cancel()
            await asyncio.wait([making])
            await environment.close()

    async def _make(self, environment: Environment, rollout: Rollout) -> None:
        _ = await environment.open()
        for source in rollout.recording.sources:
            await environment.upload(source, ".")

    async def _act_out(
        self, environment: Environment, rollout: Rollout, making: asyncio.Task[None]
    ) -> None:
        turns = [*rollout.recording.turns, None]
        for turn, gap_s in zip(turns, rollout.gaps_s, strict=True):
            await asyncio.sleep(gap_s)
            wanted_at = time.monotonic()
            await making  # only the first action ever waits here
            submitted_at = time.monotonic()
            result = await self._run(environment, rollout, turn)
            placed_at = self._ledger.placed_at[environment.id]
            placing_s = max(0.0, placed_at - wanted_at)
            preparing_s = submitted_at - wanted_at - placing_s
            self.acts.append(
                Act(
                    trajectory=rollout.id,
                    kind=REWARD if turn is None else turn.kind,
                    outcome=result.outcome,
                    queue_s=placing_s + result.timing.queued_s,
                    overhead_s=preparing_s + result.timing.overhead_s,
                    run_s=result.timing.run_s,
                )
            )
            self.cpu_s += result.usage.cpu_s
            self._told()
            if turn is None:
                self.lives_s[rollout.id] = time.monotonic() - placed_at
                self._note_reward(rollout, result)
            elif turn.outcome is not result.outcome:
                self.troubles.setdefault(
                    rollout.id,
                    f"{turn.command[:60]!r} was recorded as {turn.outcome.value} and "
                    f"{_story(result)}",
                )

    async def _run(self, environment: Environment, rollout: Rollout, turn: Turn | None) -> Result:
        if turn is None:
            return await environment.run(
                REWARD_COMMAND,
                kind=REWARD,
                cpus=(1, self._setting.units),
                variables={"DEMO_WORK": f"{rollout.work:.5f}"},
            )
        return await environment.run(
            turn.command,
            kind=turn.kind,
            cpus=(1, self._setting.core_units),
            timeout=turn.timeout_s,
        )

    def _note_reward(self, rollout: Rollout, result: Result) -> None:
        try:
            self.rewards[rollout.id] = reward_of(result.stdout)
        except ValueError:
            self.troubles[rollout.id] = f"its suite {_story(result)}"


def _story(result: Result) -> str:
    tail = result.stderr.strip() or result.stdout.strip()
    return f"ended as {result.outcome.value}: {result.reason or tail[-300:]}"


def _from(span: Span, began: Seconds) -> Span:
    ended_at = None if span.ended_at is None else span.ended_at - began
    held = [(at - began, units) for at, units in span.held]
    return Span(span.trajectory, span.kind, held=held, ended_at=ended_at)
