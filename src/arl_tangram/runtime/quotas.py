"""Reads what people write for quotas: rates, bursts, daily caps, and tokens to take."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..core.model import API, Bundle, Quota, Window
from ..errors import ConfigError
from . import checks, units
from .checks import shown, wrong

Rate = float | int | str
"""Calls a second, or text such as ``"10/s"``, ``"600/min"``, ``"5000/h"``."""

_DAY_S = 86400.0
_SLOWEST, _FASTEST = 1e-9, 1e12
_SPANS = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "hour": 3600.0, "day": _DAY_S}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*([a-z]+)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def quota_of(
    name: str,
    *,
    rate: Rate | None = None,
    burst: int = 1,
    concurrency: int | None = None,
    daily: int | None = None,
    windows: Mapping[str, int] | None = None,
    adaptive: bool = False,
) -> Quota:
    """A quota; raises `ConfigError` for what it cannot be, naming the field."""
    given: object = name
    if not isinstance(given, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"name={shown(name)}: a quota's is up to 64 letters, digits and ._-, "
            "a letter or digit first"
        )
    with checks.settings(f"quotas.{name}"):
        limits = _windows(daily, windows)
        if rate is None and concurrency is None and not limits:
            raise ConfigError(
                f"quotas.{name}: it limits nothing; give rate, concurrency, daily or windows"
            )
        return Quota(
            name=name,
            rate_per_s=None if rate is None else _per_second(rate),
            burst=checks.whole(burst, "burst", least=1),
            concurrency=(
                None if concurrency is None else checks.whole(concurrency, "concurrency", least=1)
            ),
            windows=limits,
            adaptive=checks.flag(adaptive, "adaptive"),
        )


def _windows(daily: int | None, windows: object) -> tuple[Window, ...]:
    if not isinstance(windows, Mapping | None):
        raise wrong("windows", windows, 'give a mapping such as {"1h": 500}')
    spans: list[tuple[str, float, object]] = []
    if daily is not None:
        spans.append(("daily", _DAY_S, daily))
    for span, tokens in (windows or {}).items():
        spans.append((f"windows[{shown(span)}]", units.seconds(span, "windows"), tokens))
    return tuple(
        Window(tokens=checks.whole(tokens, field, least=1), per_s=per_s)
        for field, per_s, tokens in spans
    )


def tokens_of(quota: Mapping[str, int] | str | None) -> Bundle:
    """The needs behind ``quota={"search": 1}`` or just ``quota="search"``."""
    if quota is None:
        return {}
    if isinstance(quota, str):
        return {API + checks.word(quota, "quota"): 1}
    given: object = quota
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise wrong("quota", given, 'give the name of one, or tokens such as {"search": 1}')
    for name, tokens in quota.items():
        if type(tokens) is not int or not 0 < tokens <= checks.MOST:
            raise wrong(f"quota[{shown(name)}]", tokens, "tokens are a whole number from 1")
    return {API + checks.word(name, "quota"): tokens for name, tokens in quota.items()}


def _per_second(rate: Rate) -> float:
    want = 'calls a second such as 2.5, or text such as "10/s" or "600/min"'
    value: float
    if isinstance(rate, str):
        match = _RATE.fullmatch(rate.strip().lower())
        if match is None or match[2] not in _SPANS:
            raise wrong("rate", rate, f"give {want}")
        value = float(match[1]) / _SPANS[match[2]]
    else:
        given: object = rate
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise wrong("rate", rate, f"give {want}")
        value = rate
    if not _SLOWEST <= value <= _FASTEST:
        raise wrong("rate", rate, f"a rate is above zero; give {want}")
    return float(value)
