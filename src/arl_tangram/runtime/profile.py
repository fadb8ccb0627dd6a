"""What was learned about durations, kept from one run to the next."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..core.estimates import Learned
from ..errors import ConfigError


def load_profile(profile: Path | None) -> Learned:
    """What the file holds; nothing learned yet if there is no file."""
    if profile is None:
        return Learned()
    try:
        if profile.exists():
            return Learned.from_json(json.loads(profile.read_text()))
        if not os.access(profile.parent, os.W_OK | os.X_OK):
            raise ConfigError(f"profile={str(profile)!r}: nothing can be written there at the end")
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"profile={str(profile)!r}: {error}") from error
    return Learned()


def save_profile(profile: Path, learned: Learned) -> None:
    """Write it whole or not at all."""
    beside = profile.with_name(f".{profile.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(learned.to_json(), indent=1) + "\n")
        beside.replace(profile)
    except OSError as error:
        raise ConfigError(f"profile={str(profile)!r}: {error.strerror}") from error
