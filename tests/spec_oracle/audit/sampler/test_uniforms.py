"""Samplers that take uniforms: traced where they can be, row by row beside a rule where they are slow."""

from functools import partial

import numpy as np
import pytest

import verifiers
from lab.specimens.foreign.uniforms import token_by_uniforms
from spec_oracle.audit import AuditOptions, Evidence, Status, SubjectVerdict, audit
from spec_oracle.audit.context import Context, Inputs
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import Findings, How, LawResult, NoEvidenceError
from spec_oracle.audit.sampler.paired_with_rule import beside_a_rule
from spec_oracle.audit.sampler.reference import RULES, decided, pair_by_uniforms
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import traced_law
from spec_oracle.audit.subjects import of_function
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import SamplerCode, drawing_uniforms
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from tests.strategies import at_night

INSTANCES = {name: panel(3, 1, 1, 0)[name] for name in ("good-draft", "reversed", "point-mass")}
LONGER = panel(3, 2, 1, 0)["good-draft"]
OPTIONS = AuditOptions(instances=INSTANCES, shrink=False)
NO_TIME = 1e-3  # seconds: some rows can be compared


def token_kernel(draft_tokens, draft_probs, target_probs, uniforms):
    return token_by_uniforms(draft_tokens, draft_probs, target_probs, uniforms)


def shifted_token_kernel(draft_tokens, draft_probs, target_probs, uniforms):
    """Accept a little too often: every threshold is 5e-4 too high."""
    return token_by_uniforms(draft_tokens, draft_probs, target_probs, uniforms, shift=5e-4)


def other_way_round(draft_tokens, draft_probs, target_probs, uniforms):
    """Decide by 1 - u: lossless, but another convention."""
    return decided("token", draft_tokens, draft_probs, target_probs, 1 - uniforms)


def raising(draft_tokens, draft_probs, target_probs, uniforms):
    raise RuntimeError("no")


def out_of_range(draft_tokens, draft_probs, target_probs, uniforms):
    tokens, accepted = decided("token", draft_tokens, draft_probs, target_probs, uniforms)
    return np.where(tokens == 2, 3, tokens), accepted


def within(budget, instances=INSTANCES):
    """Return where a law is found within ``budget`` seconds."""
    return Context(rate=3e-7, budget=budget, inputs=Inputs(instances=instances))


def slow(function, budget=NO_TIME, rule=None):
    """Judge code that is too slow to be traced."""
    facts = Facts(rule_at=None if rule is None else lambda _: rule)
    return beside_a_rule(SamplerSubject.of_uniforms("mine", function, facts), within(budget))


@pytest.mark.parametrize("rule", RULES)
def test_uniforms_give_the_law_of_the_built_in_rule(rule):
    found = traced_law(SamplerCode(drawing_uniforms(partial(decided, rule))), LONGER)
    for mine, theirs in zip(found.masses, emission_law(verifiers.get(rule), LONGER).masses, strict=True):
        assert np.allclose(mine, theirs, atol=1e-12)


@pytest.mark.parametrize("function", [token_kernel, other_way_round])
def test_a_right_kernel_is_lossless_whatever_its_convention(function):
    (report,) = audit(function, options=OPTIONS).subjects
    assert (report.verdict, report.evidence) == (SubjectVerdict.LOSSLESS, Evidence.EXACT)
    assert report.total_variation < 1e-6  # one of them computes in float32


def test_thresholds_off_by_half_a_thousandth_are_found():
    (report,) = audit(shifted_token_kernel, options=OPTIONS).subjects
    assert (report.verdict, report.evidence) == (SubjectVerdict.LOSSY, Evidence.EXACT)
    assert 1e-4 < report.total_variation < 1e-3
    gap = report.counterexample.gap
    assert abs(float(gap.expected) - gap.actual) > 1e-5


def reading_memory(draft_tokens, draft_probs, target_probs, uniforms):
    """Read the numbers as C does, so that they cannot be traced."""
    numbers = np.frombuffer(uniforms, dtype=np.float64).reshape(uniforms.shape)
    return token_kernel(draft_tokens, draft_probs, target_probs, numbers)


