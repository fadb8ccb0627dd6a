"""A seeded run of a kernel through everything that can happen, for tests of repeatability."""

from __future__ import annotations

from random import Random

from ..core.commands import Command
from ..core.estimates import Estimates
from ..core.events import Event
from ..core.model import Action, Outcome
from ..core.speedup import Amdahl, PowerLaw, Roofline
from .builders import action, environment, node
from .watched import Watched

_TASKS = ("coding", "search", "judge")
_UNITS = ((), (1, 2, 3, 4), (1, 4), (2, 3, 5))
_CURVES = (Roofline(cap=2.5), Amdahl(serial=0.1), PowerLaw(p=0.7, startup_s=0.5), None)


def random_run(
    policy: str, *, seed: int, events: int, estimates: Estimates | None = None
) -> list[tuple[Event, list[Command]]]:
    """Events drawn from the seed and the commands they cause; a ledger watches all of it."""
    chance = Random(seed)
    watched = Watched(
        node("n0", cpu=8, domains=((0, 1, 4, 5), (2, 3, 6, 7)), siblings=((0, 4), (2, 6))),
        node("n1", cpu=4),
        policy=policy,
        estimates=estimates,
    )
    spares = 2
    for number in range(events):
        watched.wait(chance.choice((0.0, 0.1, 0.7)))
        places = [n for n, p in watched.ledger.places.items() if p.state != "gone"]
        opening = [n for n in places if watched.ledger.places[n].state == "opening"]
        closing = [n for n, p in watched.ledger.places.items() if p.close_sent and p.node]
        running = watched.running()
        draw = chance.random()
        if draw < 0.42:
            place = chance.choice(places) if places and chance.random() < 0.6 else None
            watched.submit(_random_action(chance, f"a{number}", place))
        elif draw < 0.7 and running:
            watched.exit(chance.choice(running), chance.choice(tuple(Outcome)))
        elif draw < 0.76:
            memory = chance.choice((64, 512, 2048))
            watched.request(environment(f"e{number}", memory=memory, task=chance.choice(_TASKS)))
        elif draw < 0.86 and opening:
            watched.opened(chance.choice(opening))
        elif draw < 0.89 and opening:
            watched.broke(chance.choice(opening))
        elif draw < 0.92 and closing:
            watched.closed(chance.choice(closing))
        elif draw < 0.94 and places:
            watched.close(chance.choice(places))
        elif draw < 0.97 and watched.ledger.unresolved():
            watched.cancel(chance.choice(watched.ledger.unresolved()))
        elif draw < 0.98 and len(watched.ledger.nodes) > 1:
            watched.lose(chance.choice(tuple(watched.ledger.nodes)))
        elif draw < 0.99:
            watched.join(node(f"n{spares}", cpu=chance.choice((2, 4, 6.5))))
            spares += 1
        else:
            watched.wake()
    return watched.journal


def _random_action(chance: Random, name: str, place: str | None) -> Action:
    units = chance.choice(_UNITS)
    return action(
        name,
        cpu=0 if units else chance.choice((0, 0.25, 1, 2)),
        memory=chance.choice((0, 0, 100)),
        units=units,
        speedup=chance.choice(_CURVES),
        resizable=chance.random() < 0.8,
        environment=place,
        task=chance.choice(_TASKS),
        kind=chance.choice(("bash", "reward")),
        priority=chance.choice((0, 0, 1)),
    )
