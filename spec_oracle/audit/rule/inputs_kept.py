"""The check `inputs-kept` of rules: the arrays given to a call are unchanged after it.

Every array is copied before the call, and compared after it.
"""

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import instances_for, panel
from spec_oracle.audit.results import CheckResult, Status, not_asked, passed
from spec_oracle.audit.rule.batch import UNIFORMS, verdicts
from spec_oracle.audit.rule.draftings import DEPTH, SampledTrees, one_of_each
from spec_oracle.audit.rule.subject import TREE_UNIFORMS, TreeSubject, VerifierSubject, tree_verdicts
from spec_oracle.audit.sampler.inputs_kept import compared
from verifiers import Drafts


def inputs_kept(subject: VerifierSubject, context: Context) -> CheckResult:
    """Compare the drafts before and after; no error rate, one change proves it."""
    if subject.never_batched:
        return not_asked(subject.never_batched)
    instance = next(iter(instances_for(context, subject.num_paths).values()))
    requests = effort.INPUTS_KEPT_REQUESTS
    rng = context.stream("verifier/inputs-kept")
    drafts = sampled_drafts(instance, requests, rng, subject.drafting)
    uniforms = rng.random((requests, UNIFORMS))
    return drafts_kept(subject, context, context.rate, drafts=drafts, uniforms=uniforms)


@part
def drafts_kept(
    subject: VerifierSubject, context: Context, rate: float, *, drafts: Drafts, uniforms: NDArray[np.float64]
) -> CheckResult:
    """Verify once, and compare the drafts."""
    del context, rate
    drafts = Drafts(drafts.tokens.copy(), drafts.draft_probs.copy(), drafts.target_probs.copy())
    handed = (drafts.tokens, drafts.draft_probs, drafts.target_probs)
    before = [array.copy() for array in handed]
    verdicts(subject.verifier, drafts, uniforms)
    return compared(before, handed)


def inputs_kept_on_trees(subject: TreeSubject, context: Context) -> CheckResult:
    """Compare the draft trees before and after; no error rate, one change proves it."""
    rng, toy = context.stream("tree/inputs-kept"), panel(3, DEPTH, 1, context.seed)["flat"]
    result = passed("inputs unchanged")
    for drafting in one_of_each(subject.accepts, DEPTH).values():
        table = SampledTrees(toy, drafting, subject.array)
        drafts = table.drafts(table.sample(effort.INPUTS_KEPT_REQUESTS, rng))
        handed = {field.name: getattr(drafts, field.name) for field in fields(drafts)}
        before = [np.array(array) for array in handed.values()]
        tree_verdicts(subject, drafts, rng.random((drafts.batch, TREE_UNIFORMS)))
        result = compared(before, [*handed.values()], handed)
        if result.status is Status.FAILED:
            return result
    return result
