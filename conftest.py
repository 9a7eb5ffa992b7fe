"""Hypothesis profiles for every test of the project."""

import os

from hypothesis import HealthCheck, settings

# Deterministic: a run differs from the next only if the code does. No deadline: machines differ.
_COMMON = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fast", max_examples=30, **_COMMON)
settings.register_profile("ci", max_examples=100, **_COMMON)
settings.register_profile("nightly", max_examples=2000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
