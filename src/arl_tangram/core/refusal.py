"""Why what is asked for can never be had, however long one waits."""

from __future__ import annotations

from .cluster import Cluster
from .model import API, Bundle, NodeId
from .wording import all_wanted, wanted


def why_never(cluster: Cluster, *bundles: Bundle, on: NodeId | None = None) -> str:
    """Why these amounts together fit on no node there is, or not on the one it must be on.

    Empty if some node could hold them.
    """
    total: dict[str, int] = {}
    for bundle in bundles:
        if why := why_no_tokens(cluster, bundle):
            return why
        for name, amount in bundle.items():
            if not name.startswith(API):
                total[name] = total.get(name, 0) + amount
    nodes = list(cluster.nodes.values()) if on is None else [cluster.nodes[on]]
    if not nodes or any(n.pool.could_ever_fit(total) for n in nodes):
        return ""
    where = "the largest node" if on is None else f"its environment is on {on}, which"
    for name, amount in total.items():
        most = max(node.pool.capacity.get(name, 0) for node in nodes)
        if amount > most:
            return f"it needs {wanted(name, amount)}, and {where} has {wanted(name, most)}"
    return f"it needs {all_wanted(total)} together, and no single node has all of it"


def why_no_tokens(cluster: Cluster, bundle: Bundle) -> str:
    """Why the quotas can never give what of this they are to give; empty if they can."""
    for name, tokens in bundle.items():
        if not name.startswith(API):
            continue
        if (quota := cluster.quotas.get(name)) is None:
            known = ", ".join(sorted(cluster.quotas)) or "none"
            return f"no quota {name} is declared (there are: {known})"
        if not quota.could_ever(tokens):
            return f"it needs {tokens} tokens of {name} at once, more than the quota ever has"
    return ""
