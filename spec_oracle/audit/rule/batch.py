"""The check `batch` of rules: a request's result ignores the others of its batch, and its own place.

Requests are verified together, alone, and in another order, with the same uniforms; results must be equal.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import instances_for, main_instances, panel
from spec_oracle.audit.results import CheckResult, How, Status, failed, not_asked, passed
from spec_oracle.audit.rule.draftings import DEPTH, SampledTrees, one_of_each
from spec_oracle.audit.rule.subject import TREE_UNIFORMS, TreeSubject, VerifierSubject, tree_verdicts
from spec_oracle.audit.sampler.batch import chosen_requests
from spec_oracle.exact.call import call_verifier, fresh_state
from spec_oracle.threads import raising
from verifiers import AnyVerifier, Drafts, replayed_decisions

UNIFORMS = 64
"""More than any request takes."""


def batch(subject: VerifierSubject, context: Context) -> CheckResult:
    """Judge whether requests get the same verdict alone, and in another order, given the same uniforms."""
    if subject.never_batched:
        return not_asked(subject.never_batched)
    rng = context.stream("verifier/batch")
    instance = next(iter(instances_for(context, subject.num_paths).values()))
    for size in effort.BATCH_TURNS:
        drafts = sampled_drafts(instance, size, rng, subject.drafting)
        uniforms, order = rng.random((size, UNIFORMS)), rng.permutation(size)
        for part_of in (in_another_order, each_alone):
            found = part_of(subject, context, context.rate, drafts=drafts, uniforms=uniforms, order=order)
            if found.status is not Status.PASSED:
                return found
    sizes = ", ".join(map(str, effort.BATCH_TURNS))
    return passed(f"same results alone and in any order, in batches of {sizes}", how=How.REPLAYED)


@part
def in_another_order(
    subject: VerifierSubject,
    context: Context,
    rate: float,
    *,
    drafts: Drafts,
    uniforms: NDArray[np.float64],
    order: NDArray[np.int64],
) -> CheckResult:
    """Verify all requests in two orders with the same uniforms, and compare the verdicts."""
    del context, rate
    size, order = drafts.batch, np.argsort(np.argsort(order))
    found = verdicts(subject.verifier, drafts, uniforms)
    again = verdicts(subject.verifier, chosen_requests(drafts, order), uniforms[order])
    if (moved := (found[order] != again).any(axis=1)).any():
        place = int(moved.argmax())
        detail = (
            f"with the same uniforms, request {order[place]} of a batch of {size} gets "
            f"{_said(found[order[place]])} in one order, and {_said(again[place])} in another order"
        )
        return failed(detail, how=How.REPLAYED)
    return passed("same results in any order", how=How.REPLAYED)


@part
def each_alone(
    subject: VerifierSubject,
    context: Context,
    rate: float,
    *,
    drafts: Drafts,
    uniforms: NDArray[np.float64],
    order: NDArray[np.int64],
) -> CheckResult:
    """Verify some requests together and alone with the same uniforms, and compare the verdicts."""
    del context, rate
    size = drafts.batch
    found = verdicts(subject.verifier, drafts, uniforms)
    for request in sorted({0, size - 1, *order[: effort.BATCH_REPLAYED].tolist()} & set(range(size))):
        one = np.array([request])
        alone = verdicts(subject.verifier, chosen_requests(drafts, one), uniforms[one])
        if not np.array_equal(found[one], alone):
            detail = (
                f"with the same uniforms, request {request} of a batch of {size} gets "
                f"{_said(found[request])} there, and {_said(alone[0])} alone"
            )
            return failed(detail, how=How.REPLAYED)
    return passed("same results alone", how=How.REPLAYED)


def _said(verdict: NDArray[np.int64]) -> str:
    accepted, _, token = verdict.tolist()
    return f"{accepted} accepted tokens and then token {token}"


def verdicts(verifier: AnyVerifier, drafts: Drafts, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return (tau, path, next token) of every request, int [B, 3], decided by its row of ``uniforms``."""
    with raising():
        state = fresh_state(verifier, drafts.batch)
        verdict, _ = call_verifier(verifier, drafts, replayed_decisions(uniforms), state)
        return np.stack([verdict.num_accepted, verdict.path, verdict.next_token], axis=1)


TREE_BATCHES: Final = (2, 33, 130)  # Requests of batches of draft trees.


def batch_on_trees(subject: TreeSubject, context: Context) -> CheckResult:
    """Judge whether requests get the same verdict alone, and in another order, given the same uniforms."""
    rng, toys = context.stream("tree/batch"), panel(3, DEPTH, 1, context.seed)
    for drafting in one_of_each(subject.accepts, DEPTH).values():
        table = SampledTrees(toys[main_instances(toys)[0]], drafting, subject.array)
        for size in TREE_BATCHES:
            trees, order = table.sample(size, rng), rng.permutation(size)
            uniforms = rng.random((size, TREE_UNIFORMS))
            found = tree_verdicts(subject, table.drafts(trees), uniforms)
            again = tree_verdicts(subject, table.drafts(trees[order]), uniforms[order])
            if (moved := (found[order] != again).any(axis=1)).any():
                place = int(moved.argmax())
                both = (found[order[place]], "in one order"), (again[place], "in another order")
                return failed(_differs(int(order[place]), size, *both), how=How.REPLAYED)
            for request in order[: effort.BATCH_REPLAYED]:
                one = np.array([request])
                alone = tree_verdicts(subject, table.drafts(trees[one]), uniforms[one])[0]
                if not np.array_equal(found[request], alone):
                    both = (found[request], "there"), (alone, "alone")
                    return failed(_differs(int(request), size, *both), how=How.REPLAYED)
    sizes = ", ".join(map(str, TREE_BATCHES))
    return passed(f"same results alone and in any order, in batches of {sizes}", how=How.REPLAYED)


def _differs(request: int, size: int, one: tuple[Integers, str], other: tuple[Integers, str]) -> str:
    first, second = (
        f"place {place} as the last accepted one and then token {token} {where}"
        for (place, token), where in ((found.tolist(), where) for found, where in (one, other))
    )
    return f"with the same uniforms, request {request} of a batch of {size} gets {first}, and {second}"
