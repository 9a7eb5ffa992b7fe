"""The check `inputs-kept`: the arrays given to a call are unchanged after it.

Every array is copied before the call, and compared after it.
"""

from functools import partial
from typing import Final

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import DEPTH, one_of_each, sampled_trees
from spec_oracle.audit.draws import require_affordable, sampled_drafts
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, Status, check_result
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import raising
from verifiers import Drafts, Paths

INPUTS_KEPT_REQUESTS: Final = 64  # Requests of the batch whose arguments are compared before and after.

ARRAYS: Final = ("draft_tokens", "draft_probs", "target_probs")
ARRAYS_OF_TREES: Final = ("tokens", "parents", "draft_probs", "target_probs")


def inputs_kept(subject: SamplerSubject, context: Context) -> CheckResult:
    """Compare the arrays before and after; no error rate, one change proves it."""
    found, rng = paths_kept(subject, context), context.stream("sampler/inputs-kept/trees")
    small = panel(3, DEPTH, 1, context.seed)["flat"]
    for drafting in one_of_each(subject.on_trees, DEPTH).values():
        if found.status is Status.PASSED:
            trees = sampled_trees(small, drafting, INPUTS_KEPT_REQUESTS, rng)
            found = arrays_kept(subject, context, context.rate, drafts=trees, seed=context.seed)
    return found


def paths_kept(subject: CalledAsSampler, context: Context) -> CheckResult:
    """Compare the arrays of K paths."""
    require_affordable(subject, context, INPUTS_KEPT_REQUESTS)
    toy, rng = panel(3, 3, subject.num_paths, context.seed)["flat"], context.stream("sampler/inputs-kept")
    drafts = sampled_drafts(toy, INPUTS_KEPT_REQUESTS, rng, subject.drafting)
    return arrays_kept(subject, context, context.rate, drafts=drafts, seed=context.seed)


@part
def arrays_kept(
    subject: CalledAsSampler, context: Context, rate: float, *, drafts: Paths | Drafts, seed: int
) -> CheckResult:
    """Call the code once, and compare the arrays."""
    del context, rate
    before = subject.code.arguments(drafts)
    handed = [subject.code.handed(array) for array in before]
    with raising():
        subject.code.function(*handed, subject.code.generator(seed))
    names = ARRAYS_OF_TREES if subject.code.is_of_trees else ARRAYS
    say = partial(check_result, draws=len(before[0]), how=How.REPLAYED)
    for name, old, new in zip(names, before, map(np.asarray, handed), strict=True):
        if (changed := np.argwhere(old != new)).size:
            index = tuple(map(int, changed[0]))
            detail = f"{name} changed during the call: it was {old[index]:g} at {list(index)}"
            return say(Status.FAILED, f"{detail}, and is {new[index]:g} after it")
    return say(Status.PASSED, "inputs unchanged")
