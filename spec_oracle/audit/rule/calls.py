"""The check `calls` of rules: the tokens of several calls are distributed as the target's.

The distribution over several calls is enumerated, after K paths, then after trees with every kind of siblings
that the rule accepts. No rule knows of stop tokens: what it emits up to one is a part of the same text. A
call is given the state that the one before returned; what a rule keeps besides shows as a wrong distribution,
since each call is run many times.
"""

import time
from dataclasses import replace
from typing import Any

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import PATHS
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.results import (
    DECLARED,
    CheckResult,
    How,
    Status,
    TooSlowError,
    failed,
    passed,
    remarked,
)
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.exact import DecisionError, VerdictError, decoded_law
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.threads import raising
from spec_oracle.toy import Instance


def calls(subject: RuleSubject, context: Context) -> CheckResult:
    """Enumerate the text of several calls after one kind of drafts after the other, within the budget."""
    if subject.facts.bound is not None:
        return CheckResult("", Status.SKIPPED, DECLARED)
    paths = next(iter(instances_for(context, subject.num_paths).values())).num_paths
    instance = panel(2, 2, paths, context.seed)["good-draft"]
    end = time.process_time() + max(context.budget, effort.RULE_LEAST_SECONDS)
    found, too_slow = list[CheckResult](), list[str]()
    for kind in subject.one_of_each(instance):
        left = replace(context, budget=max(end - time.process_time(), 0.0))
        try:
            found.append(decoded(subject, left, context.rate, instance=instance, kind=kind))
        except NotTracedError:
            too_slow.append(kind)
            continue
        if found[-1].status is not Status.PASSED:
            return found[-1]
    if not found:
        raise TooSlowError("the text of two calls has too many outcomes to run in this time; raise --budget")
    worst = max(found, key=lambda one: one.measured.total_variation or 0.0)
    others = f", after each of {len(found)} kinds of drafts" if len(found) > 1 else ""
    scope = (f"text of two calls not run in this time: {'; '.join(too_slow)}",) if too_slow else ()
    return remarked(replace(worst, detail=f"{worst.detail}{others}"), scope=scope)


@part
def decoded(
    subject: RuleSubject, context: Context, rate: float, *, instance: Instance, kind: str = PATHS
) -> CheckResult:
    """Enumerate two calls and one token more of a toy instance."""
    del rate
    tokens = 2 * instance.draft_length + 1
    how: dict[str, Any] = {"exact": context.exact, "array": "numpy" if context.exact else subject.array}
    how |= {"drafting": subject.one_of_each(instance)[kind], "end": time.process_time() + context.budget}
    try:
        with raising():
            law = decoded_law(subject.rule, instance, tokens, **how)
    except (DecisionError, VerdictError) as error:
        return failed(str(error), how=How.PROVEN)
    tv, gap = float(law.total_variation), law.largest_gap
    found: dict[str, Any] = {"total_variation": tv, "how": How.PROVEN}
    if law.total_variation > (0 if context.exact else subject.facts.tolerance):
        detail = (
            f"total variation {tv:.3g} of {tokens} tokens: {','.join(map(str, gap.sequence))} is emitted "
            f"with probability {float(gap.actual):.{gap.digits}g}, "
            f"{float(gap.expected):.{gap.digits}g} expected ({kind})"
        )
        return failed(detail, **found)
    size = "exactly 0" if context.exact else f"at most {tv:.1e}"
    return passed(f"total variation of the first {tokens} tokens {size}", **found)
