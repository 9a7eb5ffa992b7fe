"""Bad arguments of public functions: one line that names the argument and the value."""

import re

import numpy as np
import pytest

import verifiers
from spec_oracle import optimum
from spec_oracle import statistics as st
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import decoded_law, emission_law, tokens_per_call
from spec_oracle.exact import drafting as exact_drafting
from spec_oracle.exact.drafting import draft_paths, shaped_law
from spec_oracle.toy import Instance, ToyModel, required_bytes
from spec_oracle.toy.model import MAX_BYTES, require_memory

TOY = Instance.context_free([0.5, 0.5], [0.25, 0.75], draft_length=2, num_paths=2)
BLOCK = verifiers.get("block")
HUGE = ToyModel.context_free([1 / 40] * 40)
LAW = [0.5, 0.5]


class Odd:
    """A rule of no known drafting law."""

    drafting = "sideways"

    def verify(self, drafts, decisions):
        raise AssertionError


MODELS = [
    (lambda: ToyModel.random(0, 1), "vocab_size: expected at least 1, got 0"),
    (lambda: ToyModel.random(-3, 1), "vocab_size: expected at least 1, got -3"),
    (lambda: ToyModel.random(2.5, 1), "vocab_size: expected a whole number, got 2.5"),
    (lambda: ToyModel.random(2, -1), "order: expected at least 0, got -1"),
    (lambda: ToyModel.random(2, 1, concentration=0), "concentration: expected a positive number, got 0"),
    (lambda: ToyModel.random(2, 1, concentration="x"), "concentration: expected a positive number, got 'x'"),
    (lambda: ToyModel.random(2, 1, seed=-1), "seed: expected at least 0, got -1"),
    (lambda: ToyModel.random(40, 6), "more than the 4 GiB allowed"),
    (lambda: ToyModel.context_free(LAW, order=-1), "order: expected at least 0, got -1"),
    (lambda: ToyModel.context_free(LAW, order=40), "more than the 4 GiB allowed"),
    (lambda: ToyModel.context_free(None), 'model, context "": expected a list'),
    (lambda: ToyModel.context_free([]), 'model, context "": row sums to 0'),
    (lambda: ToyModel.from_levels([]), "model: expected the rows of at least one context length, got none"),
    (lambda: ToyModel.from_levels([["a"]]), "model, contexts of 0 tokens: expected rows of numbers"),
    (lambda: ToyModel.from_levels([[0.5, 0.5]]), "contexts of 0 tokens: expected shape [V^d, V], got (2,)"),
    (lambda: ToyModel.from_levels([0.5]), "contexts of 0 tokens: expected shape"),
    (lambda: ToyModel.from_conditionals({"": LAW}, order=-1), "order: expected at least 0, got -1"),
    (lambda: ToyModel.from_conditionals([LAW]), "model: expected rows by context, got [[0.5, 0.5]]"),
    (lambda: HUGE.rounded(0), "denominator: expected at least 1, got 0"),
    (lambda: HUGE.rounded(2.0), "denominator: expected a whole number, got 2.0"),
    (lambda: HUGE.conditional([40]), "context: token 40 outside 0..39"),
    (lambda: HUGE.conditional([0.5]), "context: token 0.5 outside 0..39"),
    (lambda: HUGE.probability([0, -1]), "context: token -1 outside 0..39"),
    (lambda: HUGE.rows(-1), "length: expected at least 0, got -1"),
    (lambda: HUGE.rows(6), "more than the 4 GiB allowed"),
    (lambda: HUGE.joint(-1), "length: expected at least 0, got -1"),
]

INSTANCES = [
    (lambda: Instance.random(-1, 2), "vocab_size: expected at least 1, got -1"),
    (lambda: Instance.random(3, 0), "draft_length: expected at least 1, got 0"),
    (lambda: Instance.random("3", 2), "vocab_size: expected a whole number, got '3'"),
    (lambda: Instance.random(3, 2, num_paths=0), "num_paths: expected at least 1, got 0"),
    (lambda: Instance.random(3, 2, num_paths=True), "num_paths: expected a whole number, got True"),
    (lambda: Instance.random(3, 2, seed=0.5), "seed: expected a whole number, got 0.5"),
    (lambda: Instance.random(3, 2, kind="odd"), "kind: unknown 'odd'; known ones are dirichlet"),
    (
        lambda: Instance.random(3, 2, agreement=float("nan")),
        "agreement: expected a number in [0, 1], got nan",
    ),
    (lambda: Instance.random(40, 6), "vocab_size 40, draft_length 6: the rows after all contexts would need"),
    (lambda: Instance.random(2, 10**9), "would need inf GiB"),
    (lambda: Instance(LAW, TOY.draft, 2), "target: expected ToyModel, got [0.5, 0.5]"),
    (lambda: Instance(TOY.target, None, 2), "draft: expected ToyModel, got None"),
    (lambda: Instance(TOY.target, TOY.draft, "2"), "draft_length: expected a whole number, got '2'"),
    (lambda: TOY.with_paths(0), "num_paths: expected at least 1, got 0"),
    (lambda: Instance.context_free(LAW, LAW, draft_length=0), "order: expected at least 0, got -1"),
]

