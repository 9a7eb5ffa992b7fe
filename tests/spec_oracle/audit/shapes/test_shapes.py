"""The design covers all pairs, rows are exact, trees lose no probability, rounding is bounded."""

import re
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.covering import MOST_NUMBERS, design, parts_of
from spec_oracle.audit.declared import NOTHING_DECLARED, Facts
from spec_oracle.audit.experiment import TracedExperiment, TracedOutcome
from spec_oracle.audit.sampler.at_shapes import among_others
from spec_oracle.audit.saved_inputs import as_drafts
from spec_oracle.audit.shapes.axes import AXES
from spec_oracle.audit.shapes.coverage import Extent, coverage_of, scope_of
from spec_oracle.audit.shapes.places import experiment_at, tolerance, traced_at
from spec_oracle.audit.shapes.trees import DIGITS, Place, Shape, exact_row, ids_of_interest, tree_of
from spec_oracle.audit.shapes.tried import SHAPES_PAIRS_SHARE, SHAPES_VALUES_LEFT_SHARE, TriedInTurn, in_turn
from spec_oracle.exact.draft_tree import ConditionalLaw, conditional_laws
from spec_oracle.exact.errors import TooManyBranchesError
from tests.strategies import at_night
from verifiers import Siblings


def values(shapes, axis):
    return {getattr(shape, axis) for shape in shapes}


def pairs_of(shapes):
    return {pair for one in shapes for pair in parts_of({axis: getattr(one, axis) for axis in AXES}, 2)}


def test_every_pair_of_values_comes_together_where_arrays_are_not_too_large():
    free = [name for name in AXES if name not in ("vocab_size", "draft_length", "batch", "num_paths")]
    wanted = {
        ((one, first), (other, second))
        for one, other in combinations(free, 2)
        for first in AXES[one]
        for second in AXES[other]
    }
    found = pairs_of(design().shapes)
    assert {pair for pair in found if {axis for axis, _ in pair} <= {*free}} == wanted
    assert all(shape.numbers <= MOST_NUMBERS for shape in design().shapes)


@pytest.mark.parametrize(
    "fewer",
    [
        {},
        {"num_paths": (1,), "dtype": ("float64", "float32", "float16")},
        {"num_paths": (2, 1, 3, 4)},
        {
            "batch": (1,),
            "place": ("first",),
            "dtype": ("float64",),
            "ids": ("int64",),
            "layout": ("contiguous",),
        },
        {"vocab_size": (50_257,), "draft_length": (4,), "batch": (1, 7)},
    ],
)
def test_the_first_shapes_have_every_value_and_cost_little(fewer):
    found = design(**fewer)
    first = found.shapes[: found.of_values]
    assert all(values(first, axis) == {*wanted} for axis, wanted in found.axes.items())
    assert len(first) <= 16
    assert max(shape.numbers for shape in first) < 4_000_000
    assert max(shape.positions for shape in first) <= 1_030 * 2
    if min(found.axes["vocab_size"]) < 257:
        assert {shape.kind for shape in first if shape.vocab_size >= 257} <= {"special", "zero"}


def test_coverage_is_printed_with_missing_values():
    extent = Extent(design(num_paths=(1,)), {"layout": ("contiguous",)}, {"dtype": ("float16", "bfloat16")})
    tried = [shape for shape in extent.design.shapes if shape.vocab_size < 65_537 and shape.kind != "near"]
    assert extent.missing(tried) == {"vocab_size": [65_537, 151_936], "kind": ["near"]}
    share = 100 * len(pairs_of(tried)) // len(pairs_of(extent.design.shapes))
    assert extent.line(tried) == (
        f"tried: {len(tried)} of {len(extent.design.shapes)} input shapes, {share} % of the pairs of values; "
        "not tried: V 65,537, 151,936; kind near"
    )
    assert extent.scope == ("declared: the code takes only layout contiguous; no other was tried",)
    every = extent.line(extent.design.shapes)
    assert every.endswith("100 % of the pairs of values; every value of every axis")


def test_near_rows_are_near_and_special_rows_have_the_ids_of_tokenizers():
    for seed in range(8):
        tree = tree_of(Shape(151_936, 1, kind="near"), seed, Siblings.INDEPENDENT)
        target, draft = tree.rows(())
        assert abs(target - draft).sum() / 2 < 0.032
    found = {
        token
        for seed in range(5)
        for context in (
            (),
            next(iter(tree_of(Shape(151_936, 1, kind="special"), seed, Siblings.INDEPENDENT).likely))[0],
        )
        for token in np.flatnonzero(
            tree_of(Shape(151_936, 1, kind="special"), seed, Siblings.INDEPENDENT).rows(context)[0] > 1e-3
        ).tolist()
    }
    assert {0, 1, 2, 103, 50_256, 100_257, 128_001, 128_009, 151_643, 151_645} <= found


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("vocab", [2, 5, 1000, 151_936])
def test_rows_are_exact_in_their_type_and_sum_to_one(dtype, vocab):
    row = exact_row(np.random.default_rng(0).random(vocab) ** 20 + 1e-9, dtype)
    significands = np.ldexp(np.frexp(row)[0], DIGITS[dtype])
    assert (significands == np.round(significands)).all()
    assert row.sum() == 1
    assert (row > 0).all()


