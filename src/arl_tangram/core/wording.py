"""Amounts in words, as callers write them."""

from __future__ import annotations

from .model import CPU, MEMORY, MILLI, Bundle


def wanted(name: str, amount: int) -> str:
    """An amount as an option: `cpus=2.5`, `memory=512MiB`, `gpu=1`."""
    if name == CPU:
        return f"cpus={amount / MILLI:g}"
    return f"{name}={amount}{'MiB' if name == MEMORY else ''}"


def all_wanted(bundle: Bundle) -> str:
    """All amounts of a bundle as options."""
    return " ".join(wanted(name, amount) for name, amount in bundle.items())
