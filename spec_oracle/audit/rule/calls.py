"""The check `calls`: the tokens of several calls are distributed as the target's.

The distribution over several calls is enumerated, a state that is carried over and a stop token included.
"""

from functools import partial
from typing import Any

from spec_oracle.audit.context import Context
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.results import DECLARED, CheckResult, How, Status, failed, passed
from spec_oracle.audit.rule.subject import VerifierSubject
from spec_oracle.exact import DecisionError, VerdictError, decoded_law
from spec_oracle.threads import raising
from spec_oracle.toy import Instance


def calls(subject: VerifierSubject, context: Context) -> CheckResult:
    """Enumerate the text of several calls, carried state and a stop token included."""
    if subject.facts.bound is not None:
        return CheckResult("", Status.SKIPPED, DECLARED)
    paths = next(iter(instances_for(context, subject.num_paths).values())).num_paths
    instance = panel(2, 2, paths, context.seed)["good-draft"]
    return decoded(subject, context, context.rate, instance=instance)


@part
def decoded(subject: VerifierSubject, context: Context, rate: float, *, instance: Instance) -> CheckResult:
    """Enumerate two calls and one token more of a toy instance, with a stop token and without."""
    del rate
    tokens = 2 * instance.draft_length + 1
    how: dict[str, Any] = {"exact": context.exact, "array": "numpy" if context.exact else context.array}
    try:
        law_with = partial(decoded_law, subject.verifier, instance, tokens, **how)
        with raising():
            laws = [law_with(stop_token=stop) for stop in (None, 0)]
    except (DecisionError, VerdictError) as error:
        return failed(str(error))
    worst = max(laws, key=lambda law: law.total_variation)
    tv, gap = float(worst.total_variation), worst.largest_gap
    found: dict[str, Any] = {"total_variation": tv, "how": How.PROVEN}
    if worst.total_variation > (0 if context.exact else subject.facts.tolerance):
        detail = (
            f"total variation {tv:.3g} of {tokens} tokens: {','.join(map(str, gap.sequence))} is emitted "
            f"with probability {float(gap.actual):.4g}, {float(gap.expected):.4g} expected"
        )
        return failed(detail, **found)
    size = "exactly 0" if context.exact else f"at most {tv:.1e}"
    return passed(f"total variation of the first {tokens} tokens {size}", **found)
