"""The scene `mopd`: trajectories are generated, then each has a teacher model score its tokens, for real.

Who asks which teacher when follows the simulator's workload of that name, at a hundredth of its times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from statistics import fmean

from ..core.model import Seconds
from ..runtime.service_options import ServiceOptions
from ..sim.mopd import mopd as workload
from ..sim.mopd import mopd_parameters
from . import serving
from .played import STATIC, Played, Told
from .scene import Say, Scene
from .serving import MODELS, Hosting, Stage

NAME = "mopd"
TRAJECTORIES = 72
TIME_SCALE = 0.01
"""Seconds of the demo in a second of the workload."""
TOKEN_SCALE = 0.00625
"""Tokens of the demo for a token of the workload."""
SEQUENCES = 8
"""How many sequences a request has."""
VOCABULARY = 8192
WIDTH, LAYERS = 256, 6
WEIGHTS_MIB = 27
DEVICES = 4
PINNED = (1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A trajectory that wants a score.

    Attributes:
        generate_s: how long its model takes to generate it.
        sequences: its tokens.
    """

    id: str
    generate_s: Seconds
    teacher: str
    sequences: tuple[tuple[int, ...], ...]


def mopd(trajectories: int | None, seed: int, say: Say) -> Scene:
    """Deal the trajectories."""
    serving.need(NAME, {"torch": "torch"})
    count = trajectories or TRAJECTORIES
    rollouts = deal(count, seed)
    hosting = hosting_of(mopd_parameters().teachers.count)
    teachers, own = len(hosting.services), hosting.devices_under(STATIC)
    machine = asyncio.run(serving.describe(hosting))
    shared = (
        f"{teachers} teacher models of {WEIGHTS_MIB} MiB, each a PyTorch process, on {DEVICES} "
        f"devices with room for one each. Under static every teacher has a device of its own, "
        f"{own} in all"
    )
    stand_ins = (
        "Devices are bounded host memory here and all models compute on the processors of this "
        "machine, so more devices do not add speed beyond them"
    )
    say(f"{machine['node']}: {machine['cpus']}. {stand_ins}.")
    say(f"{count} generated trajectories, seed {seed}, are scored by {shared}.")

    async def played(policy: str, told: Told) -> Played:
        return await serving.play(hosting, rollouts, act_out, policy=policy, told=told)

    return Scene(
        title="The same trajectories scored by nine teachers, under several policies",
        about=(
            f"{count} trajectories, seed {seed}, run for real on {machine['node']}, are scored by "
            f"{shared}. {stand_ins}. The action completion time (ACT) is what a trajectory waits "
            f"for its score: queue (in it, restores), overhead and run. Weights are random."
        ),
        machine=machine,
        unit="device",
        units={"count": DEVICES, "memory_mib_each": hosting.device_mib, "count_under_static": own},
        actions=count,
        play=played,
        remarks=lambda steps: ["A score is a mean log-probability."],
        looks=serving.looks_of(hosting),
        notes=serving.NOTES,
    )


def deal(count: int, seed: int) -> tuple[Generated, ...]:
    """The trajectories of a step, the same for the same arguments."""
    rng = Random(f"{NAME} {seed}")
    per_s = mopd_parameters().tokens_per_s
    dealt = []
    for trajectory in workload(batch=count, seed=seed).trajectories:
        (turn,) = trajectory.turns
        length = max(2, round(turn.work_s * per_s * TOKEN_SCALE / SEQUENCES))
        dealt.append(
            Generated(
                id=trajectory.id,
                generate_s=turn.think_s * TIME_SCALE,
                teacher=str(turn.action.service),
                sequences=tuple(
                    tuple(rng.randrange(VOCABULARY) for _ in range(length))
                    for _ in range(SEQUENCES)
                ),
            )
        )
    return tuple(dealt)


def hosting_of(teachers: int) -> Hosting:
    """The teachers; their seeds differ, and so do their scores."""
    services: dict[str, ServiceOptions] = {
        f"{NAME}-teacher-{number + 1}": {
            "driver": "torch",
            "module": "teacher:teacher",
            "arguments": {"seed": number, "width": WIDTH, "layers": LAYERS},
            "path": MODELS,
            "memory": f"{WEIGHTS_MIB}MiB",
            "restore": "0.05s",
            "variables": {"OMP_NUM_THREADS": "1"},
        }
        for number in range(teachers)
    }
    return Hosting(
        services=services,
        warm_up=request_of([range(8)] * SEQUENCES),
        pinned=PINNED,
        devices=DEVICES,
        device_mib=WEIGHTS_MIB,
    )


def request_of(sequences: Sequence[Sequence[int]]) -> dict[str, object]:
    """What a teacher is asked."""
    return {"method": "logprobs", "inputs": [list(tokens) for tokens in sequences]}


async def act_out(stage: Stage, rollout: Generated) -> float:
    """Wait until it is generated, and have it scored."""
    await asyncio.sleep(rollout.generate_s)
    answer = await stage.ask(rollout, rollout.teacher, request_of(rollout.sequences))
    return fmean(chain.from_iterable(answer["outputs"]))
