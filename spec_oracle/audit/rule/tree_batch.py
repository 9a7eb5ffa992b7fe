"""The check `batch` of tree rules: a request's result ignores the others of its batch, and its own place.

Requests are verified together, alone, and in another order, with the same uniforms; results must be equal.
"""

from typing import Final

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.instances import main_instances, panel
from spec_oracle.audit.results import CheckResult, How, failed, passed
from spec_oracle.audit.rule.draftings import DEPTH, SampledTrees, one_of_each
from spec_oracle.audit.rule.tree_subject import TreeSubject, verdicts

TREE_BATCHES: Final = (2, 33, 130)  # Requests of batches of draft trees.

UNIFORMS = 1024
"""More than any request takes."""


def batch(subject: TreeSubject, context: Context) -> CheckResult:
    """Judge whether requests get the same verdict alone, and in another order, given the same uniforms."""
    rng, toys = context.stream("tree/batch"), panel(3, DEPTH, 1, context.seed)
    for drafting in one_of_each(subject.accepts, DEPTH).values():
        table = SampledTrees(toys[main_instances(toys)[0]], drafting, subject.array)
        for size in TREE_BATCHES:
            trees, order = table.sample(size, rng), rng.permutation(size)
            uniforms = rng.random((size, UNIFORMS))
            found = verdicts(subject, table.drafts(trees), uniforms)
            again = verdicts(subject, table.drafts(trees[order]), uniforms[order])
            if (moved := (found[order] != again).any(axis=1)).any():
                place = int(moved.argmax())
                both = (found[order[place]], "in one order"), (again[place], "in another order")
                return failed(_differs(int(order[place]), size, *both), how=How.REPLAYED)
            for request in order[: effort.BATCH_REPLAYED]:
                one = np.array([request])
                alone = verdicts(subject, table.drafts(trees[one]), uniforms[one])[0]
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
