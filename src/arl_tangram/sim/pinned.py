"""Services as a static deployment has them: few instances of each, of the best degree, for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..core.model import Node, Seconds
from ..core.serving.waits import steady_act
from ..errors import ConfigError
from .cluster import gpus_of
from .workload import ServedModel, Workload, calls_of

#: How long calls would pile up that come faster than they are answered.
PILE_UP_S = 100.0


Pinned = tuple[int, ...]
"""The widths of a service's instances, all the same."""


def with_pinned_services(
    workload: Workload, nodes: Sequence[Node], *, same: bool = False
) -> Workload:
    """The same workload with instances of each service pinned, as wide as there are devices for.

    Widths, and how many instances of those services that may have several, are chosen with
    hindsight, from all calls of the step: devices go, one step after the other, to where each of
    them saves the calls most. With `same`, all have one width.

    Raises:
        ConfigError: there are fewer devices than services.
    """
    if not workload.models:
        return workload
    pinned = same_width(workload, nodes) if same else best_widths(workload, nodes)
    models = tuple(
        replace(model, service=replace(model.service, pinned=pinned[model.service.name]))
        for model in workload.models
    )
    return replace(workload, models=models)


def best_widths(workload: Workload, nodes: Sequence[Node]) -> dict[str, Pinned]:
    """The instances of each service, by name. Raises `ConfigError` as above."""
    services = {model.service.name: model for model in workload.models}
    chosen: dict[str, Pinned] = {
        name: (model.service.degrees[0].gpus,) for name, model in services.items()
    }
    _check(nodes, [width for widths in chosen.values() for width in widths])
    loads = _loads(workload)
    while True:
        steps = [
            (_saved(services[name], loads[name], widths, more), name, more)
            for name, widths in chosen.items()
            for more in _steps(services[name], widths)
            if _fit(nodes, [w for n, have in chosen.items() if n != name for w in have] + [*more])
        ]
        if not steps:
            return chosen
        _, name, more = max(steps)
        chosen[name] = more


def same_width(workload: Workload, nodes: Sequence[Node]) -> dict[str, Pinned]:
    """One width for all, the widest that fits. Raises `ConfigError` as above."""
    least: dict[str, Pinned] = {
        m.service.name: (m.service.degrees[0].gpus,) for m in workload.models
    }
    _check(nodes, [width for widths in least.values() for width in widths])
    supported = [{degree.gpus for degree in m.service.degrees} for m in workload.models]
    for width in sorted(set.intersection(*supported), reverse=True):
        widths = {m.service.name: (width,) * m.static_instances for m in workload.models}
        if _fit(nodes, [w for have in widths.values() for w in have]):
            return widths
    return least


def _steps(model: ServedModel, widths: Pinned) -> Iterator[Pinned]:
    """What a service could have next: all its instances wider, or one more of them."""
    for degree in model.service.degrees:
        if degree.gpus > widths[0]:
            yield (degree.gpus,) * len(widths)
    if len(widths) < model.static_instances:
        yield (*widths, widths[0])


def _check(nodes: Sequence[Node], widths: Sequence[int]) -> None:
    if not _fit(nodes, widths):
        raise ConfigError(
            f"policy='static': one instance of each of {len(widths)} services takes at least "
            f"{sum(widths)} GPUs, and there are {gpus_of(nodes)}; give more GPUs, or leave static "
            f"out"
        )


def _saved(model: ServedModel, load: tuple[float, Seconds], have: Pinned, more: Pinned) -> float:
    """What each further device saves the calls of a service in a second."""
    rate, work = load
    speedups = {degree.gpus: degree.speedup for degree in model.service.degrees}
    before, after = (
        steady_act(
            rate,
            work,
            [speedups[width] for width in widths for _ in range(model.service.slots)],
            horizon_s=PILE_UP_S,
        )
        for widths in (have, more)
    )
    return rate * (before - after) / (sum(more) - sum(have))


def _loads(workload: Workload) -> Mapping[str, tuple[float, Seconds]]:
    """Calls a second and work of each, by service, over the middle nine tenths of the calls."""
    calls: dict[str, list[tuple[Seconds, Seconds]]] = {m.service.name: [] for m in workload.models}
    for trajectory in workload.trajectories:
        for service, at, work in calls_of(trajectory):
            calls[service].append((at, work))
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
