"""The check `calls` of rules: the tokens of several calls are distributed as the target's.

The distribution over several calls is enumerated, a state that is carried over and a stop token included. On
trees the distributions on some instances are enumerated twice, in turn: where one call is lossless, and keeps
nothing for the next one, the text of several calls is.
"""

from functools import partial
from typing import Any

from spec_oracle.audit.context import Context
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.results import DECLARED, CheckResult, How, Status, failed, passed
from spec_oracle.audit.rule.draftings import DEPTH, draftings
from spec_oracle.audit.rule.joint import law_on
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.exact import DecisionError, VerdictError, decoded_law
from spec_oracle.threads import raising
from spec_oracle.toy import Instance

INSTANCES = ("flat", "peaked", "reversed")


def calls(subject: RuleSubject, context: Context) -> CheckResult:
    """Enumerate the text of several calls on paths, carried state and a stop token included; then trees."""
    if subject.facts.bound is not None:
        return CheckResult("", Status.SKIPPED, DECLARED)
    paths = next(iter(instances_for(context, subject.num_paths).values())).num_paths
    instance = panel(2, 2, paths, context.seed)["good-draft"]
    found = decoded(subject, context, context.rate, instance=instance)
    if found.status is not Status.PASSED or not subject.on_trees or context.is_lossy(subject):
        return found
    return _twice_on_trees(subject, context) or found


@part
def decoded(subject: RuleSubject, context: Context, rate: float, *, instance: Instance) -> CheckResult:
    """Enumerate two calls and one token more of a toy instance, with a stop token and without."""
    del rate
    tokens = 2 * instance.draft_length + 1
    how: dict[str, Any] = {"exact": context.exact, "array": "numpy" if context.exact else subject.array}
    try:
        law_with = partial(decoded_law, subject.rule, instance, tokens, **how)
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


def _twice_on_trees(subject: RuleSubject, context: Context) -> CheckResult | None:
    """Enumerate instances on trees, then each again; return what is wrong with that, None for nothing."""
    toys, drafting = panel(3, DEPTH, 1, context.seed), next(iter(draftings(subject.on_trees, DEPTH).values()))
    law_of = partial(law_on, subject, context, lambda _: drafting)
    try:
        rounds = [[law_of(toys[name]) for name in INSTANCES] for _ in range(2)]
    except (DecisionError, VerdictError) as error:
        return failed(str(error), how=How.PROVEN)
    for before, after in zip(*rounds, strict=True):
        moved = max(abs(one - two).max() for one, two in zip(before.masses, after.masses, strict=True))
        if moved > subject.facts.tolerance:
            detail = "one call depends on calls before it: the probability of an output changed by "
            tv = float(max(before.total_variation, after.total_variation))
            return failed(f"{detail}{float(moved):.3g}", how=How.PROVEN, total_variation=tv)
    return None
