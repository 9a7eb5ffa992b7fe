"""Experiments of one call at a place: a shape, and the rows that one seed gives it.

Few drafts of a place are likely (`spec_oracle.exact.draft_tree`). What is emitted after each of them, added
up, proves or disproves losslessness there, whatever the vocabulary: a criterion, since the outcomes are too
many to list. Samples are counted in cells.

What rounding explains. Let u be the unit roundoff of the type in which code computes. A completion meets at
most L + 1 decisions. The accept probability at position i is a quotient of two products of i numbers or,
with the block rule, of sums of such numbers: at most 2 i + 4 roundings, so off by at most (2 i + 4) u. A
token is sampled from weights that are differences, sums and quotients of numbers of the rows: at most 4
roundings for each weight and log2(V) for their sum (added up in pairs, as the libraries do), so their
distribution is off by at most (4 + 2 log2 V) u. Code may take rows as logits: log p is off by u |log p|, so
p by a share of that, and the sum over a row by its entropy times u, at most ln V u; exponential, sum and
quotient add 3 u; twice, since target and draft are rows. Added up over i = 0..L, and since the errors of one
probability move mass twice (there and away), half of which is total variation:

    total variation <= ((L + 1) (L + 14 + 2 ln V) + 2 log2 V) u.

Inversion of a cumulative sum compares numbers just below one, which are rounded to u: the probability of
every single token may be off by 2 u, whatever it is. That is taken off each token before the rest is added
up.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias, cast

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.experiment import Experiment, TracedExperiment, TracedOutcome
from spec_oracle.audit.shapes.cells import TreeCells
from spec_oracle.audit.shapes.trees import DIGITS, Place
from spec_oracle.exact.completions import Gap
from spec_oracle.exact.draft_tree import Account, ConditionalLaw

ENGINES: Final = "float32"
"""The type in which engines compute, whatever their rows come in."""


def unit_roundoff(dtype: str) -> float:
    """Return the largest relative error of a rounded number."""
    return 2.0 ** -DIGITS[dtype]


def tolerance(dtype: str, draft_length: int, vocab_size: int) -> float:
    """Return the total variation that rounding explains; see the module."""
    of_decisions = (draft_length + 1) * (draft_length + 14 + 2 * math.log(vocab_size))
    roundings = of_decisions + 2 * math.log2(vocab_size)
    return roundings * unit_roundoff(dtype)


Laws: TypeAlias = Callable[[Place, float], Sequence[ConditionalLaw]]
"""Finds what one request emits at a place, after each likely draft, up to a processor time."""

Confirm: TypeAlias = Callable[[TracedExperiment], object]
"""Raises `NoEvidenceError` where a call that was traced as wrong may be right."""

Many: TypeAlias = Callable[[int], Integers]
"""Makes so many ordinary calls at a place; returns the cells of their completions."""


def not_sampled(_: int) -> Integers:
    """Make no calls: of code whose every outcome is enumerated."""
    return np.empty(0, np.int64)


def experiment_at(
    place: Place, laws: Laws, facts: Facts, many: Many = not_sampled, confirm: Confirm = lambda _: None
) -> Experiment:
    """Return the experiment of one call: ``laws`` trace it, ``many`` makes ordinary calls.

    A call that was traced as wrong is handed to ``confirm``, which raises where it may be right.

    Its total variation is that beyond what rounding does to single tokens. Rounding of all of them, what is
    on record in ``facts``, and the drafts that are not tried explain some more. Code may compute in
    `ENGINES`, or in the type of its rows where that is coarser.
    """
    shape, explained = place.shape, facts.explained(place.shape.draft_length + 1)
    what, tree = str(shape), place.wanted
    unseen = tree.unseen
    coarsest = max(shape.dtype, ENGINES, key=unit_roundoff)
    rounding = tolerance(coarsest, tree.draft_length, tree.vocab_size)
    allowed = max(explained, rounding) + unseen

    def trace(_: int, end: float) -> TracedOutcome:
        account, found = Account(place.wanted), laws(place, end)
        for paths, law in zip(place.tree.likely, found, strict=True):
            account.add(paths, law)
        gap = account.total_variation(2 * unit_roundoff(coarsest))
        outcome = TracedOutcome({}, len(found), total_variation=gap, assumed=account.assumed)
        if gap <= allowed:
            return outcome
        cells = dict(enumerate(TreeCells(place.wanted).law_of(account.following).tolist()))
        is_decided = not all(law.is_certain for law in found)
        return replace(outcome, law=cells, is_decided=is_decided, remark=_largest_gap(account))

    # What confirms a defect traces it once more, without being confirmed itself.
    unconfirmed = Experiment(
        what=what,
        size="a completion",
        expect=lambda: dict(enumerate(TreeCells(place.wanted).law.tolist())),
        many=cast(Callable[[int], Sequence[int]], many),
        trace=trace,
        allowed=allowed,
    )
    return replace(unconfirmed, trace=partial(_confirmed, unconfirmed, confirm))


def _confirmed(experiment: Experiment, confirm: Confirm, _: int, end: float) -> TracedOutcome:
    found = traced_at(experiment, end)
    if found.is_wrong:
        confirm(found)
    return found.traced


def _largest_gap(account: Account) -> str:
    beginning, token, *both = account.largest_gap()
    after = f"after tokens {','.join(map(str, beginning))}" if beginning else "at position 0"
    digits = Gap((token,), *both).digits
    expected, found = (f"{one:.{digits}g}" for one in both)
    return f": {after}, token {token} is emitted with probability {found}, {expected} expected"


def traced_at(experiment: Experiment, end: float = math.inf) -> TracedExperiment:
    """Trace one call, up to a processor time; errors are those of its laws, and of what confirms them."""
    assert experiment.trace is not None
    return TracedExperiment(experiment, experiment.trace(0, end))
