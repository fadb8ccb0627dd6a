from __future__ import annotations

from arl_tangram.testing.strategies import load_profiles

load_profiles()
