"""The check `calls` of tree rules: a call is not influenced by the calls before it.

The output distributions on some instances are enumerated twice, in turn, and compared. Where one call is
lossless, and keeps nothing for the next one, the text of several calls is.
"""

from spec_oracle.audit.context import Context
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, failed, passed
from spec_oracle.audit.rule.draftings import DEPTH, draftings
from spec_oracle.audit.rule.tree_joint import law_on
from spec_oracle.audit.rule.tree_subject import TreeSubject
from spec_oracle.exact import DecisionError, VerdictError

INSTANCES = ("flat", "peaked", "reversed")


def calls(subject: TreeSubject, context: Context) -> CheckResult:
    """Enumerate each instance, then each again."""
    toys = panel(3, DEPTH, 1, context.seed)
    kind = next(iter(draftings(subject.accepts, DEPTH)))
    try:
        rounds = [[law_on(subject, context, toys[name], kind) for name in INSTANCES] for _ in range(2)]
    except (DecisionError, VerdictError) as error:
        return failed(str(error), how=How.PROVEN)
    for before, after in zip(*rounds, strict=True):
        moved = max(abs(one - two).max() for one, two in zip(before.masses, after.masses, strict=True))
        if moved > subject.facts.tolerance:
            detail = "one call depends on calls before it: the probability of an output changed by "
            tv = float(max(before.total_variation, after.total_variation))
            return failed(f"{detail}{float(moved):.3g}", how=How.PROVEN, total_variation=tv)
    return passed("the output distribution of a call is the same after other calls", how=How.PROVEN)
