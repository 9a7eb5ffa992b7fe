"""What an audit says of an engine's calls after patterns of accepted lengths: a cell of a study."""

from typing import Any


def judged_after_patterns(engine: Any, seconds: float) -> str:
    """Return what is found of the call after each pattern, within ``seconds`` of processor time."""
    from spec_oracle.audit.context import Context
    from spec_oracle.audit.engine.patterns import after_patterns
    from spec_oracle.audit.engine.requests import Requests
    from spec_oracle.audit.engine.subject import Case, EngineSubject
    from spec_oracle.contracts.engine import EngineCode

    case = Case("", EngineCode(engine), engine.prompts[0], "the engine")
    subject = EngineSubject("", {"": case.code})
    requests = Requests(subject, Context(), "patterns")
    result = after_patterns(requests, [case], requests.context.rate, seconds)
    said = [line.removeprefix("the engine: ") for line in result.remarks.scope]
    return f"{result.status.value}: " + "; ".join(filter(None, [result.detail, *said]))
