"""An engine's completions with drafts beside those without, both traced: what a cell of a study holds."""

from typing import Any


def beside_plain(
    engine: Any, tokens: int, most_runs: int, most_runs_plain: int
) -> tuple[float, int, tuple[list[int], float, float], str]:
    """Return the total variation, the runs with drafts, the largest gap, and what drafts never did.

    Of completions of up to ``tokens`` tokens after the engine's first prompt. The gap is a completion, its
    probability, and that of target-only decoding. Raises `SpecOracleError` where they cannot be traced.
    """
    from spec_oracle.audit.engine.tracer import completions_of, traced
    from spec_oracle.contracts.engine import EngineCode
    from spec_oracle.exact.completions import completion_gap, distance

    code = EngineCode(engine)
    prompt = code.prompts[0]
    found = traced(completions_of(code, prompt, tokens), most_runs)
    never = code.drafts.seen.never
    plain = traced(completions_of(code, prompt, tokens, "generate_plain"), most_runs_plain)
    gap = completion_gap(found.law, plain.law)
    shown = [*gap.sequence], gap.actual, gap.expected
    return distance(found.law, plain.law), found.runs, shown, never
