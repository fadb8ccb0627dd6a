"""The scene `coding`: recorded rollouts in real environments on the cores of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from ..runtime.machine import this_machine
from .figures import PUBLISHED_SHARE, share_in_actions
from .ledger import ENVIRONMENT
from .plan import plan
from .play import describe, play
from .played import STATIC, Played, Told
from .recordings import recordings
from .rehearsal import rehearse
from .scene import Look, Say, Scene
from .setting import STATIC_UNITS, Setting, setting_for

WAVES = 6
"""Trajectories for each that fits at once under `static`, if no number is given."""
LOOKS = {
    ENVIRONMENT: Look("owned by an environment", "#e4e7eb"),
    "bash": Look("shell", "#56b4e9"),
    "test": Look("one test", "#e69f00"),
    "reward": Look("reward", "#009e73"),
}
NOTES = {
    STATIC: "Grey: a container that waits for its model, and lets nobody else in.",
    "tangram": "The paper's algorithm: an amount is chosen when an action starts, and stays.",
    "inflight": "Running test suites grow when units are idle, and shrink when others arrive.",
}


def coding(trajectories: int | None, seed: int, say: Say) -> Scene:
    """Deal the rollouts, after a look at how fast this machine is."""
    setting = setting_for(this_machine())
    recorded = recordings()
    machine = asyncio.run(describe(setting))
    enforced = f"enforcement: {machine['enforcement']}, isolation: {machine['isolation']}"
    say(f"{machine['node']}: {setting}; {enforced}.")
    if machine.get("weaker"):
        say(f"Weaker than it could be: {machine['weaker']}")
    pace = asyncio.run(rehearse(recorded, setting))
    rollouts = plan(
        recorded, count=trajectories or WAVES * setting.containers, seed=seed, pace=pace
    )
    actions = sum(rollout.actions for rollout in rollouts)
    dealt = f"{len(rollouts)} recorded coding rollouts with {actions} actions, seed {seed}"
    say(
        f"{dealt}. Under static each owns {STATIC_UNITS} units for life, so "
        f"{setting.containers} run at once."
    )

    async def played(policy: str, told: Told) -> Played:
        return await play(rollouts, policy, setting=setting, told=told)

    return Scene(
        title="The same rollouts under several policies",
        about=(
            f"{dealt}, run for real on {machine['node']} ({setting}; {enforced}). The action "
            f"completion time (ACT) is what an agent waits for an action: queue, overhead and run. "
            f"Under static every trajectory owns a container of {STATIC_UNITS} units from its "
            f"first moment to its last."
        ),
        machine=machine,
        unit="unit",
        units={
            "count": setting.units,
            "cores_each": setting.unit_cores,
            "per_environment_under_static": STATIC_UNITS,
        },
        actions=actions,
        play=played,
        remarks=partial(remarks, setting),
        looks=LOOKS,
        notes=NOTES,
    )


def remarks(setting: Setting, steps: Sequence[Played]) -> list[str]:
    """What a reader needs to know of the figures."""
    said = []
    for played in steps:
        if played.policy == STATIC:
            low, high = PUBLISHED_SHARE
            said.append(
                f"On its own units and without queueing, a trajectory spends "
                f"{share_in_actions(played):.2f} of its life in actions (published measurements: "
                f"{low:.2f} to {high:.2f})."
            )
    if setting.unit_cores < 1:
        said.append(
            f"A step with one thread can use one core, {setting.core_units} units here: under "
            f"static it has the {STATIC_UNITS} of its environment, otherwise 1 to "
            f"{setting.core_units} as the load allows."
        )
    return said
