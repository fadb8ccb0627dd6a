"""Sorts build targets so that each comes after what it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

Needs = Mapping[str, Sequence[str]]


class CycleError(ValueError):
    """Targets need each other; `cycle` lists them, the first one again at the end."""

    def __init__(self, cycle: list[str]) -> None:
        super().__init__(" -> ".join(cycle))
        self.cycle = cycle


def order(needs: Needs) -> list[str]:
    """All targets, each after what it needs; otherwise by name."""
    done: list[str] = []
    finished: set[str] = set()
    path: list[str] = []
    for target in sorted(needs):
        _visit(target, needs, path, finished, done)
    return done


def _visit(
    target: str, needs: Needs, path: list[str], finished: set[str], done: list[str]
) -> None:
    """Append `target` and what it needs to `done`, depth first."""
    if target in path:
        raise CycleError([*path[path.index(target) :], target])
    if target in finished:
        return
    path.append(target)
    for need in sorted(needs.get(target, ())):
        _visit(need, needs, path, finished, done)
    finished.add(target)
    done.append(target)


def layers(needs: Needs) -> list[list[str]]:
    """Groups of targets that can be built at the same time, first group first."""
    depth: dict[str, int] = {}
    for target in order(needs):
        depth[target] = 1 + max((depth[need] for need in needs.get(target, ())), default=-1)
    groups: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for target in sorted(depth):
        groups[depth[target]].append(target)
    return groups


def affected(needs: Needs, changed: str) -> Iterator[str]:
    """What must be built again when `changed` changes, in build order."""
    dirty = {changed}
    for target in order(needs):
        if target in dirty or dirty.intersection(needs.get(target, ())):
            dirty.add(target)
            yield target
