"""What was learned about durations, kept from one run to the next."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..core.estimates import Learned
from ..errors import ConfigError


def load_profile(profile: Path | None) -> Learned:
    """What the file holds; nothing learned yet if there is no file."""
    if profile is None or not profile.exists():
        return Learned()
    try:
        return Learned.from_json(json.loads(profile.read_text()))
    except (OSError, ValueError) as error:
        raise ConfigError(f"profile={str(profile)!r}: {error}") from error


def save_profile(profile: Path, learned: Learned) -> None:
    """Write it whole or not at all."""
    beside = profile.with_name(f".{profile.name}.{os.getpid()}")
    beside.write_text(json.dumps(learned.to_json(), indent=1) + "\n")
    beside.replace(profile)
