"""What an audit says of an engine's calls after patterns of accepted lengths: a cell of a study."""

from typing import Any


def judged_after_patterns(engine: Any, seconds: float, tolerance: float = 1e-6) -> str:
    """Return what is found of the call after each pattern, within ``seconds`` of processor time."""
    from spec_oracle.audit.context import Context
    from spec_oracle.audit.engine.patterns import after_patterns
    from spec_oracle.audit.engine.subject import Case
    from spec_oracle.contracts.engine import EngineCode

    case = Case("", EngineCode(engine), engine.prompts[0], "the engine")
    result = after_patterns([case], tolerance, Context(), seconds)
    said = [line.removeprefix("the engine: ") for line in result.scope]
    return f"{result.status.value}: " + "; ".join(filter(None, [result.detail, *said]))
