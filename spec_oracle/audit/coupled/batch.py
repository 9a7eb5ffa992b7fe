"""The check `batch` of coupled rules: a request's result ignores the others of its batch, and its own place.

Requests are verified together, alone, and in another order, with the same uniforms; results must be equal.
"""

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.coupled.reference import said
from spec_oracle.audit.coupled.subject import CoupledSubject, chosen, requests
from spec_oracle.audit.panel import instances_for, main_instances
from spec_oracle.audit.results import CheckResult, How, failed, inconclusive, passed
from spec_oracle.contracts import Emissions


def batch(subject: CoupledSubject, context: Context) -> CheckResult:
    """Judge whether requests emit the same alone, and in another order, given the same uniforms."""
    rng, toys = context.stream("coupled/batch"), instances_for(context, subject.num_paths)
    toy = toys[main_instances(toys)[0]]
    for size in effort.COUPLED_BATCHES:
        call, order = requests(toy, size, rng), rng.permutation(size)
        found, repeated = subject.code(*call), subject.code(*call)
        if not np.array_equal(found.tokens, repeated.tokens):
            return inconclusive("a call that is repeated emits other tokens: see streams")
        again = subject.code(*chosen(call, order))
        if (moved := (found.tokens[order] != again.tokens).any(axis=1)).any():
            place = int(moved.argmax())
            return _differs(int(order[place]), size, (found, "there"), again, place, "in another order")
        for request in order[: effort.BATCH_REPLAYED].tolist():
            alone = subject.code(*chosen(call, np.array([request])))
            if not np.array_equal(found.tokens[request], alone.tokens[0]):
                return _differs(request, size, (found, "there"), alone, 0, "alone")
    sizes = ", ".join(map(str, effort.COUPLED_BATCHES))
    return passed(f"same results alone and in any order, in batches of {sizes}", how=How.REPLAYED)


def _differs(  # noqa: PLR0917
    request: int, size: int, one: tuple[Emissions, str], other: Emissions, place: int, where: str
) -> CheckResult:
    found, there = one
    both = f"emits {said(found, request)} {there}, and {said(other, place)} {where}"
    return failed(f"with the same uniforms, request {request} of a batch of {size} {both}", how=How.REPLAYED)
