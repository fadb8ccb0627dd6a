"""A lease around code of one's own: `python examples/own_code.py`.

The code inside runs in this process; the lease only makes it wait until the cores are free, and keeps
others off them. Here four pieces of work share one core.
"""

import asyncio
import time

import arl_tangram as at


def busy(seconds: float) -> int:
    """Something that uses one core."""
    until, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        rounds += 1
    return rounds


async def work(tangram: at.Tangram, number: int) -> None:
    asked = time.monotonic()
    async with tangram.lease(cpus=1, kind="busy") as lease:
        waited = time.monotonic() - asked
        await asyncio.to_thread(busy, 0.05)
        print(
            f"piece {number}: waited {waited:.2f} s, held {lease.cpus:g} cores {list(lease.cores)}"
        )


async def main() -> None:
    async with at.Tangram.local(cpus=1) as tangram:
        await asyncio.gather(*(work(tangram, number) for number in range(4)))


if __name__ == "__main__":
    asyncio.run(main())
