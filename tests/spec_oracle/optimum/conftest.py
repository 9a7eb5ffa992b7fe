"""Instances for the optima: every kind of model, ties, zeros, disjoint supports, one token only."""

from fractions import Fraction

import pytest

from spec_oracle.toy import KINDS, Instance
from verifiers import Siblings

SHAPES = [(2, 1, 3), (2, 2, 2), (3, 2, 2), (2, 3, 2)]
RANDOM = [(kind, *shape) for kind in KINDS for shape in SHAPES]
OF_DAY = RANDOM[::3]
"""All kinds and all shapes, but not each with each."""


def _name(case):
    return "-".join(map(str, case))


@pytest.fixture(
    params=[one if one in OF_DAY else pytest.param(one, marks=pytest.mark.nightly) for one in RANDOM],
    ids=_name,
)
def random_instance(request):
    kind, vocab, length, paths = request.param
    return Instance.random(vocab, length, num_paths=paths, kind=kind, seed=7, agreement=0.25 * (vocab == 3))


def _context_free(target, draft, length, paths):
    return Instance.context_free(
        [Fraction(x) for x in target.split()],
        [Fraction(x) for x in draft.split()],
        draft_length=length,
        num_paths=paths,
    )


SPECIAL = {
    "worked example": _context_free("1/3 2/3", "2/3 1/3", 2, 2),
    "all ratios tied": _context_free("1/4 1/4 1/2", "1/4 1/4 1/2", 2, 2),
    "two ratios tied": _context_free("1/6 1/3 1/2", "1/4 1/2 1/4", 2, 3),
    "disjoint": _context_free("1 0", "0 1", 2, 2),
    "target point mass": _context_free("0 1 0", "1/3 1/3 1/3", 2, 2),
    "one token": _context_free("1", "1", 3, 2),
}


@pytest.fixture(params=SPECIAL.values(), ids=SPECIAL.keys())
def special_instance(request):
    return request.param


@pytest.fixture
def worked_example():
    return SPECIAL["worked example"]


@pytest.fixture(
    params=[Siblings.INDEPENDENT, Siblings.DISTINCT, Siblings.TOP_AND_SAMPLED], ids=lambda law: law.value
)
def drafting(request):
    return request.param
