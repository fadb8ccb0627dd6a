"""Who may start next: service order, with a bounded look past those that do not fit."""

from __future__ import annotations

from collections.abc import Callable

from ..core.entries import Entry
from ..core.model import CPU, Bundle
from ..core.policy import Plan, View

#: How many actions that do not fit are looked past for one that does.
LOOKAHEAD = 8


def admit(view: View, plan: Plan, *, amounts: Callable[[Entry], Bundle]) -> list[Entry]:
    """The waiting actions that fit, taken from `view.free` on these amounts, in service order.

    An action that does not fit is passed over, until it has been for `view.patience_s`: from then
    on all that comes free of what it needs is kept for it, so its wait is bounded by the time
    that running actions take. Tokens are kept for one that waits for nothing else from the first.
    """
    admitted = []
    for entry in view.waiting:
        bundle = amounts(entry)
        if view.free.take(bundle):
            admitted.append(entry)
            plan.overtaken = len(plan.passed)
            continue
        _pass_over(view, plan, entry, bundle)
        if len(plan.passed) >= LOOKAHEAD:
            break
    return admitted


def admit_reclaiming(view: View, plan: Plan) -> tuple[list[Entry], dict[str, int]]:
    """As `admit`, on the least amounts, where units above their least may be taken from others.

    Returns those admitted, and by resource how many units must be taken from resizable actions.
    """
    free = view.free
    surplus = dict(view.surplus)
    debts: dict[str, int] = {}
    admitted = []
    for entry in view.waiting:
        if free.take(entry.least):
            admitted.append(entry)
            plan.overtaken = len(plan.passed)
            continue
        elastic = entry.action.elastic
        resource = CPU if elastic is None else elastic.resource
        have = surplus.get(resource, 0)
        if have and 0 < (short := free.shortage(resource, entry.least) or 0) <= have:
            surplus[resource] = have - short
            debts[resource] = debts.get(resource, 0) + short
            free.give(resource, short)
            free.take(entry.least)
            admitted.append(entry)
            plan.overtaken = len(plan.passed)
            continue
        if _pass_over(view, plan, entry, entry.least):
            surplus[resource] = 0
        if len(plan.passed) >= LOOKAHEAD:
            break
    return admitted, debts


def _pass_over(view: View, plan: Plan, entry: Entry, bundle: Bundle) -> bool:
    """Note that it does not fit; True if what is free is now kept for it."""
    plan.passed.append(entry)
    overdue = entry.passed_at is not None and view.now - entry.passed_at >= view.patience_s
    if overdue:
        view.free.hold(bundle)
    elif entry.quotas:
        own = {name: amount for name, amount in bundle.items() if name not in entry.quotas}
        if view.free.shortage(CPU, own) == 0:  # only tokens: else others take each as it comes
            view.free.hold({name: bundle[name] for name in entry.quotas})
    return overdue
