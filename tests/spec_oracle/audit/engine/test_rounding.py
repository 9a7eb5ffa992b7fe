"""What counts as rounding is measured, the same in every check, and no blank cheque."""

import math
import warnings
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest

from lab.specimens.call_patterns import SteppingEngine
from lab.specimens.registry import specimens
from lab.specimens.rounded import BACKWARD, FORWARD, Measured, Moved, Redrafted, Rounding, in_float32, rows
from lab.specimens.table_engine import DRAFT, TARGET
from spec_oracle.audit import AuditOptions, Evidence, Status, SubjectVerdict, audit
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import FLOAT32_ROUNDING
from spec_oracle.audit.engine.rounding import APART, FLOAT32, MOST, rounding_of
from spec_oracle.audit.subjects import of_engines
from spec_oracle.contracts.engine import EngineCode, NoLawError
from spec_oracle.report.what_to_do import what_to_do
from tests.strategies import by_day
from tests.subjects import checks_of


def measured(*engines):
    return rounding_of(of_engines("mine", dict(enumerate(engines))), Context())


def audited(engine, checks=("joint",), budget=8.0):
    return audit(
        engine, options=AuditOptions(budget=budget, tokens=2, checks=checks, prompts=((0,),))
    ).subjects[0]


def statuses(found, *names):
    return {check.status for check in found.checks if check.name in names}


def summed(kind=Rounding, offset=8.0, **fields):
    target, verification = (rows(in_float32, order, offset) for order in (FORWARD, BACKWARD))
    return kind(**{"target": target, "verification": verification, **fields})


def widened(row):
    """Return a row of float32 in the hands of an adapter that makes float64 of all."""
    return np.asarray(row, np.float64)


def as_list(row):
    return list(map(float, row))


def as_tensor(row):
    return pytest.importorskip("torch").tensor(row)


class Backward(Rounding):
    """Verifies forward, and is asked backward."""

    def next_token_probs(self, context):
        return self.verification(context)

    def verifying(self, context):
        return as_list(self.target(context))


class InOneNumberType(Rounding):
    """Accepts and corrects in float32, by rows that stay numbers of numpy."""

    def verified(self, context, drafts, uniform, seed):
        p, q = self.verification, lambda context: np.float32(self.draft(context))
        self.drafted += len(drafts)
        for number, token in enumerate(drafts):
            after = [*context, *drafts[:number]]
            if not uniform() * q(after)[token] < p(after)[token]:
                left = np.maximum(p(after) - q(after), np.float32(0))
                return [*drafts[:number], self.choose(as_list(left / left.sum()), uniform(), seed)]
            self.accepted += 1
        return [*drafts, self.choose(as_list(p([*context, *drafts])), uniform(), seed)]


RIGHT = {
    "arrays": summed,
    "lists": lambda: summed(target=lambda context: as_list(rows(in_float32, FORWARD, 8.0)(context))),
    "tensors": lambda: summed(target=lambda context: as_tensor(rows(in_float32, FORWARD, 8.0)(context))),
    "widened": lambda: summed(target=lambda context: widened(rows(in_float32, FORWARD, 8.0)(context))),
    "asked in the other order": lambda: summed(Backward),
    "drafts computed twice": lambda: summed(Redrafted),
    "all in float32": lambda: summed(InOneNumberType),
    "a larger error, measured": lambda: summed(Measured, offset=30.0),
    "three drafts": lambda: summed(draft_length=3),
    "stops": lambda: summed(stop_tokens=(2,)),
}


@pytest.mark.parametrize("name", by_day(RIGHT, ["arrays", "tensors", "drafts computed twice", "stops"]))
def test_right_engines_in_float32_pass_and_the_report_says_what_counts(name):
    """Judged by a tolerance of 1e-6 all of these were lossy, with a total variation of 3e-6 to 7e-6."""
    found = audited(RIGHT[name]())
    assert (found.verdict, found.evidence) == (SubjectVerdict.LOSSLESS, Evidence.EXACT)
    assert found.total_variation is None or found.total_variation < 5 * FLOAT32
    (said,) = (note for note in found.remarks.notes if "counts as rounding" in note)
    assert said in found.remarks.scope


