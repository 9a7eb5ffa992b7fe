"""Random numbers that requests share at sizes beyond toys: traced runs, and samples of equal requests."""

import numpy as np
import pytest

import verifiers
from lab.specimens.registry import specimens
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import Status
from spec_oracle.audit.sampler.disjoint import disjoint
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import SamplerCode, as_sampler
from tests.strategies import by_day

OURS = [s for s in specimens().values() if s.name.startswith(("handed-", "own-"))]
BY_DAY = (
    *("handed-eight-numbers-a-request", "own-offset-by-four-a-request", "own-pairs-beyond-four-drafts"),
    "handed-rows-of-sampled-requests",
)
"""One a form of sharing; "handed-pool-of-4096" is found in test_dependence.py."""

SMALL = (Shape(5, 4, batch=3), Shape(4, 9, batch=4), Shape(33, 2, batch=8))


def subject_of(specimen):
    return SamplerSubject(specimen.name, SamplerCode(specimen.function, specimen.array))


FAULTY = [s for s in OURS if not s.is_control]
RIGHT = {s.name: s for s in OURS if s.is_control}


@pytest.mark.usefixtures("few_equal_requests")
@pytest.mark.parametrize(
    "specimen", by_day(FAULTY, [s for s in FAULTY if s.name in BY_DAY]), ids=lambda s: s.name
)
def test_numbers_shared_beyond_toy_sizes_are_found(specimen):
    (check,) = specimen.detected_by
    result = result_of(check, subject_of(specimen), Context())
    assert result.status is Status.FAILED, result.detail


def test_two_requests_that_share_a_number_are_named_with_their_positions():
    """Request r begins at number 8 r: the tenth of one is the second of the next one."""
    subject = subject_of(specimens()["handed-eight-numbers-a-request"])
    (run,) = disjoint(subject, Context(), 1, [Shape(5, 9, batch=4)]).shared
    says = (
        "request 3, position 1 uses the random number of request 2, position 9 (V 5, L 9, 4 requests a call)"
    )
    assert run.fault(1e-8) == says


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


def accepts_all_of_seven(tokens, draft, target, generator):
    """The token rule, which accepts the first draft of every request of a batch of seven."""
    draft = draft.copy()
    if len(tokens) == 7:
        np.put_along_axis(draft[:, 0], tokens[:, :1], 1e-9, axis=-1)
    return as_sampler(verifiers.get("token"))(tokens, draft, target, generator)


@pytest.mark.usefixtures("few_equal_requests")
def test_code_that_is_off_at_one_batch_size_is_not_said_to_share_random_numbers():
    subject = SamplerSubject("mine", SamplerCode(accepts_all_of_seven))
    result = result_of("calls", subject, Context())
    assert result.status is Status.FAILED
    assert "same random numbers" not in result.detail
    assert "of 7 requests" in result.detail
