"""What calls to a service wait for, from queueing theory and from list scheduling."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..model import Seconds

#: A longer queue is taken for a fluid.
COUNTED = 12
#: Busier than this, a formula for the steady state says nothing: the queue just grows.
BUSIEST = 0.95


def steady_act(
    rate: float, work: Seconds, speeds: Sequence[float], *, horizon_s: Seconds
) -> Seconds:
    """Expected completion time of a call, on instances that stay.

    Args:
        rate: calls a second.
        work: seconds of one call at speed 1, on average.
        speeds: of every slot, the fastest first; at least one.
        horizon_s: how long the calls would pile up if they are more than can be served.
    """
    slots, total = len(speeds), sum(speeds)
    run = work / speeds[0]
    if slots > 1:
        offered = rate * run
        busy = offered / (1.0 + offered)  # Erlang's loss formula for the fastest slot
        run += busy * (work / speeds[1] - run)
    load = rate * work / total
    crowded = min(load, BUSIEST)
    # Sakasegawa's approximation of the mean wait for one of several servers.
    held_up = math.pow(crowded, math.sqrt(2.0 * (slots + 1)) - 1.0)
    wait = work / total * held_up / (1.0 - crowded)
    return run + wait + max(load - BUSIEST, 0.0) * horizon_s


def total_act(calls: int, work: Seconds, servers: Sequence[tuple[Seconds, float]]) -> Seconds:
    """The sum of the completion times of waiting calls, each given where it ends first.

    Args:
        calls: how many wait.
        work: seconds of each at speed 1.
        servers: for every slot, in how many seconds it is free, and its speed; at least one.
    """
    if calls > COUNTED:
        return _drained(calls, work, servers)
    free = [at for at, _ in servers]
    runs = [work / speed for _, speed in servers]
    slots = range(len(free))
    total = 0.0
    for _ in range(calls):
        end, slot = min((free[i] + runs[i], i) for i in slots)
        free[slot] = end
        total += end
    return total


def _drained(calls: int, work: Seconds, servers: Sequence[tuple[Seconds, float]]) -> Seconds:
    """The same for many calls: the area under a queue that the servers drain evenly."""
    amount = calls * work
    speed = offset = 0.0
    joined: list[tuple[Seconds, float]] = []
    empty_at = math.inf
    for at, fast in sorted(servers):
        if at >= empty_at:
            break
        joined.append((at, fast))
        speed += fast
        offset += fast * at
        empty_at = (amount + offset) / speed
    served = sum(fast * (empty_at - at) ** 2 for at, fast in joined)
    return calls * empty_at - served / (2.0 * work) + calls * work / (2.0 * joined[0][1])
