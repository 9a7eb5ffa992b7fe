"""What was not tried leaves the check open, what a sampler refuses can be declared, new rows are tried."""

import re
import time

import numpy as np
import pytest
import torch

from lab.specimens.foreign.rows import token_by_request
from lab.specimens.registry import specimens
from spec_oracle.audit.context import COUNTED, Context, ShapeLimits
from spec_oracle.audit.covering import design
from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.results import Cover, Status, inconclusive
from spec_oracle.audit.sampler import shapes
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.shapes.trees import OPTIONS
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import SamplerCode
from spec_oracle.errors import InvalidInputError
from tests.efforts import set_effort
from tests.strategies import by_day
from tests.subjects import sampler

QUICK = {"residual-cut-at-32768": 32_769, "end-of-qwen-masked": 151_936, "mask-of-bert-masked": 30_000}
"""Defects, and the least vocabulary that has them."""

FOUND_BY_DAY = ("residual-cut-at-32768", 32_769)

PATIENCE = 600.0
"""Seconds: that all shapes are tried must not depend on what else the machine does."""


def outcome(function, **limits):
    subject = sampler(function)
    return result_of("shapes", subject, Context(budget=PATIENCE, shapes=ShapeLimits(**limits)))


@pytest.mark.parametrize(("name", "least"), by_day([*QUICK.items()], [FOUND_BY_DAY]))
def test_defects_of_large_vocabularies_are_found_there(name, least):
    result = outcome(specimens()[f"shape-{name}"].function)
    assert result.status is Status.FAILED
    assert int(re.search(r"at V (\d+)", result.detail)[1]) >= least


def raw_memory(x, q, p, rng):
    """Read rows as raw memory: strided ones are no distributions, and are refused."""
    rows = np.frombuffer(memoryview(p if p.base is None else p.base).cast("B"), dtype=p.dtype)[: p.size]
    if not np.allclose(rows.reshape(p.shape).sum(axis=-1), 1):
        raise ValueError("rows are no distribution")
    return token_by_request(x, q, p, rng)


@pytest.mark.usefixtures("less_effort")
def test_a_layout_at_which_the_code_raised_was_not_tried_unless_it_is_declared():
    one = {"vocab_size": (5, 33), "draft_length": (1,)}
    found = outcome(raw_memory, most=3, only=one)
    assert found.status is Status.INCONCLUSIVE
    assert "layout sliced: raised ValueError: rows are no distribution" in found.detail
    assert "--only layouts=contiguous" in found.remarks.do
    only = AuditOptions(layouts=["contiguous"]).context(1e-6).shapes.only
    declared = outcome(raw_memory, most=3, only={**only, **one})
    assert declared.status is Status.PASSED
    assert "declared: the code takes only layout contiguous; no other was tried" in declared.remarks.scope


def for_toys(x, q, p, rng):
    """Solve a program of the size of both: right, and too large elsewhere."""
    if p.shape[-1] > 8 or x.shape[1] > 3:
        raise ValueError("for toys")
    return token_by_request(x, q, p, rng)


@pytest.mark.usefixtures("less_effort")
def test_code_for_toys_declares_two_limits_at_once_and_is_asked_for_no_more():
    one = {"batch": (1,), "kind": ("flat",), "layout": ("contiguous",)}
    found = outcome(for_toys, most=30, only=one)
    assert found.status is Status.INCONCLUSIVE
    assert found.remarks.do == "--only vocabularies=2,3,5,7,8 --only lengths=1,2,3"
    assert found.remarks.do in found.detail
    only = AuditOptions(vocabularies=[2, 3, 5, 7, 8], lengths=[1, 2, 3]).context(1e-6).shapes.only
    assert outcome(for_toys, only={**only, **one}, most=9).status is Status.PASSED
    at_scale = Context(budget=PATIENCE, shapes=ShapeLimits(only=only))
    assert result_of("scale", sampler(for_toys), at_scale).status is Status.NOT_APPLICABLE


