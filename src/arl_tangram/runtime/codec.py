"""Turns the core's values into JSON values and back, by their types."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints


def encode(value: Any) -> Any:
    """The JSON form of a value: an object with its class under ``type``, without its defaults."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        encoded = {"type": type(value).__name__}
        for field in fields(value):
            content = getattr(value, field.name)
            if field.init and content != field.default:
                encoded[field.name] = encode(content)
        return encoded
    if isinstance(value, Mapping):
        return {key: encode(content) for key, content in value.items()}
    if isinstance(value, tuple | list):
        return [encode(content) for content in value]
    return value


def decode(kind: Any, data: Any) -> Any:
    """The value of this type that `encode` gave. Raises `ValueError` on data of another shape."""
    try:
        return _decode(kind, data)
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"not a {getattr(kind, '__name__', kind)}: {error!r} in {data!r}"
        ) from error


def _decode(kind: Any, data: Any) -> Any:
    if kind is Any:
        return data
    kind = getattr(kind, "__supertype__", kind)  # a NewType is its base
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if data is None and type(None) in inner:
            return None
        choices = [choice for choice in inner if choice is not type(None)]
        if isinstance(data, dict) and "type" in data:
            choices = [c for c in choices if getattr(c, "__name__", "") == data["type"]]
        if len(choices) != 1:
            raise TypeError(f"no choice of {kind}")
        return _decode(choices[0], data)
    if origin is list:
        return [_decode(inner[0], item) for item in data]
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(_decode(inner[0], item) for item in data)
        return tuple(_decode(each, item) for each, item in zip(inner, data, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {_decode(inner[0], k): _decode(inner[1], v) for k, v in data.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: _decode(hints[name], v) for name, v in data.items() if name != "type"})
    if kind is float and isinstance(data, int):
        return float(data)
    if not isinstance(data, kind):
        raise TypeError(f"{data!r} is no {kind.__name__}")
    return data


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)