@pytest.mark.nightly
def test_every_check_allows_the_same():
    found = audited(summed(draft_length=1), ("calls", "batch"), budget=0.5)
    assert statuses(found, "joint", "calls", "batch") == {Status.PASSED}
    assert len({line for line in found.remarks.scope if "counts as rounding" in line}) == 1


def test_a_defect_beyond_rounding_is_found_in_float32():
    """Moved by 1.5e-4; rows of float32 would explain 1e-5 a token, and may explain 5e-5."""
    found = audited(summed(Moved, moved=1.5e-4))
    assert (found.verdict, found.evidence) == (SubjectVerdict.LOSSY, Evidence.EXACT)
    assert found.total_variation == pytest.approx(1.5e-4, rel=0.1)


def test_a_softmax_in_float64_of_logits_in_float32_is_undecided():
    """Nothing tells such rows from those of an engine in float64 with a defect as small: neither is said."""
    found = audited(specimens()["rounded-softmax-in-float64"].engine()[""], ("calls", "batch"), budget=0.5)
    assert found.verdict is SubjectVerdict.INCONCLUSIVE
    assert statuses(found, "joint", "calls", "batch") == {Status.INCONCLUSIVE}
    calls = checks_of(found)["calls"]
    assert "cannot be told from rounding" in calls.detail
    assert "show those of verification by rows_along" in what_to_do(found)


@dataclass
class SlightlyOff(SteppingEngine):
    """Moves a little probability, in float64."""

    moved: float = 0.0

    def verifying(self, context):
        first, *others, last = TARGET(context)
        return [first - self.moved, *others, last + self.moved]


class ShowsItsRows(SlightlyOff):
    """Shows rows that were computed in another way, in float64."""

    def rows_along(self, prompt, completion):
        text = [*prompt, *completion]
        every = (np.array(TARGET(text[:end])) for end in range(len(prompt), len(text)))
        return [row * (1 + 3e-16 * np.array([1, 0, 0])) for row in every]


@pytest.mark.parametrize(
    ("kind", "moved", "verdict"),
    [
        (SlightlyOff, 0.5 * FLOAT32_ROUNDING, SubjectVerdict.LOSSLESS),
        (SlightlyOff, 5 * FLOAT32_ROUNDING, SubjectVerdict.INCONCLUSIVE),
        (ShowsItsRows, 5 * FLOAT32_ROUNDING, SubjectVerdict.LOSSY),
        (SlightlyOff, 2 * APART * FLOAT32, SubjectVerdict.LOSSY),
    ],
)
def test_rows_in_float64_keep_the_tight_tolerance(kind, moved, verdict):
    """Where the same row comes in two ways that agree to float64, rounding explains no more than that."""
    found = audited(kind(moved=moved))
    assert found.verdict is verdict
    assert not [note for note in found.remarks.notes if "counts as rounding" in note and not moved > 1e-6]


def test_with_one_way_to_rows_the_number_type_bounds_rounding():
    assert measured(SteppingEngine()).a_token == FLOAT32_ROUNDING
    assert "next_token_probs returns float64" in str(measured(SteppingEngine()))
    assert measured(summed()).a_token == FLOAT32
    assert measured(summed()).unsure == APART * FLOAT32
    half = SteppingEngine(target=lambda context: np.float16(TARGET(context)))
    assert 1e-3 <= measured(half).unsure < 0.1


class FourTokens(SteppingEngine):
    """Rows of four tokens."""

    vocab_size = 4


@pytest.mark.parametrize(("dtype", "is_law"), [("bfloat16", True), ("float16", True), ("float32", False)])
def test_rows_sum_to_one_as_their_number_type_allows(dtype, is_law):
    torch = pytest.importorskip("torch")
    row = torch.tensor([0.142578125, 0.16796875, 0.1484375, 0.5390625]).to(getattr(torch, dtype))  # 0.998
    code = EngineCode(FourTokens(target=lambda _: row))
    with nullcontext() if is_law else pytest.raises(NoLawError):
        assert code.row((0,)).sum() == pytest.approx(1.0)


