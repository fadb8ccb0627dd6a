"""The seam where scheduling policies plug in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .model import ActionId, Seconds
