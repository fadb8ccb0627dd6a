"""Which call is answered by which instance."""

from __future__ import annotations

from itertools import islice

from ..cluster import Cluster
from ..entries import Entry
from ..estimates import Estimates
from ..model import Bundle, NodeId, Seconds
from ..pools.draft import Draft
from ..pools.quota import NEVER
from ..queue import Queue
from ..starting import start
from .instances import Instance, InstancePhase
from .moves import Moves
from .services import ServiceState, own_needs

#: How many calls that cannot start are looked past for one that can.
LOOKAHEAD = 8
#: A call waits for a faster instance that is busy only if it ends there in this share of the time.
WAITING_PAYS = 0.9
#: How much later than expected such an instance may be before the call goes elsewhere.
PATIENCE_S = 0.1


class Answering:
    """Starts waiting calls on instances that have a slot, each where it ends first."""

    def __init__(
        self, cluster: Cluster, estimates: Estimates, moves: Moves, *, patience_s: Seconds
    ) -> None:
        self._cluster = cluster
        self._estimates = estimates
        self._moves = moves
        self._patience_s = patience_s

    def answer(self, state: ServiceState, *, yields: bool = True) -> None:
        """Start those calls of a service that can; keep no more for it than they need.

        One that `yields` takes no tokens that are for an action which is to be served before it.
        """
        state.wake_at = NEVER
        self._keep(state, None)
        if not state.calls:
            return
        free = self._free(state)
        if not free:
            return
        lines = state.lines.open(self._cluster.has_tokens)
        slots = sum(free.values())
        busy = self._busy(state, free)
        looked_at = 0
        for most in (slots, slots + LOOKAHEAD):
            calls = list(islice(Queue.served(lines, self._cluster.standing), most))
            for entry in calls[looked_at:]:
                if not self._has_tokens(state, entry, yields=yields) or not self._start(
                    state, entry, free, busy
                ):
                    looked_at += 1
                elif not free:
                    return
            if len(calls) < most:
                return

    def _has_tokens(self, state: ServiceState, entry: Entry, *, yields: bool) -> bool:
        cluster = self._cluster
        if not entry.quotas:
            return True
        if yields:
            for first in cluster.before(entry):
                if cluster.is_outbid(first):
                    _ = cluster.spare_tokens(first)
                elif cluster.has_all_tokens(first):
                    cluster.yielded[state.name] = None
                    return False
        if cluster.has_all_tokens(entry):
            return True
        if cluster.is_outbid(entry) and cluster.spare_tokens(entry):
            state.lines.promote(entry)
        return False

    def _free(self, state: ServiceState) -> dict[Instance, int]:
        slots = state.service.slots
        return {
            i: slots - len(i.calls)
            for i in state.instances.values()
            if i.phase is InstancePhase.RESIDENT and not i.claimed and len(i.calls) < slots
        }

    def _start(
        self,
        state: ServiceState,
        entry: Entry,
        free: dict[Instance, int],
        busy: list[tuple[Seconds, float]],
    ) -> bool:
        """Start one call if it can, and had better not wait; a slot it waits for is marked."""
        needs = own_needs(entry.least)
        able = [i for i in free if not needs or self._draft(i).take(needs)]
        if not able:
            self._pass_over(state, entry, next(iter(free)))
            return False
        best = max(able, key=lambda i: (i.degree.speedup, i.used_at))
        if busy:
            work = self._estimates.work(entry.action)
            end, j = min((at + work / speed, j) for j, (at, speed) in enumerate(busy))
            if end < WAITING_PAYS * work / best.degree.speedup:
                state.wake_at = min(state.wake_at, self._cluster.now + busy[j][0] + PATIENCE_S)
                busy[j] = (end, busy[j][1])
                return False
        elastic = entry.action.elastic
        units = best.degree.gpus
        if state.bare:
            units = elastic.least if elastic else 0
        start(
            self._cluster,
            entry,
            units,
            node=self._cluster.nodes[best.node],
            instance=best,
            devices=best.cell if state.bare else (),
        )
        best.used_at = self._cluster.now
        free[best] -= 1
        if not free[best]:
            del free[best]
        return True

    def _busy(self, state: ServiceState, free: dict[Instance, int]) -> list[tuple[Seconds, float]]:
        """In how many seconds each slot will be free that is faster than one that is free now."""
        slowest = min(i.degree.speedup for i in free)
        rows: list[tuple[Seconds, float]] = []
        for instance in state.instances.values():
            if instance.staying and instance.degree.speedup > slowest:
                speed = instance.degree.speedup
                rows += [(at, speed) for at in self._moves.free_in(instance) if at > 0.0]
        return rows

    def _draft(self, instance: Instance) -> Draft:
        return self._cluster.nodes[instance.node].pool.draft()

    def _pass_over(self, state: ServiceState, entry: Entry, instance: Instance) -> None:
        """Its instance waits for cores or memory; after a while they are kept for it."""
        if self._has_waited(entry) and state.keeps is None:
            self._keep(state, (instance.node, own_needs(entry.least)))

    def _has_waited(self, entry: Entry) -> bool:
        """Whether its turn came so long ago that others are to make way."""
        now = self._cluster.now
        if entry.passed_at is None:
            entry.passed_at = now
        return now - entry.passed_at >= self._patience_s

    def _keep(self, state: ServiceState, keeps: tuple[NodeId, Bundle] | None) -> None:
        if state.keeps is not None and (node := self._cluster.nodes.get(state.keeps[0])):
            node.keep(state.keeps[1], sign=-1)
            self._cluster.dirty[node.id] = None
        state.keeps = keeps
        if keeps is not None:
            self._cluster.nodes[keeps[0]].keep(keeps[1])
