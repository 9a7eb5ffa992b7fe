"""Third-party implementations behind one small adapter each; nothing is imported until it is asked for."""

from spec_oracle.adapters.errors import EngineError
from spec_oracle.adapters.samplers.registry import (
    Engine,
    KeyedEngine,
    RacedEngine,
    engine_names,
    engine_subject,
    installed_version,
    is_proven,
    load_engine,
    why_unavailable,
)
from spec_oracle.adapters.samplers.subjects import EngineSubject, Origin

__all__ = [
    "Engine",
    "EngineError",
    "EngineSubject",
    "KeyedEngine",
    "Origin",
    "RacedEngine",
    "engine_names",
    "engine_subject",
    "installed_version",
    "is_proven",
    "load_engine",
    "why_unavailable",
]
