"""A loop like GRPO's: steps of prompts times samples, each trajectory in an environment of its own.

`python examples/batch_loop.py`. The "model" is a coin: it repairs the program or breaks it some other way.
Its rewards come from a real test suite that may use several cores.
"""

import asyncio
import random
import statistics

import arl_tangram as at

PROMPTS = 2
SAMPLES = 4
BROKEN = "def middle(values):\n    return sorted(values)[0]\n"
REPAIRS = {
    "right": "def middle(values):\n    return sorted(values)[len(values) // 2]\n",
    "wrong": "def middle(values):\n    return values[len(values) // 2]\n",
}
TESTS = """
import unittest
from program import middle

class MiddleTest(unittest.TestCase):
    def test_sorted(self): self.assertEqual(2, middle([1, 2, 3]))
    def test_unsorted(self): self.assertEqual(2, middle([3, 1, 2]))
"""


async def rollout(
    tangram: at.Tangram, *, step: int, prompt: int, coin: random.Random
) -> float | None:
    """One trajectory; its reward, or None if the infrastructure failed and it says nothing."""
    async with tangram.environment(
        task="grpo", trajectory=f"s{step}p{prompt}-{coin.random():.6f}", step=step
    ) as env:
        await env.write("program.py", BROKEN)
        await env.write("test_program.py", TESTS)
        await env.run("cat program.py", kind="look")
        await asyncio.sleep(0.05)  # the model thinks; the environment holds no core meanwhile
        await env.write("program.py", REPAIRS[coin.choice(list(REPAIRS))])
        suite = await env.run("python3 -m unittest -q", kind="reward", cpus=(1, 4), timeout="30s")
    if suite.outcome is at.Outcome.LOST:
        return None
    return 1.0 if suite.ok else 0.0


async def main() -> None:
    coin = random.Random(1)
    async with at.Tangram.local() as tangram:
        for step in range(2):
            for prompt in range(PROMPTS):
                group = await asyncio.gather(
                    *(rollout(tangram, step=step, prompt=prompt, coin=coin) for _ in range(SAMPLES))
                )
                rewards = [reward for reward in group if reward is not None]
                mean = statistics.fmean(rewards)
                advantages = [round(reward - mean, 2) for reward in rewards]
                print(f"step {step}, prompt {prompt}: rewards {rewards}, advantages {advantages}")


if __name__ == "__main__":
    asyncio.run(main())
