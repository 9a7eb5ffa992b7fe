"""The check `batch` of rules: a request's result ignores the others of its batch, and its own place.

Requests are verified together, alone, and in another order, with the same uniforms; results must be equal.
"""

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import sampled_trees
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import instances_for
from spec_oracle.audit.results import CheckResult, How, Status, failed, not_asked, passed
from spec_oracle.audit.rule.replay import UNIFORMS, verdicts
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.saved_inputs import as_drafts
from verifiers import Drafts, Paths


def batch(subject: RuleSubject, context: Context) -> CheckResult:
    """Judge whether requests get the same verdict alone, and in another order, given the same uniforms."""
    if subject.never_batched:
        return not_asked(subject.never_batched)
    rng = context.stream("verifier/batch")
    instance = next(iter(instances_for(context, subject.num_paths).values()))
    for drafting in subject.one_of_each(instance).values():
        for size in effort.BATCH_TURNS:
            drafts, order = sampled_trees(instance, drafting, size, rng), rng.permutation(size)
            uniforms = rng.random((size, UNIFORMS))
            given = {"drafts": drafts, "uniforms": uniforms, "order": order}
            found = in_another_batch(subject, context, context.rate, **given)
            if found.status is not Status.PASSED:
                return found
    sizes = ", ".join(map(str, effort.BATCH_TURNS))
    return passed(f"same results alone and in any order, in batches of {sizes}", how=How.REPLAYED)


@part
def in_another_batch(
    subject: RuleSubject,
    context: Context,
    rate: float,
    *,
    drafts: Drafts | Paths,
    uniforms: Floats,
    order: Integers,
) -> CheckResult:
    """Verify all requests in two orders, and some alone, with the same uniforms, and compare the verdicts."""
    del context, rate
    drafts = as_drafts(drafts)
    size, order = drafts.batch, np.argsort(np.argsort(order))
    some = sorted({0, size - 1, *order[: effort.BATCH_REPLAYED].tolist()})
    found = verdicts(subject.rule, subject.array, drafts, uniforms)
    for how, other in (("in another order", order), *(("alone", np.array([one])) for one in some)):
        again = verdicts(subject.rule, subject.array, drafts.take(other), uniforms[other])
        if (moved := (found[other] != again).any(axis=1)).any():
            place = int(moved.argmax())
            one, two = (_said(drafts, other[place], verdict[place]) for verdict in (found[other], again))
            where = f"request {other[place]} of a batch of {size} gets {one} there, and {two} {how}"
            return failed(f"with the same uniforms, {where}", how=How.REPLAYED)
    return passed("same results alone and in any order", how=How.REPLAYED)


def _said(drafts: Drafts, request: int, verdict: Integers) -> str:
    node, token = verdict.tolist()
    accepted = int(drafts.take(np.array([request])).path_to(np.array([node])).lengths[0])
    return f"{accepted} accepted tokens and then token {token}"