@pytest.mark.usefixtures("less_effort")
def test_ids_of_32_bits_may_be_refused_with_an_exception():
    """As torch does, whose `one_hot` and `gather` take indices of int64 only; the report says so."""

    def of_64_bits(x, q, p, rng):
        if x.dtype != np.int64:
            raise RuntimeError("expected ids of int64")
        return token_by_request(x, q, p, rng)

    found = outcome(of_64_bits, most=3)
    assert found.status is Status.PASSED
    assert any("ids int32: raised RuntimeError: expected ids of int64" in one for one in found.remarks.scope)
    assert found.remarks.coverage["ids"] == {"int64": Cover.PROVEN, "int32": Cover.UNTRIED}


def test_values_that_time_did_not_suffice_for_leave_the_check_open():
    def slow(x, q, p, rng):
        end = time.process_time() + 0.05
        while p.shape[-1] > 1000 and time.process_time() < end:
            pass
        return token_by_request(x, q, p, rng)

    found = result_of(
        "shapes",
        sampler(slow),
        Context(
            budget=0.5,
            shapes=ShapeLimits(only={"vocab_size": (5, 20_000), "draft_length": (1,), "batch": (1,)}),
        ),
    )
    assert found.status is Status.INCONCLUSIVE
    assert "not tried in this time: V 20,000" in found.detail
    assert re.fullmatch(r"--budget \d+", found.remarks.do)


@pytest.mark.usefixtures("less_effort")
def test_too_few_samples_of_the_shapes_ask_for_time(monkeypatch):
    """How many seconds would do is known of the samples' part of the budget only."""
    few = inconclusive("too few samples", do="--budget 90")
    monkeypatch.setattr(shapes, "by_samples", lambda *_: few)
    found = outcome(token_by_request, most=3)
    assert (found.status, found.remarks.do) == (Status.INCONCLUSIVE, "--budget")


def certain_at_257(x, q, p, rng):
    """The token rule; of 257 tokens it accepts all drafts and adds the likeliest one, without a decision."""
    if p.shape[-1] != 257:
        return token_by_request(x, q, p, rng)
    return np.concatenate([x, p[:, -1:].argmax(-1)], axis=1), np.full(len(x), x.shape[1])


def test_a_shape_without_a_random_decision_keeps_the_trace_of_others(monkeypatch):
    """Where too few samples confirm what came out there, the shape is not traced, and sampled."""
    set_effort(monkeypatch, CLAIM_SECONDS=0.0)
    only = {
        "vocab_size": (5, 257),
        "draft_length": (2,),
        "batch": (1,),
        "kind": ("flat",),
        "layout": ("sliced",),
    }
    found = outcome(certain_at_257, only=only)
    assert found.remarks.coverage["vocab_size"]["5"] is Cover.PROVEN
    assert found.status is Status.FAILED, found.detail
    assert "V 257" in found.detail


def test_impossible_shape_options_are_refused():
    with pytest.raises(InvalidInputError, match="layouts"):
        AuditOptions(layouts=["diagonal"])
    with pytest.raises(InvalidInputError, match="vocabularies: expected at least 2, got 1"):
        AuditOptions(vocabularies=[1])


def test_a_value_that_is_given_twice_is_tried_once():
    options = AuditOptions(vocabularies=[3, 2, 3], layouts=["sliced", "sliced"], dtypes=["float64"] * 2)
    assert options.context(1e-6).shapes.only == {"vocab_size": (3, 2), "layout": ("sliced",)}
    assert options.context(1e-6).shapes.dtypes == ("float64",)
    assert AuditOptions(prompts=((0, 1), (2,), (0, 1))).prompts == ((0, 1), (2,))


@pytest.mark.parametrize(
    ("axis", "size"), [("vocabularies", 10**9), ("lengths", 1000), ("batches", 10**5), ("paths", 1000)]
)
def test_a_size_that_no_call_can_have_is_refused_at_once(axis, size):
    with pytest.raises(InvalidInputError, match=f"{axis}: expected at most .*, got {size}"):
        AuditOptions(**{axis: [3, size]})


