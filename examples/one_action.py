"""One command in an isolated environment: `python examples/one_action.py`."""

import asyncio

import arl_tangram as at


async def main() -> None:
    async with at.Tangram.local() as tangram:
        async with tangram.environment(task="example", memory="256MiB") as env:
            await env.write(
                "primes.py", "print([n for n in range(2, 50) if all(n % d for d in range(2, n))])\n"
            )
            result = await env.run("python3 primes.py", timeout="30s")

    print(result.stdout, end="")
    print(f"{result.outcome.value}, exit status {result.exit_code}, held by {result.enforcement}")
    timing = result.timing
    print(
        f"queued {timing.queued_s:.4f} s + overhead {timing.overhead_s:.4f} s + run {timing.run_s:.4f} s"
        f" = {timing.act_s:.4f} s"
    )


if __name__ == "__main__":
    asyncio.run(main())
