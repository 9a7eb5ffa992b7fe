"""Whether completions that were traced are distributed as the target's, and what plain samples say of it."""

from collections.abc import Sequence
from dataclasses import replace

from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import ROUNDING, Facts
from spec_oracle.audit.engine.confirm import confirmed_claim
from spec_oracle.audit.engine.exact_comparison import Compared, Tracer
from spec_oracle.audit.engine.sampled import confirmed
from spec_oracle.audit.engine.wording import counted, scope_of, shown
from spec_oracle.audit.results import CheckResult, Findings, How, Status, WrongCompletion
from spec_oracle.audit.streams import stream
from spec_oracle.exact.completions import completion_gap


def judged_and_confirmed(
    found: Sequence[Compared], facts: Facts, context: Context, tracer: Tracer
) -> CheckResult:
    """Judge the laws that ``tracer`` found, and have plain samples confirm what is said of them.

    Raises `NoEvidenceError` where samples contradict a law.
    """
    result, off = judged(found, facts.tolerance), None
    worst, cases = worst_of(found), list(dict.fromkeys(compared.case for compared in found))
    lengths = sorted({compared.tokens for compared in found})
    scope = scope_of(cases, lengths, f"traced in {tracer.runs:,} runs")
    if result.status is Status.FAILED:
        line = confirmed_claim(worst, context, facts.tolerance, tracer.due)
        gap = completion_gap(worst.traced.law, worst.expected)
        off = WrongCompletion(worst.case.name, worst.case.prompt, worst.tokens, gap, worst.total_variation)
    else:
        longest = {c.case: c for c in sorted(found, key=lambda c: c.tokens) if not c.is_pair}
        laws = [(case, compared.tokens, dict(compared.traced.law)) for case, compared in longest.items()]
        line = confirmed(laws, context, stream(context.seed, "engine/confirmed"))
    return replace(
        result,
        scope=(scope, line),
        shown=off,
        findings=Findings(
            total_variation=max(compared.total_variation for compared in found),
            smallest_detectable_tv=lengths[-1] * facts.tolerance,
            is_reference_wrong=any(c.rows_off > c.tokens * facts.tolerance for c in found),
            traced=tuple(found),
        ),
    )


def judged(found: Sequence[Compared], tolerance: float) -> CheckResult:
    """Say whether all laws are those of target-only decoding, up to rounding by ``tolerance`` a token."""
    worst = worst_of(found)
    wrong = max(found, key=lambda compared: compared.rows_off / compared.tokens)
    gap = max(compared.total_variation for compared in found)
    rounding = " (float32 rounding)" if gap > ROUNDING else ""
    most = counted(max(compared.tokens for compared in found), "token")
    detail = f"{len(found)} distributions of up to {most}: off by {gap:.1e} at most{rounding}"
    status = Status.PASSED
    if worst.total_variation > worst.tokens * tolerance:
        status, detail, gap = Status.FAILED, _failure(worst), worst.total_variation
    elif wrong.is_off(tolerance):
        status = Status.INCONCLUSIVE
        detail = (
            f"{wrong.case.label}: generate and generate_plain agree, next_token_probs differs; correct it "
            f"(total variation {wrong.rows_off:.3g} of {counted(wrong.tokens, 'token')})"
        )
    return CheckResult("", status, detail, total_variation=gap, how=How.PROVEN)


def worst_of(found: Sequence[Compared]) -> Compared:
    """Return what is farthest from target-only decoding, measured by the rounding that is allowed."""
    return max(found, key=lambda compared: compared.total_variation / compared.tokens)


def _failure(worst: Compared) -> str:
    gap = completion_gap(worst.traced.law, worst.expected)
    kept = "; a generation changes the next ones" if worst.traced.keeps_state or worst.is_pair else ""
    wrong = "; next_token_probs differs from generate_plain too" if worst.rows_off > ROUNDING * 1e6 else ""
    return (
        f"{worst.label}: completion {shown(gap.sequence)} has probability {gap.actual:.4g}, target-only "
        f"decoding gives it {gap.expected:.4g} (total variation {worst.total_variation:.3g} of "
        f"{counted(worst.tokens, 'token')}){kept}{wrong}"
    )
