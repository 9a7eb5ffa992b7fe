"""The design covers all pairs, rows are exact, trees lose no probability, rounding is bounded."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import verifiers
from spec_oracle.audit.shapes.axes import AXES, MOST_NUMBERS, Shape, design
from spec_oracle.audit.shapes.covered import Covered, Judged, judge
from spec_oracle.audit.shapes.rounding import DIGITS, exact_row, tolerance
from spec_oracle.audit.shapes.trees import among_others, ids_of_interest, tree_of
from spec_oracle.exact.conditional import ConditionalLaw, conditional_laws
from verifiers import Drafting


def pairs(shapes, axes):
    return {
        (one, getattr(shape, one), other, getattr(shape, other))
        for shape in shapes
        for one, other in combinations(axes, 2)
    }


def test_every_pair_of_values_comes_together_where_arrays_are_not_too_large():
    free = [name for name in AXES if name not in ("vocab_size", "draft_length", "batch", "num_paths")]
    wanted = {
        (one, first, other, second)
        for one, other in combinations(free, 2)
        for first in AXES[one]
        for second in AXES[other]
    }
    assert pairs(design(), free) == wanted
    assert all({getattr(shape, name) for shape in design()} >= {*values} for name, values in AXES.items())
    assert all(shape.numbers <= MOST_NUMBERS for shape in design())


def test_the_first_shapes_have_most_that_is_new():
    halves = [pairs(part, AXES) for part in (design()[:60], design()[-60:])]
    assert len(halves[0]) > 1.3 * len(halves[1])


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("vocab", [2, 5, 1000, 151_936])
def test_rows_are_exact_in_their_type_and_sum_to_one(dtype, vocab):
    row = exact_row(np.random.default_rng(0).random(vocab) ** 20 + 1e-9, dtype)
    significands = np.ldexp(np.frexp(row)[0], DIGITS[dtype])
    assert (significands == np.round(significands)).all()
    assert row.sum() == 1
    assert (row > 0).all()


@pytest.mark.parametrize("drafting", Drafting)
@pytest.mark.parametrize("kind", AXES["kind"])
def test_the_likely_drafts_of_a_tree_have_all_probability_but_what_is_told(drafting, kind):
    tree = tree_of(Shape(17, 4, num_paths=2, kind=kind), 3, drafting)
    assert sum(tree.likely.values()) + tree.unseen == pytest.approx(1, abs=1e-12)
    assert tree.unseen < 1e-6
    for paths in tree.likely:
        drafts = tree.drafts(paths)
        assert np.allclose(drafts.target_probs.sum(axis=-1), 1)
        assert np.array_equal(drafts.target_probs[0, 0, 0], drafts.target_probs[0, 1, 0])


def test_ids_of_interest_are_at_limits():
    assert {0, 1, 255, 256, 257, 65_535, 65_536, 65_537, 151_935} <= {*ids_of_interest(151_936)}


def test_other_requests_are_one_hot_and_differ():
    shape = Shape(50, 2, batch=8, place="last")
    tree = tree_of(shape, 0, Drafting.INDEPENDENT)
    own = tree.drafts(next(iter(tree.likely)))
    batch = among_others(own, shape, np.random.default_rng(0))
    assert np.array_equal(batch.target_probs[7], own.target_probs[0])
    assert (batch.target_probs[:7].max(axis=-1) == 1).all()
    assert len({tokens.tobytes() for tokens in batch.tokens[:7]}) > 1


def rule(name, spoil=lambda masses: masses):
    """Return the laws of a built-in rule, with its last masses spoilt."""

    def laws(shape, drafts):
        del shape
        found = [conditional_laws(verifiers.get(name), one)[0] for one in drafts]
        return [ConditionalLaw({prefix: spoil(m) for prefix, m in law.leaves.items()}) for law in found]

    return laws


def shifted(masses):
    """Move a ten-thousandth of the mass to another token."""
    moved = 1e-4 * masses.sum()
    spoilt = masses.copy()
    spoilt[masses.argmax()] -= moved
    spoilt[masses.argmin()] += moved
    return spoilt


def test_a_ten_thousandth_is_found_at_every_shape_and_nothing_else():
    """In half precision rounding explains more than that; see `tolerance`."""
    for seed, shape in enumerate(design(dtype=("float64", "float32"), num_paths=(1,))):
        tree = tree_of(shape, seed, Drafting.INDEPENDENT)
        right, wrong = (judge(shape, tree, rule("block", s), explained=1e-6) for s in (lambda m: m, shifted))
        assert not right.is_lossy, shape
        assert wrong.is_lossy, shape
        assert wrong.total_variation < 1.01e-4, shape


def test_the_tolerance_covers_a_law_that_is_computed_in_the_type():
    """Chances of the token rule, rounded after every operation, over random rows."""
    rng = np.random.default_rng(1)
    for dtype, kind in (("float32", np.float32), ("float16", np.float16)):
        p, q = (rng.dirichlet(np.ones(50), size=4) for _ in range(2))
        exact, low = (np.minimum(a / b, 1) for a, b in ((p, q), (p.astype(kind), q.astype(kind))))
        moved = abs(exact - low.astype(float)).max(axis=1).sum()
        assert moved < tolerance(dtype, 3, 50)


def test_what_is_covered_is_told_by_value_the_worst_before_the_best():
    right, small = Shape(3, 2), Shape(8, 2)
    wrong = replace(right, vocab_size=64, dtype="float16")
    covered = Covered(
        [Judged(shape, gap, 1e-6, 0, 0, 1) for shape, gap in ((right, 0.0), (wrong, 0.1))],
        small=[right],
        small_wrong=[small],
        sampled=[replace(right, vocab_size=4), replace(right, layout="sliced")],
        refused=[replace(right, dtype="bfloat16")],
    )
    known = covered.coverage
    assert list(known) == list(AXES)
    assert [known["vocab_size"][size] for size in ("3", "4", "8", "64", "32000")] == [
        *("proven", "sampled", "wrong", "wrong", "untried")
    ]
    assert [*known["dtype"].values()] == ["wrong", "untried", "not-traced", "wrong"]
    assert known["layout"] == {"contiguous": "wrong", "sliced": "sampled", "transposed": "untried"}
    assert [*known["vocab_size"]] == sorted(known["vocab_size"], key=int)
