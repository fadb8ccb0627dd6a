from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from arl_tangram.demo.plan import Pace, plan
from arl_tangram.demo.play import REWARD, play
from arl_tangram.demo.recordings import Turn, recordings
from arl_tangram.demo.rehearsal import rehearse
from arl_tangram.demo.setting import setting_for
from arl_tangram.runtime.machine import this_machine

pytestmark = [pytest.mark.slow, pytest.mark.alone]
PACE = Pace(step_s={"bash": 0.02, "test": 0.1}, start_s=0.1, suite_s=2.0)
SETTING = setting_for(this_machine())
NAMES = ("lru_cache-1", "free_busy-3", "rate_limiter-4", "build_order-4", "csv_reader-1")
SOME = [recording for recording in recordings() if recording.name in NAMES]


def hurried(count: int) -> list:
    """Rollouts whose model does not think, and whose suites do next to nothing."""
    return [
        replace(rollout, gaps_s=tuple(0.0 for _ in rollout.gaps_s), work=0.01)
        for rollout in plan(SOME, count=count, seed=0, pace=PACE)
    ]


@pytest.mark.parametrize("policy", ["static", "tangram", "inflight"])
def test_rollouts_end_as_they_were_recorded_under_every_policy(policy: str) -> None:
    rollouts = hurried(5)
    told: list[None] = []

    played = asyncio.run(play(rollouts, policy, setting=SETTING, told=lambda: told.append(None)))

    assert {} == played.troubles
    assert {rollout.id: rollout.recording.reward for rollout in rollouts} == played.rewards
    assert sum(rollout.actions for rollout in rollouts) == len(played.acts) == len(told)
    assert 5 == sum(act.kind == REWARD for act in played.acts)
    assert all(span.ended_at is not None for span in played.spans)
    assert sum(span.unit_s for span in played.spans) == played.units_reserved_s
    assert 0 < played.units_used_s < SETTING.units * played.step_s
    assert all(
        min(act.queue_s, act.overhead_s, act.run_s) >= 0 and act.act_s <= played.step_s
        for act in played.acts
    )


def test_under_static_only_as_many_live_at_once_as_have_room() -> None:
    rollouts = hurried(SETTING.containers + 1)

    played = asyncio.run(play(rollouts, "static", setting=SETTING))

    owned = [span for span in played.spans if span.kind == "environment"]
    first_end = min(span.ended_at or 0.0 for span in owned)
    late = [span for span in owned if span.held[0][0] >= first_end]
    assert SETTING.containers + 1 == len(owned)
    assert 1 == len(late)
    waited_s = max(act.queue_s for act in played.acts if act.trajectory == late[0].trajectory)
    assert late[0].held[0][0] == pytest.approx(waited_s, abs=0.1)


def test_what_does_not_end_as_recorded_is_told(tmp_path) -> None:
    rollout = hurried(1)[0]
    surprise = Turn(thought="", command="exit 3")
    changed = replace(
        rollout, recording=replace(rollout.recording, turns=(surprise,)), gaps_s=(0.0, 0.0)
    )

    played = asyncio.run(play([changed], "inflight", setting=SETTING))

    assert "'exit 3' was recorded as succeeded and ended as failed" in played.troubles[rollout.id]


def test_a_suite_that_says_no_reward_has_none() -> None:
    rollout = hurried(1)[0]
    sabotage = Turn(thought="", command="rm run_tests.py")
    changed = replace(
        rollout, recording=replace(rollout.recording, turns=(sabotage,)), gaps_s=(0.0, 0.0)
    )

    played = asyncio.run(play([changed], "inflight", setting=SETTING))

    assert {rollout.id: None} == played.rewards
    assert "its suite ended as failed" in played.troubles[rollout.id]


def test_a_rehearsal_tells_how_fast_this_machine_is() -> None:
    pace = asyncio.run(rehearse(recordings(), SETTING))

    assert {"bash", "test"} == set(pace.step_s)
    assert 0 < pace.step_s["bash"] < pace.step_s["test"]
    assert pace.start_s > 0
    assert pace.suite_s > 0
