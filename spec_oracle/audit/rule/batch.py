"""The check `batch` of rules: a request's result ignores the others of its batch, and its own place.

Requests are verified together, alone, and in another order, with the same uniforms; results must be equal.
"""

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import instances_for
from spec_oracle.audit.results import CheckResult, How, Status, failed, not_asked, passed
from spec_oracle.audit.rule.draftings import SampledDrafts
from spec_oracle.audit.rule.subject import UNIFORMS, RuleSubject, verdicts
from spec_oracle.audit.saved_inputs import as_drafts
from verifiers import Drafts, Paths


def batch(subject: RuleSubject, context: Context) -> CheckResult:
    """Judge whether requests get the same verdict alone, and in another order, given the same uniforms."""
    if subject.never_batched:
        return not_asked(subject.never_batched)
    rng = context.stream("verifier/batch")
    instance = next(iter(instances_for(context, subject.num_paths).values()))
    for drafting in subject.one_of_each(instance).values():
        drawn = SampledDrafts(instance, drafting)
        for size in effort.BATCH_TURNS:
            drafts, order = drawn.sample(size, rng), rng.permutation(size)
            uniforms = rng.random((size, UNIFORMS))
            for part_of in (in_another_order, each_alone):
                found = part_of(subject, context, context.rate, drafts=drafts, uniforms=uniforms, order=order)
                if found.status is not Status.PASSED:
                    return found
    sizes = ", ".join(map(str, effort.BATCH_TURNS))
    return passed(f"same results alone and in any order, in batches of {sizes}", how=How.REPLAYED)


@part
def in_another_order(
    subject: RuleSubject,
    context: Context,
    rate: float,
    *,
    drafts: Drafts | Paths,
    uniforms: Floats,
    order: Integers,
) -> CheckResult:
    """Verify all requests in two orders with the same uniforms, and compare the verdicts."""
    del context, rate
    drafts = as_drafts(drafts)
    size, order = drafts.batch, np.argsort(np.argsort(order))
    found = verdicts(subject, drafts, uniforms)
    again = verdicts(subject, drafts.take(order), uniforms[order])
    if (moved := (found[order] != again).any(axis=1)).any():
        place = int(moved.argmax())
        one, other = (
            _said(drafts, order[place], found[order[place]]),
            _said(drafts, order[place], again[place]),
        )
        detail = (
            f"with the same uniforms, request {order[place]} of a batch of {size} gets {one} in one order, "
            f"and {other} in another order"
        )
        return failed(detail, how=How.REPLAYED)
    return passed("same results in any order", how=How.REPLAYED)


@part
def each_alone(
    subject: RuleSubject,
    context: Context,
    rate: float,
    *,
    drafts: Drafts | Paths,
    uniforms: Floats,
    order: Integers,
) -> CheckResult:
    """Verify some requests together and alone with the same uniforms, and compare the verdicts."""
    del context, rate
    drafts = as_drafts(drafts)
    size = drafts.batch
    found = verdicts(subject, drafts, uniforms)
    for request in sorted({0, size - 1, *order[: effort.BATCH_REPLAYED].tolist()} & set(range(size))):
        one = np.array([request])
        alone = verdicts(subject, drafts.take(one), uniforms[one])
        if not np.array_equal(found[one], alone):
            there, here = (_said(drafts, request, verdict) for verdict in (found[request], alone[0]))
            detail = (
                f"with the same uniforms, request {request} of a batch of {size} gets {there} there, "
                f"and {here} alone"
            )
            return failed(detail, how=How.REPLAYED)
    return passed("same results alone", how=How.REPLAYED)


def _said(drafts: Drafts, request: int, verdict: Integers) -> str:
    node, token = verdict.tolist()
    accepted = int(drafts.take(np.array([request])).path_to(np.array([node])).lengths[0])
    return f"{accepted} accepted tokens and then token {token}"
