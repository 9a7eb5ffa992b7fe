"""Code that reads the memory of its random numbers is sampled: it cannot be traced, and need not be wrong.

Samples call right code wrong with a probability of 1e-6 at most; what is wrong here, by a total variation
above 0.1, they miss with a probability below 1e-9.
"""

import functools
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy import stats

import verifiers
from spec_oracle.audit import AuditOptions, SubjectVerdict, audit, experiment
from spec_oracle.audit.context import Context, Inputs, ShapeLimits
from spec_oracle.audit.experiment import FoundBy, NoDecisionError
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, NoEvidenceError, Status
from spec_oracle.audit.sampler.at_shapes import CallsAtShapes
from spec_oracle.audit.sampler.joint import OneCall
from spec_oracle.audit.sampler.sampled_shapes import SHAPES_MOST_REQUESTS
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import confirm_breach, law_after
from spec_oracle.audit.shapes.places import traced_at
from spec_oracle.audit.shapes.trees import Place, Shape, tree_of
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import ContractError, SamplerCode, as_sampler
from spec_oracle.exact.interception import CannotTraceError, enumerate_calls
from spec_oracle.exact.interception.libraries import numpy_memory
from tests.spec_oracle.audit.sampler import memory
from tests.strategies import by_day
from tests.subjects import sampler
from verifiers import Siblings

