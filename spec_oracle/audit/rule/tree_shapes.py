"""The check `shapes` of tree rules: the output distribution of one call for other sizes and trees.

Every outcome is run for vocabularies of 2 and 4 tokens, trees of one and of three tokens, trees whose paths
end early, other fan-outs, and in float32.
"""

from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import FLOAT32_ROUNDING
from spec_oracle.audit.instances import main_instances, panel
from spec_oracle.audit.results import CheckResult, How, failed, passed
from spec_oracle.audit.rule.draftings import DEPTH, later_sizes, one_of_each
from spec_oracle.audit.rule.tree_subject import TreeSubject
from spec_oracle.exact import DecisionError, VerdictError
from spec_oracle.exact.tree_emission import tree_emission_law
from spec_oracle.threads import raising


def shapes(subject: TreeSubject, context: Context) -> CheckResult:
    """Enumerate the rule on an instance of each size in float64, and of each kind of siblings in float32."""
    sizes = [(*size, "float64") for size in later_sizes(subject.accepts)]
    if "float32" in context.dtypes:
        some = one_of_each(subject.accepts, DEPTH).items()
        sizes += [(kind, 3, DEPTH, drafting, "float32") for kind, drafting in some]
    worst = 0.0
    for number, (kind, vocab, length, drafting, dtype) in enumerate(sizes):
        toys = panel(vocab, length, 1, context.seed)
        name = main_instances(toys)[number % 2]
        tolerance = max(subject.facts.explained(length + 1), FLOAT32_ROUNDING if dtype == "float32" else 0.0)
        where = f"V = {vocab}, L = {length}, {dtype}, {kind}, instance {name!r}"
        try:
            with raising():
                law = tree_emission_law(subject.rule, toys[name], drafting, array=subject.array, dtype=dtype)
        except (DecisionError, VerdictError) as error:
            return failed(f"{where}: {error}", how=How.PROVEN)
        tv = float(law.total_variation)
        worst = max(worst, tv)
        if tv > tolerance:
            return failed(f"total variation {tv:.3g} at {where}", how=How.PROVEN, total_variation=tv)
    kinds = "; ".join(f"V = {vocab}, {dtype}, {kind}" for kind, vocab, _, _, dtype in sizes)
    detail = f"output distribution exact at {len(sizes)} other sizes and kinds of draft trees"
    return passed(detail, how=How.PROVEN, total_variation=worst, scope=(f"other sizes: {kinds}",))
