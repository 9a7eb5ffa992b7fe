"""A served model that is not the reference's is told from verification that is wrong.

A request for one token has nothing to speculate on: where its distribution is another one already, so is the
model, its prompt, or how it samples.
"""

import math
from functools import partial

import pytest

from spec_oracle.audit import AuditOptions, Status, SubjectVerdict
from spec_oracle.audit.context import Context
from spec_oracle.report import AUDIT_FORMATS
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import audit_server
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of
from tests.strategies import at_night
from tests.subjects import checks_of

NAMED = "the served model is not the reference's: requests for one token, on which nothing speculates, "
"""How the verdict goes on."""


class Quantised(StandIn):
    """Weights off by a factor of up to exp(+-size)."""

    def logits(self, context, body, model):
        found = super().logits(context, body, model)
        return [one + self.size * math.sin(7 * token + context[-1]) for token, one in enumerate(found)]


class Hotter(StandIn):
    """Samples at another temperature than it was asked for, and shows that."""

    def logits(self, context, body, model):
        return [one / (1 + self.size) for one in super().logits(context, body, model)]


def audited(server, reference, *, detect=0.1, skip=(), top_k=0):
    served, other = (server_of(one, top_k=top_k) for one in (server, reference))
    subject = ServerSubject("here", served, ServerPlan(detect=detect, assume_speculating=True), other)
    skipped = {*skip, "plain-law", "shapes", "length", "logprobs", "streams", "batch"}
    report = audit_server(subject, AuditOptions(budget=600.0, skip=dict.fromkeys(skipped, "")))
    return report, checks_of(report.subjects[0])


@pytest.mark.usefixtures("few_tokens")
@pytest.mark.parametrize(
    ("served", "size", "shape"),
    [
        (Quantised, 0.5, "llama.cpp"),
        *at_night((Hotter, 0.6, "openai"), (Quantised, 0.5, "openai"), (Hotter, 0.6, "llama.cpp")),
        *at_night((partial(StandIn, serves="draft"), 0.0, "llama.cpp")),
        *at_night((partial(StandIn, serves="draft"), 0.0, "openai")),
    ],
)
def test_another_model_is_named_and_verification_is_not_blamed(served, size, shape):
    """Completions follow the served model's own distributions."""
    served = served(size=size, shape=shape)
    report, checks = audited(served, StandIn(draft=False, shape=shape))
    assert checks["joint"].status is Status.PASSED, checks["joint"].detail
    assert checks["long-texts"].status is Status.PASSED, checks["long-texts"].detail
    assert checks["model"].status is Status.FAILED, checks["model"].detail
    (subject,) = report.subjects
    assert subject.verdict is SubjectVerdict.LOSSY
    assert report.exit_code == 1
    assert f"lossy, {NAMED}" in AUDIT_FORMATS["text"](report)
    assert "its completions follow its own distributions" in subject.remarks.proviso


def test_the_size_is_that_of_the_distributions():
    """Between both models after the same tokens; those of the drafter are known here."""
    _, checks = audited(
        StandIn(serves="draft", draft=False), StandIn(draft=False), skip=["joint", "long-texts"]
    )
    model, rows = StandIn(), []
    for last in range(1, 8):
        for one in range(8):
            laws = [model.law((one, last), {}, name) for name in ("target", "draft")]
            rows.append(sum(abs(a - b) for a, b in zip(*laws, strict=True)) / 2)
    assert min(rows) < checks["model"].measured.total_variation < max(rows)


@pytest.mark.parametrize("defect", ["always-accept", *at_night("corrects-from-p")])
def test_wrong_verification_is_not_taken_for_another_model(defect):
    report, checks = audited(StandIn(defect), StandIn(draft=False))
    assert checks["model"].status is Status.PASSED, checks["model"].detail
    assert checks["joint"].status is Status.FAILED
    assert report.subjects[0].remarks.proviso == ""


def test_both_may_be_wrong():
    report, checks = audited(Quantised("always-accept", size=0.5), StandIn(draft=False))
    assert checks["model"].status is checks["joint"].status is Status.FAILED
    assert report.subjects[0].remarks.proviso.endswith(
        "; its completions do not follow its own distributions either"
    )


def test_less_than_is_to_be_detected_is_no_other_model():
    _, checks = audited(Quantised(size=0.02), StandIn(draft=False), skip=["joint", "long-texts"])
    assert checks["model"].status is Status.PASSED
    assert "differ by 0.00" in checks["model"].detail


def test_noise_of_equal_requests_is_no_other_model():
    """Log-probabilities of equal requests differ by up to 0.2 nats."""
    noisy = StandIn("noisy-rows", size=0.1)
    _, checks = audited(noisy, StandIn(draft=False), detect=0.03, skip=["joint", "long-texts"])
    assert checks["model"].status is not Status.FAILED, checks["model"].detail


@pytest.mark.parametrize(
    ("served", "is_other"),
    [
        pytest.param(StandIn("always-accept", shape="silent"), False, id="wrong verification"),
        pytest.param(
            StandIn(shape="silent", serves="draft"), True, id="another model", marks=pytest.mark.nightly
        ),
    ],
)
def test_without_probabilities_samples_of_one_token_tell(served, is_other):
    report, checks = audited(served, StandIn(draft=False, shape="openai", entropy=3), detect=0.1)
    assert checks["joint"].status is Status.FAILED
    assert report.subjects[0].verdict is SubjectVerdict.LOSSY
    assert checks["model"].status is (Status.FAILED if is_other else Status.PASSED), checks["model"].detail
    assert (NAMED in AUDIT_FORMATS["text"](report)) == is_other


def test_without_a_reference_nothing_is_asked():
    server = server_of(StandIn(), prompts=["bc"])
    assert result_of("model", ServerSubject("here", server), Context()).status is Status.NOT_APPLICABLE
