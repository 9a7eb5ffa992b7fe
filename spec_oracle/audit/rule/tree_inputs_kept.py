"""The check `inputs-kept` of tree rules: the arrays given to a call are unchanged after it.

Every array is copied before the call, and compared after it.
"""

from dataclasses import fields

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, Status, passed
from spec_oracle.audit.rule.draftings import DEPTH, SampledTrees, one_of_each
from spec_oracle.audit.rule.tree_batch import UNIFORMS
from spec_oracle.audit.rule.tree_subject import TreeSubject, verdicts
from spec_oracle.audit.sampler.inputs_kept import compared


def inputs_kept(subject: TreeSubject, context: Context) -> CheckResult:
    """Compare the draft trees before and after; no error rate, one change proves it."""
    rng, toy = context.stream("tree/inputs-kept"), panel(3, DEPTH, 1, context.seed)["flat"]
    result = passed("inputs unchanged")
    for drafting in one_of_each(subject.accepts, DEPTH).values():
        table = SampledTrees(toy, drafting, subject.array)
        drafts = table.drafts(table.sample(effort.INPUTS_KEPT_REQUESTS, rng))
        handed = {field.name: getattr(drafts, field.name) for field in fields(drafts)}
        before = [np.array(array) for array in handed.values()]
        verdicts(subject, drafts, rng.random((drafts.batch, UNIFORMS)))
        result = compared(before, [*handed.values()], handed)
        if result.status is Status.FAILED:
            return result
    return result
