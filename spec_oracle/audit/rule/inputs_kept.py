"""The check `inputs-kept` of rules: the arrays given to a call are unchanged after it.

Every array is copied before the call, and compared after it.
"""

from collections.abc import Sequence

import numpy as np

from spec_oracle.arrays import Floats
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import SampledDrafts
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import instances_for
from spec_oracle.audit.results import CheckResult, How, Status, not_asked, passed
from spec_oracle.audit.rule.subject import UNIFORMS, RuleSubject, verdicts_on
from spec_oracle.audit.sampler.inputs_kept import ARRAYS_OF_TREES, compared
from spec_oracle.audit.saved_inputs import as_drafts
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.call import converted
from verifiers import Drafts, Paths
from verifiers.arrays import Array


def inputs_kept(subject: RuleSubject, context: Context) -> CheckResult:
    """Compare the drafts before and after; no error rate, one change proves it."""
    if subject.never_batched:
        return not_asked(subject.never_batched)
    instance = next(iter(instances_for(context, subject.num_paths).values()))
    rng, requests = context.stream("verifier/inputs-kept"), effort.INPUTS_KEPT_REQUESTS
    draws = 0
    for drafting in subject.one_of_each(instance).values():
        drafts, uniforms = (
            SampledDrafts(instance, drafting).sample(requests, rng),
            rng.random((requests, UNIFORMS)),
        )
        found = drafts_kept(subject, context, context.rate, drafts=drafts, uniforms=uniforms)
        if found.status is not Status.PASSED:
            return found
        draws += found.measured.draws
    return passed("inputs unchanged", how=How.REPLAYED, draws=draws)


@part
def drafts_kept(
    subject: RuleSubject, context: Context, rate: float, *, drafts: Drafts | Paths, uniforms: Floats
) -> CheckResult:
    """Verify once, and compare the drafts."""
    del context, rate
    drafts = as_drafts(drafts)
    copied = drafts.converted(np.array, np.array)  # code that writes must not spoil what is saved
    handed = converted(copied, arithmetic(array=subject.array))
    before = [np.array(array) for array in _arrays(handed)]
    verdicts_on(subject, handed, uniforms)
    return compared(before, _arrays(handed), ARRAYS_OF_TREES)


def _arrays(drafts: Drafts) -> Sequence[Array]:
    if drafts.num_paths is None:
        return drafts.tokens, drafts.parents, drafts.draft.dense(), drafts.target.dense()
    paths = drafts.paths  # the rows of the root are there once for each path
    return drafts.tokens, drafts.parents, paths.draft_probs, paths.target_probs
