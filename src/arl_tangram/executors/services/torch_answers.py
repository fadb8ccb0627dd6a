"""What a module gave back, as rows of plain values, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

_KEYS = (str, int, float, bool, type(None))
_NO_LIST = (Mapping, AbstractSet, str, bytes, bytearray)


def rows_of(torch: Any, value: Any, method: str, *, inputs: int) -> list[Any]:
    """What a method gave back, one row for each input. Raises if it is anything else."""
    rows = _listed(torch, value, method)
    if isinstance(rows, _NO_LIST) or not isinstance(rows, Iterable):
        raise TypeError(
            f"method {method!r} gave {a_named(value)} for {inputs} inputs; give a list with a row"
            " for each"
        )
    rows = list(rows)
    if len(rows) != inputs:
        raise ValueError(
            f"method {method!r} gave {len(rows)} rows for {inputs} inputs; give one for each, for"
            " a batch may be shared out between devices"
        )
    return [_listed(torch, row, method) for row in rows]


def _listed(torch: Any, value: Any, method: str) -> Any:
    """The numbers of a tensor, just as they are; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    value = real(value, f"method {method!r}").cpu()
    return (value.double() if value.is_floating_point() else value).tolist()


def real(tensor: Any, whose: str) -> Any:
    """The tensor. Raises if its numbers are complex: half of each would be lost."""
    if tensor.is_complex():
        raise TypeError(
            f"{whose} gave complex numbers ({tensor.dtype}), and JSON has none;"
            " torch.view_as_real(…) makes two numbers of each"
        )
    return tensor


def encoded(answer: Mapping[str, Any]) -> bytes:
    """An answer as JSON. Raises if it is none, saying what in it is not, and where."""
    try:
        return json.dumps(answer).encode()
    except TypeError as error:
        try:
            found = next(filter(None, (_stranger(value, name) for name, value in answer.items())))
        except (StopIteration, RecursionError):
            found = str(error)
        raise TypeError(f"the answer is no JSON: {found}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the answer is no JSON: {error}") from error


def _stranger(value: Any, where: str) -> str:
    """The first piece that is no JSON, in the order in which `json.dumps` comes to it."""
    if isinstance(value, dict):
        for key, piece in value.items():
            if not isinstance(key, _KEYS):
                return f"{where} has a key that is {a_named(key)}; give texts"
            if found := _stranger(piece, f"{where}[{key!r:.60}]"):
                return found
    elif isinstance(value, list | tuple):
        for i, piece in enumerate(value):
            if found := _stranger(piece, f"{where}[{i}]"):
                return found
    elif not isinstance(value, _KEYS):
        mend = " (.tolist() makes them of it)" if hasattr(value, "tolist") else ""
        return f"{where} is {a_named(value)}; give numbers, texts, lists and dicts{mend}"
    return ""


def named(value: object) -> str:
    """The type of a value, by its full name."""
    kind = type(value)
    home = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return home + kind.__qualname__


def a_named(value: object) -> str:
    """The type of a value with its article, which goes by its first letter."""
    name = named(value)
    return f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"