def test_rows_in_bfloat16_are_read():
    torch = pytest.importorskip("torch")
    engine = SteppingEngine(target=lambda context: torch.tensor(TARGET(context)).to(torch.bfloat16))
    found = measured(engine)
    assert "next_token_probs returns bfloat16" in str(found)
    assert found.unsure >= 1e-3


class OfWeights(SteppingEngine):
    """Holds weights in a number type, as a model does; its rows are a softmax in float32."""

    def __init__(self, dtype, moved=0.0):
        torch = pytest.importorskip("torch")
        super().__init__(target=lambda context: moved_by(moved, TARGET(context)))
        model = torch.nn.Linear(2, 2).to(getattr(torch, dtype))
        self.parts = {"target": [model], "draft": torch.zeros(2)}

    def next_token_probs(self, context):
        return np.asarray(TARGET(context), dtype=np.float32)


def moved_by(share, row):
    """Return a row of which a share of the first token's probability is the last token's."""
    return [row[0] * (1 - share), *row[1:-1], row[-1] + row[0] * share]


@pytest.mark.parametrize(
    ("dtype", "moved", "verdict"),
    [
        ("bfloat16", 0.01, SubjectVerdict.INCONCLUSIVE),
        ("float32", 0.01, SubjectVerdict.LOSSY),
        ("bfloat16", 0.7, SubjectVerdict.LOSSY),
    ],
)
def test_weights_in_bfloat16_leave_open_what_may_be_their_rounding(dtype, moved, verdict):
    found = audited(OfWeights(dtype, moved))
    assert found.verdict is verdict
    is_open = verdict is SubjectVerdict.INCONCLUSIVE
    assert what_to_do(found).startswith("let the engine compute in float32") == is_open
    assert ("weights in bfloat16" in str(measured(OfWeights(dtype)))) == (dtype == "bfloat16")


class Reports(OfWeights):
    """Reports the log-probabilities by which it verifies."""

    def reported(self, prompt, max_new_tokens):
        tokens = self.generate(prompt, max_new_tokens)
        rows = [self.target([*prompt, *tokens[:place]]) for place in range(len(tokens))]
        return tokens, [math.log(row[token]) for row, token in zip(rows, tokens, strict=True)], "length"


@pytest.mark.parametrize(
    ("dtype", "moved", "status"),
    [
        ("bfloat16", 0.003, Status.INCONCLUSIVE),
        ("float32", 0.003, Status.FAILED),
        ("bfloat16", 0.3, Status.FAILED),
        ("bfloat16", 0.0, Status.PASSED),
    ],
)
def test_log_probabilities_of_verification_may_be_off_by_rounding(dtype, moved, status):
    found = checks_of(audited(Reports(dtype, moved), ("logprobs",), budget=2.0))["logprobs"]
    assert found.status is status
    is_open = status is Status.INCONCLUSIVE
    assert found.remarks.do.startswith("let the engine compute in float32") == is_open


class Computing(SteppingEngine):
    """Computes in a way that is set, and is off by ``moved``; its weights and its rows are float32."""

    way, moved = "float32", 0.0

    def __init__(self):
        torch = pytest.importorskip("torch")
        super().__init__(target=lambda context: moved_by(self.moved, TARGET(context)))
        self.linear = torch.nn.Linear(2, 2)

    def next_token_probs(self, context):
        torch = pytest.importorskip("torch")
        COMPUTATIONS[self.way](torch, self.linear, torch.ones(1, 2))
        return np.asarray(TARGET(context), dtype=np.float32)


def under_autocast(torch, linear, hidden):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        linear(hidden)


def in_int8(torch, linear, hidden):
    (hidden * 127 / hidden.abs().max()).round().to(torch.int8)


def with_int8_weights(torch, linear, hidden):
    hidden @ torch.ones(2, 2, dtype=torch.int8).float()


