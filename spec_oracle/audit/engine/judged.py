"""Whether completions that were traced are distributed as the target's, and what plain samples say of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from spec_oracle.audit.context import Context, stream
from spec_oracle.audit.declared import ROUNDING
from spec_oracle.audit.engine.confirm import confirmed_claim
from spec_oracle.audit.engine.exact_comparison import CompletionLaws, Tracer
from spec_oracle.audit.engine.rounding import Rounding
from spec_oracle.audit.engine.sampled import confirmed
from spec_oracle.audit.engine.wording import counted, scope_of, shown
from spec_oracle.audit.results import (
    Cause,
    CheckResult,
    Findings,
    How,
    LawResult,
    Measured,
    Remarks,
    Shown,
    Status,
    WrongCompletion,
)
from spec_oracle.exact.completions import completion_gap


@dataclass(frozen=True)
class TracedFindings(Findings):
    """What `joint` found of an engine by tracing: `calls` does not trace it again."""

    traced: tuple[CompletionLaws, ...] = ()


def judged_and_confirmed(
    found: Sequence[CompletionLaws], rounding: Rounding, context: Context, tracer: Tracer
) -> LawResult:
    """Judge the laws that ``tracer`` found, and have plain samples confirm what is said of them.

    Raises `NoEvidenceError` where samples contradict a law.
    """
    result, off = judged(found, rounding), None
    worst, cases = worst_of(found), list(dict.fromkeys(compared.case for compared in found))
    lengths = sorted({compared.tokens for compared in found})
    scope = scope_of(cases, lengths, f"traced in {tracer.runs:,} runs")
    if result.status is Status.FAILED:
        line = confirmed_claim(worst, context, rounding, tracer.due)
        gap = completion_gap(worst.traced.law, worst.expected)
        off = WrongCompletion(worst.case.name, worst.case.prompt, worst.tokens, gap, worst.total_variation)
    else:
        longest = {c.case: c for c in sorted(found, key=lambda c: c.tokens) if not c.is_pair}
        laws = [(case, compared.tokens, dict(compared.traced.law)) for case, compared in longest.items()]
        line = confirmed(laws, context, stream(context.seed, "engine/confirmed"))
    notes = result.remarks.notes or (str(rounding),) * rounding.is_assumed
    findings = TracedFindings(
        total_variation=max(compared.total_variation for compared in found),
        smallest_detectable_tv=lengths[-1] * rounding.a_token,
        is_reference_wrong=not all(rounding.explains(c.rows_off, c.tokens) for c in found),
        traced=tuple(found),
    )
    return LawResult(
        "",
        result.status,
        result.detail,
        result.how,
        result.measured,
        Remarks((scope, line, str(rounding)), notes),
        Shown(off),
        result.cause,
        findings=findings,
    )


def judged(found: Sequence[CompletionLaws], rounding: Rounding) -> CheckResult:
    """Say whether all laws are those of target-only decoding, up to rounding.

    A distance that may be rounding, but is larger than what counts as such, stays undecided.
    """
    worst = worst_of(found)
    wrong = max(found, key=lambda compared: compared.rows_off / compared.tokens)
    gap = max(compared.total_variation for compared in found)
    is_rounding = rounding.explains(worst.total_variation, worst.tokens)
    said = " (rounding)" if gap > ROUNDING else ""
    most = counted(max(compared.tokens for compared in found), "token")
    detail = f"{len(found)} distributions of up to {most}: off by {gap:.1e} at most{said}"
    status = Status.PASSED
    if not rounding.may_explain(worst.total_variation, worst.tokens):
        status, detail, gap = Status.FAILED, _failure(worst, rounding), worst.total_variation
    elif not is_rounding:
        status = Status.INCONCLUSIVE
        detail = f"{_size(worst.label, worst.total_variation, worst.tokens)}; {rounding.doubt}"
    elif not rounding.explains(wrong.rows_off, wrong.tokens):
        status = Status.INCONCLUSIVE
        who = f"{wrong.case.label}: generate and generate_plain agree, next_token_probs differs"
        is_clear = not rounding.may_explain(wrong.rows_off, wrong.tokens)
        detail = _size(f"{who}; correct it" if is_clear else who, wrong.rows_off, wrong.tokens)
        detail += "" if is_clear else f"; {rounding.doubt}"
    is_open = status is Status.INCONCLUSIVE
    return CheckResult(
        "",
        status,
        detail,
        How.PROVEN,
        Measured(total_variation=gap),
        Remarks(notes=rounding.notes if is_open else ()),
        cause=Cause.UNDECIDED if is_open else None,
    )


def _size(what: str, distance: float, tokens: int) -> str:
    return f"{what}: total variation {distance:.3g} of {counted(tokens, 'token')}"


def worst_of(found: Sequence[CompletionLaws]) -> CompletionLaws:
    """Return what is farthest from target-only decoding, measured by the rounding that is allowed."""
    return max(found, key=lambda compared: compared.total_variation / compared.tokens)


def _failure(worst: CompletionLaws, rounding: Rounding) -> str:
    gap = completion_gap(worst.traced.law, worst.expected)
    kept = "; a generation changes the next ones" if worst.traced.keeps_state or worst.is_pair else ""
    is_row_wrong = not rounding.explains(worst.rows_off, worst.tokens)
    wrong = "; next_token_probs differs from generate_plain too" * is_row_wrong
    return (
        f"{worst.label}: completion {shown(gap.sequence)} has probability {gap.actual:.4g}, target-only "
        f"decoding gives it {gap.expected:.4g} (total variation {worst.total_variation:.3g} of "
        f"{counted(worst.tokens, 'token')}){kept}{wrong}"
    )