def test_a_kernel_that_reads_memory_is_compared_with_a_rule():
    (report,) = audit(reading_memory, options=OPTIONS).subjects
    assert (report.verdict, report.evidence) == (SubjectVerdict.LOSSLESS, Evidence.REPLAYED)
    assert any("run beside a rule or sampled instead" in note for note in report.remarks.notes)


def test_a_slow_kernel_is_compared_by_same_uniforms():
    found = slow(token_kernel, 60.0)
    assert found.status is found.findings.length.status is Status.PASSED
    assert found.findings.smallest_detectable_tv < 0.02


class Remembering:
    """The token rule; from its 60th call on, a call also decides by the uniforms of the call before."""

    def __init__(self):
        self.calls, self.last = 0, np.empty((0, 2))

    def __call__(self, draft_tokens, draft_probs, target_probs, uniforms):
        self.calls += 1
        taken = uniforms.copy()
        if self.calls >= 60 and taken.shape[1] == self.last.shape[1]:
            count = min(len(taken), len(self.last))
            taken[:count] = self.last[:count]
        self.last = uniforms
        return decided("token", draft_tokens, draft_probs, target_probs, taken)


def sharing(draft_tokens, draft_probs, target_probs, uniforms):
    """The token rule; requests beyond the 127th decide by the uniforms of the first ones."""
    return decided("token", draft_tokens, draft_probs, target_probs, uniforms[np.arange(len(uniforms)) % 128])


def after_joint(check, function):
    """Return the result of a check of code whose rows are those of the token rule, as `joint` has found."""
    findings = Findings(pair=pair_by_uniforms(SamplerCode(function), "token"))
    joint = LawResult("joint", Status.PASSED, "", findings=findings)
    context = Context(rate=1e-6, budget=60.0, inputs=Inputs(instances=INSTANCES), results={"joint": joint})
    return result_of(check, SamplerSubject.of_uniforms("mine", function), context)


@pytest.mark.parametrize("check", ["calls", "batch", "streams"])
def test_code_that_emits_as_a_rule_is_compared_with_it(check):
    result = after_joint(check, token_kernel)
    assert result.status is Status.PASSED
    assert result.measured.draws < 4000
    assert "as a rule's" in result.detail or "on the same seed" in result.detail
    assert result.word in (How.REPLAYED, How.SAMPLED)


@pytest.mark.usefixtures("full_effort")
@pytest.mark.parametrize(("check", "function"), [("calls", Remembering()), *at_night(("batch", sharing))])
def test_code_that_does_so_alone_is_judged_by_samples(check, function):
    result = after_joint(check, function)
    assert result.status is Status.FAILED
    assert "rule" not in result.detail


@pytest.mark.parametrize(("rule", "why"), [(None, "in another way than the"), ("token", "rows differ from")])
def test_a_slow_kernel_that_uses_its_uniforms_otherwise_is_sampled(rule, why):
    with pytest.raises(NoEvidenceError, match=why):
        slow(other_way_round, 0.5, rule=rule)


def test_a_little_time_is_inconclusive():
    joint = slow(token_kernel)
    assert joint.status is Status.INCONCLUSIVE
    assert "raise --budget" in joint.detail


@pytest.mark.parametrize("budget", [NO_TIME, 60.0])
@pytest.mark.parametrize("function", [raising, out_of_range])
def test_functions_that_are_no_verifiers_are_broken(function, budget):
    options = AuditOptions(instances=INSTANCES, shrink=False, budget=budget, checks=())
    assert audit(function, options=options).subjects[0].verdict is SubjectVerdict.BROKEN


def test_the_contract_is_the_name_of_the_fourth_parameter():
    for function, takes_uniforms in (
        (token_kernel, True),
        (drawing_uniforms(token_kernel), False),
        (print, False),
    ):
        subject = of_function("mine", function, array="numpy", num_paths=None)
        assert isinstance(subject.randomness, SamplerCode) == takes_uniforms
    tokens, accepted = drawing_uniforms(token_kernel)(
        np.array([[0, 1]]), np.full((1, 2, 2), 0.5), np.full((1, 3, 2), 0.5), np.random.default_rng(0)
    )
    assert (tokens.shape, accepted.tolist()) == ((1, 3), [2])


def test_uniforms_are_for_one_path():
    with pytest.raises(InvalidInputError, match="one path"):
        audit(token_kernel, options=AuditOptions(num_paths=2))
