"""Draft laws: independent, without replacement, and top drafts with one sampled."""

from fractions import Fraction

import numpy as np
import pytest

from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.drafting import draft_law
from verifiers import Drafting

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
LEVELS = [np.array([[HALF, QUARTER, QUARTER]], dtype=object)]


def as_dict(law):
    return {
        tuple(map(tuple, tokens)): mass
        for tokens, mass in zip(law.tokens.tolist(), law.probability, strict=True)
    }


def test_independent_paths_multiply():
    law = as_dict(draft_law(LEVELS, 2, Drafting.INDEPENDENT))
    assert law[(0,), (0,)] == QUARTER
    assert law[(1,), (2,)] == QUARTER * QUARTER
    assert sum(law.values()) == 1


def test_distinct_paths_never_repeat_until_the_support_is_used_up():
    law = as_dict(draft_law(LEVELS, 3, Drafting.DISTINCT))
    assert all(len(set(paths)) == 3 for paths in law)
    assert law[(0,), (1,), (2,)] == HALF * HALF
    four = as_dict(draft_law(LEVELS, 4, Drafting.DISTINCT))
    assert all(len(set(paths)) == 3 for paths in four)
    assert sum(four.values()) == 1


def test_top_paths_are_certain_and_the_last_is_drawn_from_the_rest():
    law = as_dict(draft_law(LEVELS, 2, Drafting.TOP_AND_SAMPLED))
    assert law == {((0,), (1,)): HALF, ((0,), (2,)): HALF}
    everything = as_dict(draft_law(LEVELS, 4, Drafting.TOP_AND_SAMPLED))
    assert everything == {
        ((0,), (1,), (2,), (0,)): HALF,
        ((0,), (1,), (2,), (1,)): QUARTER,
        ((0,), (1,), (2,), (2,)): QUARTER,
    }


def test_paths_that_part_are_alone_from_there_on():
    levels = [np.array([[HALF, HALF]], dtype=object), np.array([[1, 0], [HALF, HALF]], dtype=object)]
    law = as_dict(draft_law(levels, 2, Drafting.DISTINCT))
    assert law[(0, 0), (1, 0)] == QUARTER
    assert sum(law.values()) == 1


def test_too_many_tuples_are_refused_with_the_sizes():
    with pytest.raises(InvalidInputError, match="vocab_size 3, draft_length 1, num_paths 5"):
        draft_law(LEVELS, 5, Drafting.INDEPENDENT, max_tuples=100)