@pytest.mark.parametrize("drafting", [law for law in Siblings if law is not Siblings.BEAM])
@pytest.mark.parametrize("kind", AXES["kind"])
def test_the_likely_drafts_of_a_tree_leave_out_the_stated_probability(drafting, kind):
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
    tree = tree_of(shape, 0, Siblings.INDEPENDENT)
    own = tree.drafts(next(iter(tree.likely)))
    batch = among_others(own, shape, np.random.default_rng(0))
    assert np.array_equal(batch.target_probs[7], own.target_probs[0])
    assert (batch.target_probs[:7].max(axis=-1) == 1).all()
    assert len({tokens.tobytes() for tokens in batch.tokens[:7]}) > 1


def rule(name, spoil=lambda masses: masses):
    """Return the laws of a built-in rule, with its last masses spoilt."""

    def laws(place, end):
        del end
        found = [
            conditional_laws(verifiers.get(name), as_drafts(place.tree.drafts(one)))[0]
            for one in place.tree.likely
        ]
        return [ConditionalLaw({prefix: spoil(m) for prefix, m in law.leaves.items()}) for law in found]

    return laws


def shifted(masses, share=1e-4):
    """Move a share of the mass to the least likely other token, a possible one where there is one.

    Moved to a draft that was refused, it could make up for what is moved after its acceptance.
    """
    moved = share * masses.sum()
    spoilt = masses.copy()
    spoilt[masses.argmax()] -= moved
    others = np.delete(np.arange(len(masses)), masses.argmax())
    possible = others[masses[others] > 0]
    others = possible if len(possible) else others
    spoilt[others[masses[others].argmin()]] += moved
    return spoilt


@pytest.mark.parametrize("step", [8, *at_night(1)])
def test_a_ten_thousandth_is_found_at_every_shape_and_nothing_else(step):
    """In half precision rounding explains more than that; see `tolerance`."""
    made = design(dtype=("float64", "float32"), num_paths=(1,))
    for seed, shape in enumerate((*made.shapes[: made.of_values], *made.shapes[made.of_values :: step])):
        place, facts = Place(shape, seed, Siblings.INDEPENDENT), Facts(tolerance=1e-6)
        right, wrong = (
            traced_at(experiment_at(place, rule("block", s), facts)) for s in (lambda m: m, shifted)
        )
        assert not right.is_wrong, shape
        assert wrong.is_wrong, shape
        assert wrong.total_variation < 1.01e-4, shape


def test_probabilities_that_differ_are_printed_so():
    place = Place(Shape(3, 2), 0, Siblings.INDEPENDENT)
    wrong = traced_at(experiment_at(place, rule("token", partial(shifted, share=1e-5)), NOTHING_DECLARED))
    found, expected = re.search(r"with probability (\S+), (\S+) expected", wrong.traced.remark).groups()
    assert found != expected
    assert abs(float(found) - float(expected)) < 1e-4


def test_the_bound_on_a_grid_of_uniforms_is_true_as_printed():
    """Inversion by all 2^24 uniforms of float32: below a sum are as many as its steps, rounded up."""
    moved = []
    for vocab in (3, 1000, 151_936):
        (printed,) = re.findall(r"by ([0-9.e-]+) at V", scope_of([Shape(vocab, 1)], 1, 0.0)[-1])
        for concentration in (0.01, 1.0, 1e6):
            law = np.random.default_rng(vocab).dirichlet(np.full(vocab, concentration))
            sums = np.append(law.cumsum()[:-1], 1.0)
            emitted = np.diff(np.ceil(sums * 2**24), prepend=0) / 2**24
            distance = abs(emitted - np.diff(sums, prepend=0)).sum() / 2
            assert distance <= vocab * 2.0**-25 <= float(printed)
            moved.append(distance / float(printed))
    assert max(moved) > 0.3  # it is no idle bound


def test_the_tolerance_covers_a_law_that_is_computed_in_the_type():
    """Chances of the token rule, rounded after every operation, over random rows."""
    rng = np.random.default_rng(1)
    for dtype, kind in (("float32", np.float32), ("float16", np.float16)):
        p, q = (rng.dirichlet(np.ones(50), size=4) for _ in range(2))
        exact, low = (np.minimum(a / b, 1) for a, b in ((p, q), (p.astype(kind), q.astype(kind))))
        moved = abs(exact - low.astype(float)).max(axis=1).sum()
        assert moved < tolerance(dtype, 3, 50)


