"""Hypothesis strategies for toy instances, for the tests of anyone's verifier.

>>> from hypothesis import given
>>> from spec_oracle.exact import emission_law
>>> from spec_oracle.toy import strategies
>>> @given(strategies.instances())
... def test_lossless(instance):
...     assert emission_law(my_verifier, instance).total_variation < 1e-12

Rows are drawn anew for every context, as multiples of 1/denominator. Examples shrink towards few tokens,
short drafts, small denominators and point masses.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from spec_oracle.arrays import Numbers
from spec_oracle.toy.instance import Instance
from spec_oracle.toy.model import ToyModel

DENOMINATORS = (1, 2, 3, 4, 6, 8, 12, 16)
DYADIC_DENOMINATORS = (1, 2, 4, 8, 16)

RELATIONS = ("independent", "equal", "disjoint", "reversed")
"""How a draft row relates to the target row of the same context."""


def rows(vocab_size: int, denominator: int) -> st.SearchStrategy[list[Fraction]]:
    """Rows of probabilities, multiples of 1/denominator, each one choice; shrinks to a point mass."""

    def row(number: int) -> list[Fraction]:
        cuts = [number // (denominator + 1) ** place % (denominator + 1) for place in range(vocab_size - 1)]
        return [Fraction(high - low, denominator) for low, high in pairwise([0, *sorted(cuts), denominator])]

    return st.integers(0, (denominator + 1) ** (vocab_size - 1) - 1).map(row)


def _related(relation: str, target: list[Fraction], other: list[Fraction]) -> list[Fraction]:
    """Return the draft row that stands in ``relation`` to ``target``; ``other`` where it needs another."""
    if relation == "equal":
        return target
    if relation == "reversed":
        ascending = sorted(target)
        order = sorted(range(len(target)), key=lambda token: -target[token])
        return [mass for _, mass in sorted(zip(order, ascending, strict=True))]
    free = [mass if target[token] == 0 else Fraction(0) for token, mass in enumerate(other)]
    if relation == "disjoint" and sum(free) > 0:
        return [mass / sum(free) for mass in free]
    return other


@st.composite
def instances(
    draw: st.DrawFn,
    *,
    vocab_sizes: tuple[int, int] = (2, 4),
    draft_lengths: tuple[int, int] = (1, 3),
    num_paths: tuple[int, int] = (1, 1),
    max_tuples: int = 5000,
    dyadic: bool = False,
) -> Instance:
    """Draw an instance in rationals; all ranges are inclusive.

    ``max_tuples`` bounds V^(L K), the number of draft tuples. ``dyadic`` keeps every probability a multiple
    of a power of two, so that floats equal the rationals.
    """
    vocab = draw(st.integers(*vocab_sizes), label="vocab_size")
    length = draw(st.integers(*draft_lengths), label="draft_length")
    most_paths = num_paths[1]
    while most_paths > num_paths[0] and vocab ** (length * most_paths) > max_tuples:
        most_paths -= 1
    while length > draft_lengths[0] and vocab ** (length * most_paths) > max_tuples:
        length -= 1
    paths = draw(st.integers(num_paths[0], most_paths), label="num_paths")
    denominator = draw(st.sampled_from(DYADIC_DENOMINATORS if dyadic else DENOMINATORS), label="denominator")
    # A relation that divides a row (disjoint) may leave the dyadic numbers.
    relations = [relation for relation in RELATIONS if not (dyadic and relation == "disjoint")]
    # As many choices as rows, so that smaller instances count as simpler.
    one, relation = rows(vocab, denominator), st.sampled_from(relations)
    pairs = [(draw(one), draw(one), draw(relation)) for _ in range(sum(vocab**d for d in range(length + 1)))]
    target = [target for target, _, _ in pairs]
    draft = [_related(relation, target, other) for target, other, relation in pairs]
    return Instance(_model(target, vocab, length), _model(draft, vocab, length - 1), length, paths)


def _model(rows_in_order: list[list[Fraction]], vocab: int, order: int) -> ToyModel:
    levels: list[Numbers] = []
    start = 0
    for length in range(order + 1):
        levels.append(np.array(rows_in_order[start : start + vocab**length], dtype=object))
        start += vocab**length
    return ToyModel(vocab, tuple(levels))
