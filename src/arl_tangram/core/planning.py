"""Asks the policy about a node, checks its whole plan, and turns it into commands."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import PolicyError
from .cluster import Cluster, NodeState
from .commands import Resize
from .entries import Entry
from .estimates import Estimates
from .model import CPU, Lease, Seconds
from .phases import Phase
from .policy import Plan, Policy, View
from .pools.draft import Draft
from .queue import Queue
from .starting import start


class Planning:
    """Lets a policy decide about the nodes on which something changed."""

    def __init__(
        self, cluster: Cluster, policy: Policy, estimates: Estimates, *, patience_s: Seconds
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._estimates = estimates
        self._patience_s = patience_s

    def roomiest(self, entry: Entry) -> NodeState | None:
        """The node where an action that may run anywhere starts soonest, if any has room now."""
        cluster = self._cluster
        if not cluster.has_all_tokens(entry):
            return None
        best: NodeState | None = None
        best_key = (False, False, False, 0)
        elastic = entry.action.elastic
        resource = elastic.resource if elastic else CPU
        for node in cluster.nodes.values():
            draft = node.pool.draft()
            short = draft.shortage(resource, entry.own)
            if short is None or short > node.surplus.get(resource, 0):
                continue
            overdue = node.queue.overdue(cluster.has_tokens)
            kept = node.reserved_for is not None or overdue is not None
            key = (not kept, short == 0, not node.pool.gpus.owners, draft.whole)
            if best is None or key > best_key:
                best, best_key = node, key
            if not entry.own and key[0] and key[2]:
                break  # it needs nothing of a node: any will do, but for those with GPUs
        return best

    def settle(self) -> None:
        """Plan every node that something happened to, those with GPUs last."""
        cluster = self._cluster
        dirty, nodes = cluster.dirty, cluster.nodes
        while dirty:
            plain = (name for name in dirty if not nodes[name].pool.gpus.owners)
            node_id = next(plain, None) or next(iter(dirty))
            del dirty[node_id]
            self._plan(nodes[node_id])

    def _plan(self, node: NodeState) -> None:
        cluster = self._cluster
        if not node.resizable and not self._anybody_for(node):
            return
        free = cluster.draft(node)
        if (reserved := node.reserved_for) is not None:
            free.hold(reserved.environment.needs)
        free.hold(node.kept)
        view = View(
            now=cluster.now,
            node=node.id,
            capacity=node.pool.capacity,
            owned=node.owned,
            free=free,
            waiting=self._waiting(node),
            running=node.running,
            resizable=node.resizable,
            surplus=node.surplus,
            estimates=self._estimates,
            patience_s=self._patience_s,
        )
        plan = self._policy.decide(view)
        if plan.starts or plan.resizes:
            check(plan, node, cluster.draft(node))
            self._apply(plan, node)
        self._note_passed(plan, node)

    def _anybody_for(self, node: NodeState) -> bool:
        """Whether somebody waits here who does not wait for tokens."""
        has_tokens = self._cluster.has_tokens
        return bool(node.queue.open(has_tokens) or self._cluster.anywhere.open(has_tokens))

    def _waiting(self, node: NodeState) -> Iterator[Entry]:
        cluster = self._cluster
        lines = [*node.queue.open(cluster.has_tokens), *cluster.anywhere.open(cluster.has_tokens)]
        entries = Queue.served(lines, cluster.standing)
        if not len(cluster.anywhere):
            return entries
        return (e for e in entries if e.bound_to or node.could_host(e.own))

    def _apply(self, plan: Plan, node: NodeState) -> None:
        cluster = self._cluster
        grows = []
        for entry, units in plan.resizes:
            if units < entry.units:
                self._resize(entry, units, node)
            elif units > entry.units:
                grows.append((entry, units))
        for entry, units in plan.starts:
            start(cluster, entry, units, node=node)
        for entry, units in grows:
            self._resize(entry, units, node)

    def _resize(self, entry: Entry, units: int, node: NodeState) -> None:
        lease, elastic, curve = entry.lease, entry.action.elastic, entry.curve
        assert lease is not None and elastic is not None and curve is not None  # noqa: PT018  # checked
        entry.count(self._cluster.now)
        if units > entry.units:
            entry.startup_left += curve.startup_s * (units - entry.units)
        node.surplus[elastic.resource] += units - entry.units
        grant = node.pool.resize(
            lease.grant, entry.amounts(units), units=units, resource=elastic.resource
        )
        entry.units = units
        entry.resized = True
        entry.lease = Lease(
            action=lease.action,
            attempt=lease.attempt,
            node=lease.node,
            grant=grant,
            environment=lease.environment,
            instance=lease.instance,
        )
        self._cluster.out.append(Resize(entry.lease))

    def _note_passed(self, plan: Plan, node: NodeState) -> None:
        """Remember who was overtaken, and let who waited too long be the next one here."""
        cluster = self._cluster
        now = cluster.now
        for entry in plan.passed:
            if cluster.is_outbid(entry) and cluster.fits(entry) and cluster.spare_tokens(entry):
                self._prefer(entry, node)
        for position, entry in enumerate(plan.passed):
            entry.blocks = True
            if entry.passed_at is None:
                if position < plan.overtaken or (entry.was_next and plan.starts):
                    entry.passed_at = now
                entry.was_next = entry.was_next or position == 0
            elif now - entry.passed_at >= self._patience_s:
                self._prefer(entry, node)

    def _prefer(self, entry: Entry, node: NodeState) -> None:
        """Let an action be the next one: here, or anywhere if it is short of nothing but tokens."""
        cluster = self._cluster
        _ = cluster.spare_tokens(entry)
        if entry.bound_to is None and entry.quotas and node.pool.draft().take(entry.own):
            cluster.anywhere.promote(entry)
            return
        if entry.bound_to is None:
            cluster.bind(entry, node)
        node.queue.promote(entry)


def check(plan: Plan, node: NodeState, draft: Draft) -> None:
    """Raises `PolicyError` unless every part of the plan is allowed and all of it fits at once."""
    seen: set[str] = set()
    for entry, units in plan.resizes:
        elastic, curve = entry.action.elastic, entry.curve
        if entry.id in seen or entry.id not in node.resizable or elastic is None or curve is None:
            raise PolicyError(f"cannot resize {entry.id} on {node.id}")
        if units not in curve.speeds:
            raise PolicyError(f"{entry.id} may not hold {units} units")
        seen.add(entry.id)
        if units < entry.units:
            draft.give(elastic.resource, entry.units - units)
    for entry, units in plan.starts:
        if entry.id in seen or entry.phase is not Phase.QUEUED:
            raise PolicyError(f"cannot start {entry.id} on {node.id}")
        if entry.bound_to not in {None, node.id}:
            raise PolicyError(f"{entry.id} must run on {entry.bound_to}, not on {node.id}")
        if units not in (entry.curve.speeds if entry.curve else (0,)):
            raise PolicyError(f"{entry.id} may not hold {units} units")
        seen.add(entry.id)
        if not draft.take(entry.amounts(units)):
            raise PolicyError(f"{entry.id} on {units} units does not fit on {node.id}")
    for entry, units in plan.resizes:
        elastic = entry.action.elastic
        if elastic is not None and units > entry.units:
            more = units - entry.units
            if draft.units(elastic.resource) < more:
                raise PolicyError(f"{entry.id} cannot grow to {units} units on {node.id}")
            draft.give(elastic.resource, -more)
