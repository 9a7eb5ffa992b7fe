"""Shared random numbers at sizes beyond toys: traced, sampled, and how often a right sampler is blamed."""

from types import MappingProxyType

import numpy as np
import pytest
from scipy import stats

import verifiers
from lab.specimens.registry import specimens
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.sampler.coins import open_requests
from spec_oracle.audit.sampler.disjoint import disjoint
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import SamplerCode, as_sampler
from tests.strategies import by_day

NEVER = 1e-6
"""Chance that a test of this module fails although nothing is wrong."""

OURS = [s for s in specimens().values() if s.name.startswith(("handed-", "own-"))]
BY_DAY = (
    *("handed-eight-numbers-a-request", "own-offset-by-four-a-request", "own-pairs-beyond-four-drafts"),
    "handed-rows-of-sampled-requests",
)
"""One a form of sharing; "handed-pool-of-4096" is found in test_dependence.py."""

NEEDS_ALL = "own-offset-by-four-a-request"
"""A tenth of the samples would find it only by chance."""

SMALL = (Shape(5, 4, batch=3), Shape(4, 9, batch=4), Shape(33, 2, batch=8))


def subject_of(specimen):
    return SamplerSubject(specimen.name, SamplerCode(specimen.function, specimen.array))


FAULTY = [s for s in OURS if not s.is_control]
RIGHT = {s.name: s for s in OURS if s.is_control}


@pytest.mark.usefixtures("few_equal_requests")
@pytest.mark.parametrize(
    "specimen", by_day(FAULTY, [s for s in FAULTY if s.name in BY_DAY]), ids=lambda s: s.name
)
def test_numbers_shared_beyond_toy_sizes_are_found(specimen, monkeypatch):
    if specimen.name in BY_DAY and specimen.name != NEEDS_ALL:
        monkeypatch.setattr("spec_oracle.audit.sampler.coins.DISJOINT_CALLS", 300)  # a tenth
    (check,) = specimen.detected_by
    result = result_of(check, subject_of(specimen), Context())
    assert result.status is Status.FAILED, result.detail


@pytest.mark.parametrize(
    ("specimen", "check"),
    by_day(
        [(s, check) for s in OURS if s.is_control for check in ("batch", "calls")],
        [(RIGHT["handed-column-by-column"], "calls"), (RIGHT["handed-rows-by-rank"], "batch")],
    ),
    ids=lambda value: getattr(value, "name", value),
)
def test_right_code_of_the_same_form_passes(specimen, check):
    result = result_of(check, subject_of(specimen), Context())
    assert result.status is Status.PASSED, result.detail


@pytest.mark.parametrize("name", ["token", "block", "naive", "recursive_rejection"])
def test_the_random_numbers_of_our_rules_are_disjoint(name):
    verifier = verifiers.get(name)
    paths = 1 if verifiers.traits_of(verifier).single_path else 2
    subject = SamplerSubject(name, SamplerCode(as_sampler(verifier)), num_paths=paths)
    for calls in (1, 2):
        assert disjoint(subject, Context(), calls, SMALL).proven == list(SMALL)


def first_token_where_large(tokens, draft_probs, target_probs, generator):
    """Right below V = 2,000; above, never the upper half of the vocabulary after a rejection."""
    half = target_probs.shape[-1] // 2
    if target_probs.shape[-1] > 2000:
        target_probs = target_probs.copy()
        target_probs[..., half:] = 0
        target_probs[..., 0] += 1 - target_probs.sum(axis=-1)
    return as_sampler(verifiers.get("token"))(tokens, draft_probs, target_probs, generator)


@pytest.mark.usefixtures("few_equal_requests")
@pytest.mark.parametrize(("by_shapes", "status"), [("passed", Status.FAILED), ("failed", Status.PASSED)])
def test_a_wrong_distribution_is_not_called_shared_numbers_where_it_is_known(by_shapes, status, monkeypatch):
    monkeypatch.setattr("spec_oracle.audit.sampler.coins.DISJOINT_CALLS", 300)  # it shows in a few
    known = {"shapes": CheckResult("shapes", Status(by_shapes), "")}
    subject = SamplerSubject("wrong where large", SamplerCode(first_token_where_large))
    result = result_of("batch", subject, Context(budget=20.0, results=MappingProxyType(known)))
    assert result.status is status, result.detail


def test_coins_of_open_requests_are_fair():
    rng, rows = np.random.default_rng(0), 4000
    drafts, where = open_requests(Shape(34, 3, batch=rows), 1, rng)
    target = drafts.target_probs[np.arange(rows), 0, where]
    assert np.allclose(target.max(axis=1), 0.5)
    lower = target[:, :17].sum(axis=1)
    assert np.allclose(np.minimum(lower, 1 - lower), 0.25)
    assert stats.binomtest(int((where == 0).sum()), rows, 1 / 4 + 1 / 8).pvalue > NEVER
