"""A contestant's side of the conversation with the bench: JSON Lines over standard input and output.

Only the standard library is imported here, for the same reason as in `measuring`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from .measuring import Absent, Figures

Measure = Callable[[float, int], Figures]
"""Measures for so many seconds; the second argument is the number of the round, from 0."""


@dataclass(frozen=True)
class Ready:
    """A contestant that can be measured.

    Attributes:
        measures: what can be measured of it, by name.
        about: what a reader should know of it, such as its version.
    """

    measures: Mapping[str, Measure]
    about: Mapping[str, str] = field(default_factory=dict)


def serve(contestant: Callable[[], AbstractContextManager[Ready]]) -> None:
    """Get ready, say so, and measure what is asked for until standard input ends."""
    # Programs print; what they print must not end up in the conversation.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(**fields: object) -> None:
        answers.write(json.dumps(fields) + "\n")

    try:
        with contestant() as ready:
            answer(about=dict(ready.about))
            for line in sys.stdin:
                answer(**_obey(ready.measures, json.loads(line)))
    except (ImportError, Absent) as missing:
        answer(absent=f"{type(missing).__name__}: {missing}")
    except Exception as error:
        answer(absent=f"it failed: {_in_short(error)}")
        raise


def _obey(measures: Mapping[str, Measure], order: dict[str, object]) -> dict[str, object]:
    measure = measures[str(order["measure"])]
    try:
        return {"figures": measure(float(str(order["seconds"])), int(str(order["round"])))}
    except Absent as missing:
        return {"absent": str(missing)}
    except Exception as error:  # noqa: BLE001 - whatever it was, the reader is to be told
        traceback.print_exc()
        return {"absent": f"it failed: {_in_short(error)}"}


def _in_short(error: Exception) -> str:
    first, _, _ = str(error).partition("\n")
    return f"{type(error).__name__}: {first}"