COMPUTATIONS = {
    "float32": lambda torch, linear, hidden: linear(hidden),
    "bfloat16": under_autocast,
    "int8": in_int8,
    "weights alone": with_int8_weights,
}


def computing(way, moved=0.0):
    engine = Computing()
    engine.way, engine.moved = way, moved
    return engine


@pytest.mark.parametrize(
    ("way", "moved", "verdict"),
    [
        ("bfloat16", 0.01, SubjectVerdict.INCONCLUSIVE),
        ("int8", 0.01, SubjectVerdict.INCONCLUSIVE),
        ("float32", 0.01, SubjectVerdict.LOSSY),
        ("weights alone", 0.01, SubjectVerdict.LOSSY),
        ("bfloat16", 0.7, SubjectVerdict.LOSSY),
        ("int8", 0.7, SubjectVerdict.LOSSY),
    ],
)
def test_what_is_computed_in_narrow_types_is_seen_whatever_the_weights_are(way, moved, verdict):
    """Autocast and dynamic quantisation: weights and rows in float32 do not show them."""
    found = audited(computing(way, moved))
    assert found.verdict is verdict
    assert (f"computed in {way}" in str(measured(computing(way)))) == (way in {"bfloat16", "int8"})


def test_a_model_that_is_dynamically_quantised_is_seen():
    torch = pytest.importorskip("torch")
    engine = Computing()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine.linear = torch.ao.quantization.quantize_dynamic(
            torch.nn.Sequential(engine.linear), {torch.nn.Linear}, dtype=torch.qint8
        )
    assert "computed in int8" in str(measured(engine))


def test_matrix_products_of_less_than_float32_are_seen(monkeypatch):
    torch = pytest.importorskip("torch")
    assert measured(Computing()).unsure == APART * FLOAT32
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
    assert measured(Computing()).unsure == pytest.approx(0.05)
    assert "matrix products of float32 at precision 'medium'" in str(measured(Computing()))


@dataclass
class Nested:
    """Holds something, as an engine holds a runner, and that its model."""

    held: object


class Half:
    """As much of an array of another library as is looked at."""

    shape, dtype = (2, 2), "mlx.core.bfloat16"


@pytest.mark.parametrize("weights", [np.zeros(2, np.float16), Half()])
def test_weights_of_any_library_are_found_however_deep_they_lie(weights):
    engine = summed()
    for _ in range(8):
        weights = Nested({"layers": [weights]})
    engine.parts = weights
    assert measured(engine).unsure == pytest.approx(0.05)


def test_twice_the_difference_of_two_ways_bounds_rounding():
    engine = summed(Measured, offset=30.0)
    along = engine.rows_along((0,), (1, 2, 0, 1, 2, 0))
    assert len(along) == 6
    found = measured(engine)
    assert FLOAT32 < found.a_token < 2 * MOST
    assert "differs from rows_along by" in str(found)


class Forgetful(SteppingEngine):
    """Its rows are others when they are asked for again: a cache that a generation has spoilt."""

    asked = frozenset()

    def next_token_probs(self, context):
        again, self.asked = tuple(context) in self.asked, self.asked | {tuple(context)}
        return DRAFT(context) if again else TARGET(context)


def test_rows_that_contradict_each_other_are_no_blank_cheque():
    """They allow no more than float32 does, and a distance as large as theirs proves nothing."""
    found = measured(Forgetful())
    assert found.a_token == FLOAT32
    assert found.unsure > 0.1
    assert "differs by" in str(found)
    assert "when asked again" in str(found)


def test_rows_of_few_digits_are_known_to_their_sum():
    rounded = SteppingEngine(target=lambda context: [round(p, 5) for p in TARGET(context)])
    found = measured(rounded)
    assert found.a_token >= FLOAT32
    assert found.unsure >= FLOAT32


def test_of_several_engines_the_one_that_needs_most_counts():
    assert measured(SteppingEngine(), summed()).a_token == FLOAT32