LAWS = [
    (lambda: emission_law("block", TOY), "verifier: expected an object with a method verify, got 'block'"),
    (lambda: emission_law(type(BLOCK), TOY), "verifier: expected an object with a method verify, got <class"),
    (lambda: emission_law(None, TOY), "verifier: expected an object with a method verify, got None"),
    (lambda: emission_law(Odd(), TOY), "drafting: unknown law of siblings 'sideways'; known ones are"),
    (lambda: emission_law(BLOCK, TOY.to_json()), "instance: expected Instance, got {'vocab_size'"),
    (lambda: emission_law(BLOCK, TOY, array="jax"), "array: expected 'numpy' or 'torch', got 'jax'"),
    (
        lambda: emission_law(BLOCK, TOY, dtype="int8"),
        "dtype: numpy has float64, float32 and float16, got 'int8'",
    ),
    (lambda: emission_law(BLOCK, Instance(HUGE, HUGE, 6)), "vocab_size 40, draft_length 6: the rows"),
    (lambda: emission_law(verifiers.get("nss"), Instance(HUGE, HUGE, 1, 9)), "draft trees or more, at most"),
    (lambda: decoded_law(BLOCK, TOY, 0), "num_tokens: expected at least 1, got 0"),
    (lambda: decoded_law(BLOCK, TOY, 2.0), "num_tokens: expected a whole number, got 2.0"),
    (lambda: decoded_law(BLOCK, TOY, 60), "more than the 4 GiB allowed"),
    (lambda: decoded_law(BLOCK, TOY, 2, stop_token=2), "stop_token: 2 outside 0..1"),
    (lambda: decoded_law(BLOCK, TOY, 2, stop_token="0"), "stop_token: '0' outside 0..1"),
    (lambda: decoded_law(BLOCK, None, 2), "instance: expected Instance, got None"),
    (lambda: tokens_per_call(BLOCK, TOY, 0), "num_calls: expected at least 1, got 0"),
]

ONE = optimum.single_path_optimum(TOY)
OPTIMA = [
    (lambda: optimum.single_path_optimum(LAW), "instance: expected Instance, got [0.5, 0.5]"),
    (
        lambda: optimum.multi_path_optimum(TOY, drafting="distinct"),
        "drafting: expected Siblings, got 'dis",
    ),
    (lambda: optimum.block_transport_optimum(None), "instance: expected Instance, got None"),
    (
        lambda: optimum.multi_path_optimum(Instance.context_free(LAW, LAW, draft_length=12)),
        "instance: 8191 contexts, more than 5000",
    ),
    (lambda: optimum.single_path_optimum(Instance(HUGE, HUGE, 6)), "more than the 4 GiB allowed"),
    (lambda: optimum.proven_bound(TOY, drafting=None), "drafting: expected Siblings, got None"),
    (lambda: optimum.proven_bound(0), "instance: expected Instance, got 0"),
    (lambda: optimum.check_certificate(None, ONE.certificate), "instance: expected Instance, got None"),
    (lambda: optimum.check_certificate(TOY, ONE), "certificate: expected TransportCertificate, got Optimum("),
]


def fit(counts, law, *, alpha=0.01, miss=0.01):
    return st.goodness_of_fit_by_g(counts, law, alpha=alpha, miss=miss)


