"""The check `calls` of tree rules: a call is not influenced by the calls before it.

The output distribution on one instance is enumerated again after thousands of calls on other instances. Where
one call is lossless, and keeps nothing for the next one, the text of several calls is.
"""

from spec_oracle.audit.context import Context
from spec_oracle.audit.panel import main_instances, panel
from spec_oracle.audit.results import CheckResult, How, failed, passed
from spec_oracle.audit.tree.draftings import DEPTH, draftings
from spec_oracle.audit.tree.joint import law_on
from spec_oracle.audit.tree.subject import TreeSubject
from spec_oracle.exact import DecisionError, VerdictError


def calls(subject: TreeSubject, context: Context) -> CheckResult:
    """Enumerate one instance, another one, and the first again."""
    toys = panel(3, DEPTH, 1, context.seed)
    first, other = main_instances(toys)
    kind = next(iter(draftings(subject.accepts, DEPTH)))
    try:
        before, _, after = (law_on(subject, context, toys[name], kind) for name in (first, other, first))
    except (DecisionError, VerdictError) as error:
        return failed(str(error), how=How.PROVEN)
    moved = max(abs(one - two).max() for one, two in zip(before.masses, after.masses, strict=True))
    if moved > subject.facts.tolerance:
        detail = (
            f"one call depends on calls before it: the probability of an output changed by {float(moved):.3g}"
        )
        return failed(detail, how=How.PROVEN, total_variation=float(after.total_variation))
    return passed("the output distribution of a call is the same after other calls", how=How.PROVEN)