def trace_in_turn(tried, few, until, end):
    context = Context(budget=60.0)
    tried.trace_all(in_turn(tried, few, Siblings.INDEPENDENT, context, until=until, end=end))


@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_pairs_of_values_have_a_part_of_the_time_and_values_all_that_they_need(seconds, monkeypatch):
    """At default options a right sampler is not kept for a minute by the last pairs, the largest ones."""
    now, few = [100.0], design(num_paths=(1,))
    monkeypatch.setattr("time.process_time", lambda: now[0])
    tried = TriedInTurn(None)

    def trace(place, end):
        now[0] += seconds if place.shape.is_brief else 3.0
        tried.traced[place] = TracedExperiment(None, TracedOutcome({}, 1, total_variation=0.0))

    monkeypatch.setattr(TracedExperiment, "is_wrong", False)
    monkeypatch.setattr(tried, "trace", trace)
    trace_in_turn(tried, few, now[0] + 45.0, now[0] + 60.0)
    shapes = [place.shape for place in tried.traced]
    assert shapes[: few.of_values] == [*few.shapes[: few.of_values]]
    pairs = len(shapes) - few.of_values
    assert SHAPES_PAIRS_SHARE * 60.0 < pairs * seconds <= SHAPES_PAIRS_SHARE * 60.0 + 2 * seconds


def test_values_whose_shapes_take_too_long_are_tried_at_cheaper_ones(monkeypatch):
    """Code that draws more than it needs is traced at few of the shapes that have every value."""
    few = design(num_paths=(1,), dtype=("float64", "float32"))
    tried = TriedInTurn(None)
    now = [100.0]
    monkeypatch.setattr("time.process_time", lambda: now[0])

    def trace(place, end):
        if place.shape.positions > 4:
            now[0] = end
            return TooManyBranchesError("too slow")
        tried.traced[place] = TracedExperiment(None, TracedOutcome({}, 1, total_variation=0.0))
        return None

    monkeypatch.setattr(TracedExperiment, "is_wrong", False)
    monkeypatch.setattr(tried, "trace", trace)
    trace_in_turn(tried, few, now[0] + 45.0, now[0] + 30.0)
    shapes = [place.shape for place in tried.traced]
    assert {2, 8, 128, 1000, 151_936} <= values(shapes, "vocab_size")
    assert values(shapes, "kind") == {*AXES["kind"]}
    assert max(shape.draft_length for shape in shapes) < 16  # what costs more by itself is not tried


def test_the_cheapest_shape_of_a_single_value_may_take_all_the_time_for_these(monkeypatch):
    """As of lmdeploy, which takes some seconds at its largest vocabulary however small the rest is."""
    few = design(num_paths=(1,), dtype=("float64", "float32"))
    tried = TriedInTurn(None)
    now, needed = [100.0], 0.9 * SHAPES_VALUES_LEFT_SHARE * 60.0
    monkeypatch.setattr("time.process_time", lambda: now[0])

    def trace(place, end):
        takes = needed if place.shape.vocab_size == 151_936 else 0.1
        if now[0] + takes > end:
            now[0] = end
            return TooManyBranchesError("too slow")
        now[0] += takes
        tried.traced[place] = TracedExperiment(None, TracedOutcome({}, 1, total_variation=0.0))
        return None

    monkeypatch.setattr(TracedExperiment, "is_wrong", False)
    monkeypatch.setattr(tried, "trace", trace)
    trace_in_turn(tried, few, now[0] + 10.0, now[0] + 10.0)
    assert values([place.shape for place in tried.traced], "vocab_size") == {*AXES["vocab_size"]}


def test_coverage_lists_the_weakest_evidence_of_each_value_first():
    right = Shape(3, 2)
    wrong = replace(right, vocab_size=128, dtype="float16")
    tried = TriedInTurn(None)
    for shape, gap in ((right, 0.0), (wrong, 0.1), (replace(right, vocab_size=8), 0.1)):
        place = Place(shape, 0, Siblings.INDEPENDENT)
        experiment = experiment_at(place, None, NOTHING_DECLARED)
        tried.traced[place] = TracedExperiment(experiment, TracedOutcome({}, 1, total_variation=gap))
    tried.sampled = [replace(right, vocab_size=5), replace(right, layout="sliced")]
    tried.refused = {("dtype", "bfloat16"): "raised"}
    known = coverage_of(tried)
    assert list(known) == list(AXES)
    assert [known["vocab_size"][size] for size in ("3", "5", "8", "128", "32769")] == [
        *("proven", "sampled", "wrong", "wrong", "untried")
    ]
    assert [*known["dtype"].values()] == ["wrong", "untried", "not-traced", "wrong"]
    assert known["layout"] == {"contiguous": "wrong", "sliced": "sampled", "transposed": "untried"}
    assert [*known["vocab_size"]] == sorted(known["vocab_size"], key=int)