RATES = {"alpha": 0.01}
STATISTICS = [
    (lambda: fit([1, 2], ["a", "b"]), "probabilities: expected numbers"),
    (
        lambda: fit([1, 2], [[0.5, 0.5]]),
        "probabilities: expected shape [V]",
    ),
    (
        lambda: fit([1, 2], [0.5, 0.6]),
        "probabilities: expected a total of 1",
    ),
    (
        lambda: fit([1, 2], [1.5, -0.5]),
        "probabilities[1]: expected a finite",
    ),
    (
        lambda: fit([0.5, 2], LAW),
        "counts: expected integers, got float64",
    ),
    (
        lambda: fit([[1], [1, 2]], LAW),
        "counts: expected integers, got [[1]",
    ),
    (
        lambda: fit([-1, 2], LAW),
        "counts[0]: expected a non-negative count",
    ),
    (
        lambda: fit([0, 0], LAW),
        "counts: expected at least one draw, got 0",
    ),
    (
        lambda: fit([1, 2], LAW, alpha=0),
        "alpha: expected a rate strictly between",
    ),
    (
        lambda: fit([1, 2], LAW, alpha="5%"),
        "alpha: expected a rate strictly between",
    ),
    (
        lambda: fit([1, 2], LAW, alpha=0.1, miss=1),
        "miss: expected a rate strictly",
    ),
    (lambda: st.pooled_cells(LAW, 0), "draws: expected a whole number of at least 1, got 0"),
    (lambda: st.pooled_cells(LAW, "9"), "draws: expected a whole number of at least 1, got '9'"),
    (lambda: st.pooled_cells(LAW, 9, -1), "min_expected: expected a positive number, got -1"),
    (
        lambda: st.draws_needed_by_g(0, LAW, **RATES),
        "tv: expected a total variation in (0, 1]",
    ),
    (lambda: st.draws_needed_by_g(None, LAW, **RATES), "tv: expected a total variation in (0, 1]"),
    (
        lambda: st.smallest_detectable_tv_by_joint_e_process([5], [LAW, LAW], **RATES),
        "draws: expected one number for each of 2 distributions, got 1",
    ),
    (lambda: st.EProcess.against([]), "laws: expected at least one distribution, got none"),
    (
        lambda: st.EProcess.against([LAW]).observe([1, 1], 1),
        "sample: expected an index below 1, got 1",
    ),
    (lambda: st.EProcess.against([LAW]).observe([1, 1], "0"), "sample: expected an index below 1"),
    (lambda: st.homogeneity([1, 2], [1, 2, 3], **RATES), "second: expected a last axis of 2"),
    (lambda: st.homogeneity([[1, 2]] * 2, [1, 2], **RATES), "first: expected a last axis of 4"),
    (lambda: st.homogeneity([1, 2], [[1, 2]], **RATES), "second: expected shape [2], got (1, 2)"),
    (lambda: st.total_variation_at_least([1], LAW, **RATES), "counts: expected a last axis of 2"),
    (lambda: st.offending_cells([1, 1], LAW, alpha=2), "alpha: expected a rate strictly between"),
    (lambda: st.split(1.0, 2), "alpha: expected a rate strictly between"),
]

CASES = [
    pytest.param(call, message, id=f"{family}-{number}")
    for family, cases in (
        ("models", MODELS),
        ("instances", INSTANCES),
        ("laws", LAWS),
        ("optima", OPTIMA),
        ("statistics", STATISTICS),
    )
    for number, (call, message) in enumerate(cases)
]


@pytest.mark.parametrize(("call", "message"), CASES)
def test_the_message_names_the_argument_and_the_value(call, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(("vocab", "length"), [(1, 1), (1, 9), (2, 3), (5, 2), (7, 1)])
@pytest.mark.parametrize("exact", [False, True])
def test_required_bytes_are_those_of_the_rows(vocab, length, exact):
    target, draft = ToyModel.random(vocab, length), ToyModel.random(vocab, length - 1)
    rows = sum(level.nbytes for model in (target, draft) for level in model.levels)
    assert required_bytes(vocab, length, exact=exact) == rows * (100 / 8 if exact else 1)


def test_the_largest_instance_that_fits_is_allowed_and_the_next_is_not():
    assert required_bytes(20, 5) < MAX_BYTES < required_bytes(20, 6)
    require_memory(20, 5)
    with pytest.raises(InvalidInputError, match="draft_length 6"):
        require_memory(20, 6)


@pytest.mark.parametrize("siblings", ["independent", "paths", "distinct", "top-and-sampled"])
def test_too_many_trees_are_noticed_on_the_way(siblings, monkeypatch):
    monkeypatch.setattr(exact_drafting, "MAX_TREES", 7)
    rows = [np.full((1, 4), 0.25), np.full((4, 4), 0.25)]
    with pytest.raises(InvalidInputError, match="draft trees or more, at most 7 are enumerated"):
        shaped_law(rows, draft_paths(3, 2, verifiers.Siblings(siblings)))