OPTIONAL = {
    "short-drafts-of-long-ones": ("draft_lengths short", {"vocab_size": (5, 33), "draft_length": (1, 2, 6)}),
    "beside-greedy-of-large-vocabularies": ("is_greedy", {"vocab_size": (5, 32_769), "draft_length": (1, 2)}),
    "seeded-requests-of-large-vocabularies": (
        "generators",
        {"vocab_size": (5, 1_025), "draft_length": (1, 2)},
    ),
}
"""Defects, the parameter that shows them, and sizes of which some are right."""


@pytest.mark.parametrize(
    ("name", "where", "sizes"), [(name, *case) for name, case in OPTIONAL.items()], ids=OPTIONAL
)
def test_optional_parameters_are_tried_at_all_sizes(name, where, sizes):
    few = {**sizes, "batch": (1, 3), "kind": ("flat", "zero")}
    result = outcome(specimens()[f"mixed-{name}"].function, only=few)
    assert result.status is Status.FAILED
    assert where in result.detail


@pytest.mark.usefixtures("less_effort")
def test_requests_of_all_kinds_are_right_at_every_value():
    few = {"vocab_size": (5, 33), "draft_length": (1, 4), "batch": (1, 3), "kind": ("flat", "special")}
    result = outcome(specimens()["mixed-requests-of-all-kinds"].function, only=few)
    assert result.status is Status.PASSED
    for name, values in OPTIONS.items():
        assert [*result.remarks.coverage[name]] == [*values]
        assert "untried" not in {cover.value for cover in result.remarks.coverage[name].values()}


def in_torch(x, q, p, generator, *, is_greedy=None, generators=None):
    """The token rule in torch; a request may be greedy, or have a generator of its own."""
    emitted = torch.full((x.shape[0], x.shape[1] + 1), -1)
    for b, (drafts, draft, target) in enumerate(zip(x, q, p, strict=True)):
        own = (generators or {}).get(b, generator)
        rows = target
        if is_greedy is not None and is_greedy[b]:
            rows = torch.nn.functional.one_hot(target.argmax(dim=-1), target.shape[-1]).to(target.dtype)
        for i, token in enumerate([*drafts, None]):
            left = rows[i]
            if token is not None:
                if torch.rand((), generator=own, dtype=torch.float64) * draft[i, token] < rows[i, token]:
                    emitted[b, i] = token
                    continue
                left = (rows[i] - draft[i]).clamp(min=0)
            emitted[b, i] = torch.multinomial(left, 1, generator=own)[0]
            break
    return emitted, (emitted >= 0).sum(dim=1) - 1


@pytest.mark.nightly
@pytest.mark.usefixtures("less_effort")
def test_generators_of_requests_are_traced_in_torch():
    subject = sampler(in_torch, "torch")
    few = {"vocab_size": (5,), "draft_length": (1, 2), "batch": (1, 3), "kind": ("flat", "zero")}
    result = result_of("shapes", subject, Context(budget=PATIENCE, shapes=ShapeLimits(only=few)))
    assert result.status is Status.PASSED
    assert {cover.value for cover in result.remarks.coverage["generators"].values()} <= {
        "proven",
        "represented",
    }
    assert "untried" not in {cover.value for cover in result.remarks.coverage["is_greedy"].values()}


@pytest.mark.nightly
@pytest.mark.usefixtures("less_effort")
def test_every_value_is_tried_of_a_flat_sampler_that_loops_over_requests():
    """The first shapes suffice for it, optional arguments included."""
    specimen = specimens()["flat-requests-one-by-one"]
    values = design(num_paths=(1,), dtype=COUNTED, **OPTIONS).of_values
    subject = SamplerSubject("flat", SamplerCode(specimen.function, specimen.array))
    result = result_of("shapes", subject, Context(budget=PATIENCE, shapes=ShapeLimits(most=values)))
    assert result.status is Status.PASSED
    assert {*OPTIONS} <= {*result.remarks.coverage}
    untried = {
        (axis, value)
        for axis, known in result.remarks.coverage.items()
        for value, cover in known.items()
        if cover.value == "untried"
    }
    do_not_count = {("dtype", "bfloat16"), ("dtype", "float16")}
    assert untried <= {("num_paths", "2"), ("num_paths", "3"), *do_not_count}
