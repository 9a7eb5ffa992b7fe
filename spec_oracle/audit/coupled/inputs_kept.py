"""The check `inputs-kept` of coupled rules: the arrays given to a call are unchanged after it.

Drafts and uniforms are copied before the call, and compared after it.
"""

from dataclasses import fields

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.coupled.subject import CoupledSubject, arrays_of, requests
from spec_oracle.audit.panel import instances_for
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.sampler.inputs_kept import compared
from spec_oracle.contracts import raising
from spec_oracle.contracts.sampler import to_library
from verifiers import Drafts


def inputs_kept(subject: CoupledSubject, context: Context) -> CheckResult:
    """Call the rule once, and compare the arrays; no error rate, one change proves it."""
    toy = next(iter(instances_for(context, subject.num_paths).values()))
    drafts, uniforms = requests(toy, effort.INPUTS_KEPT_REQUESTS, context.stream("coupled/inputs-kept"))
    before = (*arrays_of(drafts), uniforms)
    handed = [to_library(array, subject.code.array) for array in before]
    with raising():
        subject.code.rule.verify(Drafts(*handed[:3]), handed[3])
    names = (*(field.name for field in fields(Drafts)), "uniforms")
    return compared(before, [np.asarray(array) for array in handed], names)