REPLAYED = CheckResult("joint", Status.PASSED, "rows as the rule's", how=How.REPLAYED)
ASKED = [read for read in memory.READERS if read is not memory.by_iterator]
UNSEEN = memory.by_address_in_the_object
TOKEN = as_sampler(verifiers.get("token"))
OF_DAY = (memory.by_pointer, memory.by_memoryview, memory.by_iterator, UNSEEN)
"""Ways to read memory of which kernels are audited by day: that all of them are refused is asked of each."""
NAMES = {"ids": lambda read: read.__name__}


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    name = "spec_oracle.audit.sampler.sampled_shapes.SHAPES_MOST_REQUESTS"
    monkeypatch.setattr(name, SHAPES_MOST_REQUESTS // 6)


def at_shapes(subject, results=None):
    return result_of("shapes", subject, Context(shapes=ShapeLimits(most=8), results=results or {}))


@pytest.mark.parametrize("read", ASKED, **NAMES)
def test_the_memory_of_traced_numbers_is_not_read(read):
    with pytest.raises(CannotTraceError, match=r"memory\.py"):
        enumerate_calls(lambda: read(np.random.default_rng().random((2, 3))).tolist())


@pytest.mark.parametrize("read", memory.TENSOR_READERS, **NAMES)
def test_the_memory_of_traced_tensors_is_not_read(read):
    with pytest.raises(CannotTraceError, match=r"memory\.py"):
        enumerate_calls(lambda: read(torch.rand(3, dtype=torch.float64)).tolist())


def test_dlpack_of_a_traced_tensor_is_refused():
    (branch,) = enumerate_calls(lambda: torch.from_dlpack(torch.to_dlpack(torch.ones(2))).tolist())
    assert branch.result == [1.0, 1.0]
    for module in (torch, torch.utils.dlpack):
        with pytest.raises(CannotTraceError, match="to_dlpack"):
            enumerate_calls(lambda: module.to_dlpack(torch.rand(2)) is None)  # noqa: B023


@pytest.mark.parametrize("read", by_day([*memory.READERS, UNSEEN], OF_DAY), **NAMES)
def test_a_right_kernel_that_takes_its_uniforms_is_right_at_all_shapes(read):
    subject = SamplerSubject.of_uniforms("mine", memory.of_uniforms(read))
    found = at_shapes(subject, {"joint": REPLAYED})
    assert found.status is Status.PASSED
    assert "output distribution exact" not in found.detail


@pytest.mark.parametrize("read", by_day([*memory.READERS, UNSEEN], OF_DAY), **NAMES)
def test_a_right_kernel_that_is_given_a_generator_is_sampled(read):
    subject = sampler(memory.of_generator(read))
    context = Context(rate=1e-6, budget=30.0, inputs=Inputs(draft_length=2))
    assert OneCall(subject, context).found(FoundBy.TRACED).how is None
    assert at_shapes(subject).status is Status.PASSED


@pytest.mark.parametrize(
    "read",
    by_day(
        [*memory.TENSOR_READERS, memory.of_tensor_in_cpp],
        [memory.of_tensor_by_pointer, memory.of_tensor_in_cpp],
    ),
    **NAMES,
)
def test_a_right_kernel_on_tensors_is_right_at_all_shapes(read):
    subject = SamplerSubject.of_uniforms("mine", memory.of_uniforms(read), array="torch")
    assert at_shapes(subject, {"joint": REPLAYED}).status is Status.PASSED


def of_tensor_generator(read, factor=1.0):
    verify = memory.of_uniforms(read, factor)

    def drawing(draft_tokens, draft_probs, target_probs, generator):
        shape = (draft_tokens.shape[0], draft_tokens.shape[1] + 1)
        uniforms = torch.rand(shape, generator=generator, dtype=torch.float64)
        return verify(draft_tokens, draft_probs, target_probs, uniforms)

    return drawing


def test_a_traced_call_that_breaks_the_contract_counts_only_if_ordinary_ones_do():
    """Traced random numbers are NaN to an extension in C++, which returns an id behind the last one then."""
    subject = sampler(of_tensor_generator(memory.of_tensor_in_cpp), "torch")
    with pytest.raises(ContractError, match="must be ids"):
        law_after(subject.code, one_request())
    found = OneCall(subject, Context(rate=1e-6, budget=30.0)).found(FoundBy.TRACED)
    assert found.how is None
    assert "ordinary calls contradict a traced one" in found.detail


def one_request():
    tree = tree_of(Shape(5, 3), 0, Siblings.INDEPENDENT)
    return tree.drafts(next(iter(tree.likely)))


def out_of_range(chance):
    def verify(draft_tokens, draft_probs, target_probs, generator):
        batch, length = draft_tokens.shape
        tokens = np.full((batch, length + 1), -1)
        tokens[:, 0] = [5 if number < chance else 0 for number in generator.random(batch)]
        return tokens, np.zeros(batch, dtype=np.int64)

    return SamplerCode(verify)


@pytest.mark.parametrize("chance", [1.0, 0.1, 1e-9])
def test_a_breach_that_ordinary_calls_bear_out_or_that_is_rare_is_one(chance, monkeypatch):
    monkeypatch.setattr("spec_oracle.audit.sampler.tracer.BREACH_SECONDS", 0.05 if chance < 1e-6 else 60.0)
    code = out_of_range(chance)
    with pytest.raises(ContractError) as caught:
        law_after(code, one_request())
    assert caught.value.traced[1] == pytest.approx(chance)
    confirm_breach(code, caught.value, Context(rate=1e-7))


@pytest.mark.parametrize(
    "subject",
    [
        SamplerSubject.of_uniforms("mine", memory.of_uniforms(memory.by_memoryview, 1.6)),
        sampler(memory.of_generator(UNSEEN, 1.6)),
    ],
    ids=["uniforms", "generator"],
)
def test_a_wrong_kernel_is_found_by_samples(subject):
    instances = {"reversed": panel(3, 1, 1, 0)["reversed"]}
    found = result_of("joint", subject, Context(budget=120.0, inputs=Inputs(instances=instances)))
    assert (found.status, found.how) == (Status.FAILED, How.SAMPLED)


@pytest.mark.parametrize("read", [memory.by_pointer, UNSEEN], **NAMES)
def test_a_kernel_that_is_wrong_at_large_vocabularies_is_found_by_samples(read):
    subject = SamplerSubject.of_uniforms("mine", memory.of_uniforms(read, 1.6, above=8))
    found = at_shapes(subject, {"joint": REPLAYED})
    assert found.status is Status.FAILED
    assert "samples contradict the expected distribution" in found.detail


def test_a_whole_audit_of_a_right_kernel_ends_lossless():
    asked = ("shapes",)
    options = AuditOptions(checks=asked, draft_length=1, vocabularies=(2, 5, 9), budget=120.0)
    (report,) = audit(memory.of_uniforms(UNSEEN), options=options).subjects
    statuses = {check.name: check.status for check in report.checks}
    assert report.verdict is SubjectVerdict.LOSSLESS
    assert {statuses[name] for name in asked} == {Status.PASSED}
    assert any("contradict the traced distribution" in note for note in report.remarks.notes)


def test_memory_that_code_keeps_from_a_traced_call_holds_numbers_in_its_next_one():
    """A buffer that was made while the code was traced holds objects, over which C would write numbers."""
    kept = {}

    def verify(draft_tokens, draft_probs, target_probs, generator):
        uniforms = generator.random((len(draft_tokens), draft_tokens.shape[1] + 1))
        buffer = kept.setdefault(uniforms.shape, np.empty(uniforms.shape))
        copied = np.array(memory.by_pointer(uniforms))
        np.frombuffer(buffer, dtype=np.float64)[:] = copied
        return memory.token_rule(draft_tokens, draft_probs, target_probs, buffer)

    code = SamplerCode(verify)
    with pytest.raises(CannotTraceError):
        law_after(code, one_request())
    (buffer,) = kept.values()
    assert np.ndarray.dtype.__get__(buffer).hasobject
    code(one_request(), code.generator(0))
    assert buffer.dtype == np.float64
    assert 0 < float(buffer.sum()) < 4


def test_numba_asks_before_it_reads_an_array(monkeypatch):
    """As its registry of types does: a function of a value and a context, dispatched by the value's class."""

    @functools.singledispatch
    def typeof_impl(value, context):
        return type(value)

    module = ModuleType("numba.extending")
    module.typeof_impl = typeof_impl
    monkeypatch.setitem(sys.modules, "numba", ModuleType("numba"))
    monkeypatch.setitem(sys.modules, "numba.extending", module)
    numpy_memory._register_with_numba.cache_clear()
    kept = []

    def draw():
        kept[:] = np.zeros(3), np.zeros(3)[1:]
        return typeof_impl(np.random.default_rng().random(3), None) is None

    with pytest.raises(CannotTraceError, match="compiled by numba"):
        enumerate_calls(draw)
    whole, part = kept
    assert typeof_impl(whole, None) is np.ndarray
    assert whole.dtype == np.float64
    with pytest.raises(TypeError, match="while random numbers were traced"):
        typeof_impl(part, None)
    numpy_memory._register_with_numba.cache_clear()


def traced_place(code, shape):
    """Return what was traced of code at a shape, and confirmed where it is wrong."""
    calls = CallsAtShapes(SamplerSubject("mine", code), Context(rate=1e-7, budget=60.0))
    return traced_at(calls.experiment(Place(shape, 0, Siblings.INDEPENDENT)))


def too_eager(draft_tokens, draft_probs, target_probs, generator):
    uniforms = generator.random((len(draft_tokens), draft_tokens.shape[1] + 1))
    tokens, accepted = np.full(uniforms.shape, -1), np.zeros(len(uniforms), dtype=np.int64)
    for b, drafted in enumerate(draft_tokens):
        q, p = draft_probs[b], target_probs[b]
        for i, token in enumerate(drafted):
            if not uniforms[b, i] * q[i, token] < 1.4 * p[i, token]:
                weights = np.maximum(p[i] - q[i], 0)
                break
            tokens[b, i] = token
        else:
            i, weights = len(drafted), p[-1]
        accepted[b] = i
        tokens[b, i] = np.searchsorted(np.cumsum(weights), uniforms[b, -1] * weights.sum(), side="right")
    return tokens, accepted


EAGER_AT = [Shape(5, 3), Shape(6, 2, batch=3, place="middle"), Shape(40, 2, kind="near")]


@pytest.mark.parametrize("shape", by_day(EAGER_AT, EAGER_AT[:1]), ids=str)
def test_samples_confirm_the_trace_of_wrong_code(shape):
    """A chi-square test; its false-alarm rate is 1e-6."""
    found = traced_place(SamplerCode(too_eager), shape)
    assert found.is_wrong
    claimed_law, law = (np.array([*one.values()]) for one in (found.traced.law, found.experiment.expected))
    counts = np.bincount(found.experiment.many(3000), minlength=len(claimed_law))
    possible = claimed_law > 1e-12
    assert not counts[~possible].any()
    expected = claimed_law[possible] * counts.sum() / claimed_law.sum()
    statistic = ((counts[possible] - expected) ** 2 / expected).sum()
    assert statistic < stats.chi2.isf(1e-6, possible.sum() - 1)
    assert abs(claimed_law - law).sum() / 2 > 0.01


def test_samples_contradict_a_false_trace_of_right_code():
    with pytest.raises(NoEvidenceError, match="20 uninstrumented samples contradict"):
        traced_place(SamplerCode(memory.of_generator(UNSEEN)), Shape(5, 3))


def test_few_samples_without_a_traced_decision_are_no_evidence(monkeypatch):
    monkeypatch.setattr(experiment, "borne_out", lambda *_, **__: False)
    with pytest.raises(NoDecisionError, match="no random decision was seen"):
        traced_place(SamplerCode(memory.of_generator(UNSEEN)), Shape(5, 3))
    assert traced_place(SamplerCode(too_eager), Shape(5, 3)).is_wrong
    ways = [too_eager]

    def first_eager_then_right(*arguments):
        return ways[-1](*arguments)

    monkeypatch.setattr(experiment, "borne_out", lambda *_, **__: bool(ways.append(TOKEN)))
    with pytest.raises(NoEvidenceError, match="two distributions"):
        traced_place(SamplerCode(first_eager_then_right), Shape(5, 3))


def test_ordinary_calls_at_a_shape_have_new_generators_every_time():
    """Samples of one look must not be those of the look before."""
    seeds = []

    def verify(draft_tokens, draft_probs, target_probs, generator, generators=None):
        seeds.extend(own.bit_generator.state["state"]["state"] for own in (generators or {}).values())
        return TOKEN(draft_tokens, draft_probs, target_probs, generator)

    subject = sampler(verify)
    place = Place(Shape(5, 2, batch=3, generators="all"), 0, Siblings.INDEPENDENT)
    experiment_at_place = CallsAtShapes(subject, Context()).experiment(place)
    for _ in range(2):
        experiment_at_place.many(4)
    assert len({*seeds}) == len(seeds) == 2 * 4 * 3
