"""Services as a static deployment has them: one instance each, of the best degree, for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from ..core.model import Degree, Node, Seconds
from ..core.waits import steady_act
from ..errors import ConfigError
from .cluster import gpus_of
from .workload import ServedModel, Workload

#: How long calls would pile up that come faster than they are answered.
PILE_UP_S = 100.0


def with_pinned_services(
    workload: Workload, nodes: Sequence[Node], *, same: bool = False
) -> Workload:
    """The same workload with an instance of each service pinned, as wide as there are devices for.

    Widths are chosen with hindsight, from all calls of the step: devices go, one widening after
    the other, to where each of them saves the calls most. With `same`, all have one width.

    Raises:
        ConfigError: there are fewer devices than services.
    """
    if not workload.models:
        return workload
    widths = same_width(workload, nodes) if same else best_widths(workload, nodes)
    models = tuple(
        replace(model, service=replace(model.service, pinned=(widths[model.service.name],)))
        for model in workload.models
    )
    return replace(workload, models=models)


def best_widths(workload: Workload, nodes: Sequence[Node]) -> dict[str, int]:
    """The width of each service's one instance, by name. Raises `ConfigError` as above."""
    services = {model.service.name: model for model in workload.models}
    chosen = {name: model.service.degrees[0] for name, model in services.items()}
    _check(nodes, [degree.gpus for degree in chosen.values()])
    loads = _loads(workload)
    while True:
        steps = [
            (_saved(services[name], loads[name], degree, wider), name, wider)
            for name, degree in chosen.items()
            for wider in services[name].service.degrees
            if wider.gpus > degree.gpus
            and _fit(nodes, [d.gpus for n, d in chosen.items() if n != name] + [wider.gpus])
        ]
        if not steps:
            return {name: degree.gpus for name, degree in chosen.items()}
        _, name, wider = max(steps, key=lambda step: (step[0], step[1]))
        chosen[name] = wider


def same_width(workload: Workload, nodes: Sequence[Node]) -> dict[str, int]:
    """One width for all, the widest that fits. Raises `ConfigError` as above."""
    least = {model.service.name: model.service.degrees[0].gpus for model in workload.models}
    _check(nodes, list(least.values()))
    supported = [{degree.gpus for degree in m.service.degrees} for m in workload.models]
    for width in sorted(set.intersection(*supported), reverse=True):
        if _fit(nodes, [width] * len(least)):
            return dict.fromkeys(least, width)
    return least


def _check(nodes: Sequence[Node], widths: Sequence[int]) -> None:
    if not _fit(nodes, widths):
        raise ConfigError(
            f"policy='static': one instance of each of {len(widths)} services takes at least "
            f"{sum(widths)} GPUs, and there are {gpus_of(nodes)}; give more GPUs, or leave static "
            f"out"
        )


def _saved(model: ServedModel, load: tuple[float, Seconds], degree: Degree, wider: Degree) -> float:
    """What each further device saves the calls of a service in a second."""
    rate, work = load
    before, after = (
        steady_act(rate, work, [d.speedup] * model.service.slots, horizon_s=PILE_UP_S)
        for d in (degree, wider)
    )
    return rate * (before - after) / (wider.gpus - degree.gpus)


def _loads(workload: Workload) -> Mapping[str, tuple[float, Seconds]]:
    """Calls a second and work of each, by service, over the middle nine tenths of the calls."""
    calls: dict[str, list[tuple[Seconds, Seconds]]] = {m.service.name: [] for m in workload.models}
    for trajectory in workload.trajectories:
        thinks = accumulate((turn.think_s for turn in trajectory.turns), initial=trajectory.start_s)
        next(thinks)
        for turn, at in zip(trajectory.turns, thinks, strict=True):
            if turn.action.service is not None:
                calls[turn.action.service].append((at, turn.work_s))
    times = sorted(at for rows in calls.values() for at, _ in rows)
    if not times:
        return dict.fromkeys(calls, (1e-06, 1.0))
    first, last = times[len(times) // 20], times[-1 - len(times) // 20]
    span_s = max(last - first, 1e-6)
    loads = {}
    for name, rows in calls.items():
        works = [work for at, work in rows if first <= at <= last]
        loads[name] = (max(len(works), 1e-3) / span_s, sum(works) / len(works) if works else 1.0)
    return loads


def _fit(nodes: Sequence[Node], widths: Sequence[int]) -> bool:
    """Whether aligned cells of these widths fit on the nodes; as cells nest, the widest first."""
    wanted = Counter(widths)
    devices = 0
    for width in (8, 4, 2, 1):
        devices += width * wanted[width]
        if devices > width * sum(node.gpus // width for node in nodes):
            return False
    return True
