"""Samplers: the contract, proof by tracing, and samples where that is out of reach."""

import time

import numpy as np
import pytest

import verifiers
from lab.specimens.registry import specimens
from spec_oracle.audit import AuditOptions, Status, SubjectVerdict, audit
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import Calls, extended_cells, sampled_drafts
from spec_oracle.audit.experiment import FoundBy, TracedOutcome, find
from spec_oracle.audit.instances import panel
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.results import How, NoEvidenceError
from spec_oracle.audit.sampler.joint import LOOK_AT_BATCHES, RIGHT_ALONE, OneCall, effort_of_samples
from spec_oracle.audit.sampler.tracer import traced_law
from spec_oracle.contracts import SamplerCode, as_sampler
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.report.what_to_do import what_to_do
from spec_oracle.statistics import goodness_of_fit_by_g
from spec_oracle.toy import Instance
from tests.strategies import at_night
from tests.subjects import checks_of, only, sampler

SHORT = AuditOptions(draft_length=2, shrink=False, checks=())


def joint(found):
    return checks_of(found)["joint"]


def test_a_function_that_breaks_the_contract_is_broken_not_lossy():
    found = only(audit(lambda tokens, *_: (tokens, np.zeros(len(tokens), int)), options=SHORT))
    assert found.verdict is SubjectVerdict.BROKEN


def test_a_function_that_raises_is_broken_and_says_why():
    def broken(*_):
        raise RuntimeError("no kernel for this device")

    report = audit(broken, options=SHORT)
    assert report.exit_code == 3
    assert "RuntimeError: no kernel for this device" in joint(only(report)).detail


def test_a_function_without_bonus_tokens_is_told_that_its_adapter_may_sample_them():
    found = only(audit(specimens()["no-bonus"].function, options=SHORT))
    assert found.verdict is SubjectVerdict.INCONCLUSIVE
    assert "let the adapter sample it from target_probs[:, -1]" in what_to_do(found)


def test_a_verifier_as_sampler_has_its_own_law_by_tracing():
    instance = panel(3, 2, 1, 0)["peaked"]
    traced = traced_law(SamplerCode(as_sampler(verifiers.get("block"))), instance)
    enumerated = emission_law(verifiers.get("block"), instance)
    for mine, theirs in zip(traced.masses, enumerated.masses, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-14)


def test_code_that_compiles_for_every_size_is_sampled_often_enough():
    rule, compiled = as_sampler(verifiers.get("token")), set()

    def verify(tokens, draft_probs, target_probs, generator):
        if len(tokens) not in compiled:
            compiled.add(len(tokens))
            time.sleep(0.1)
        return rule(tokens, draft_probs, target_probs, generator)

    subject = sampler(verify)
    assert OneCall(subject, Context(rate=1e-7, budget=10.0)).sampled().status is Status.PASSED


def sorts_its_noise(draft_tokens, draft_probs, target_probs, generator):
    """A right token rule whose uniforms pass through a sort, which cannot be traced."""
    plain = as_sampler(verifiers.get("token"))
    np.sort(generator.random(4))
    return plain(draft_tokens, draft_probs, target_probs, generator)


def test_untraceable_code_is_sampled_and_the_report_says_so():
    found = only(audit(sorts_its_noise, options=AuditOptions(draft_length=1, vocab_size=2, checks=())))
    assert found.evidence is Evidence.STATISTICAL
    assert found.verdict is SubjectVerdict.LOSSLESS
    assert found.smallest_detectable_tv <= 0.02
    assert "sort" in found.remarks.notes[0]


def test_a_small_budget_is_inconclusive_not_lossless():
    found = only(audit(sorts_its_noise, options=AuditOptions(draft_length=2, budget=1e-6)))
    assert found.verdict is SubjectVerdict.INCONCLUSIVE
    assert "raise --budget" in joint(found).detail


def always_accepts(draft_tokens, draft_probs, target_probs, generator):
    np.sort(generator.random(2))
    bonus = np.array([generator.choice(len(rows[-1]), p=rows[-1]) for rows in target_probs])
    return np.concatenate([draft_tokens, bonus[:, None]], axis=1), np.full(*draft_tokens.shape)


def test_a_large_defect_stops_the_sampling_early(tmp_path):
    report = audit(always_accepts, options=AuditOptions(draft_length=2, counterexamples=tmp_path))
    found = only(report)
    assert found.verdict is SubjectVerdict.LOSSY
    assert found.evidence is Evidence.STATISTICAL
    assert found.total_variation > 0.05
    assert found.counterexample.file is not None


@pytest.mark.usefixtures("full_effort")
def test_a_traced_law_that_samples_contradict_is_not_believed():
    instance = panel(3, 2, 1, 0)["flat"]
    code = SamplerCode(as_sampler(verifiers.get("token")))
    right = traced_law(code, instance)
    wrong = EmissionLaw(right.instance, tuple(mass[::-1].copy() for mass in right.masses))
    for law, said in ((right, "would detect a total variation of 0.0"), (wrong, "contradict")):
        claim = TracedOutcome(dict(enumerate(law.extended().reshape(-1).tolist())))
        flat = Calls(code, 0, "test").on("flat", instance, trace=lambda *_, claim=claim: claim, allowed=1.0)
        context, effort = Context(rate=1e-9, budget=600.0), effort_of_samples()
        found = find([flat], context, effort, ways=FoundBy.TRACED)
        assert said in " ".join((*found.remarks.scope, found.detail))


def test_extended_texts_follow_the_target():
    # One G test at 1e-9 with a fixed seed; finds a total variation of 0.02 but for a chance of 1e-3.
    instance = Instance.random(3, 2, seed=8).floats
    rng = np.random.default_rng(9)
    nothing = np.full((200_000, 3), -1)
    cells = extended_cells(instance, nothing, np.zeros(len(nothing), int), rng)
    fit = goodness_of_fit_by_g(np.bincount(cells, minlength=27), instance.target.joint(3), alpha=1e-9)
    assert fit.passed
    assert fit.smallest_detectable_tv < 0.02


def test_sampled_drafts_follow_the_draft():
    # As above.
    instance = Instance.random(3, 2, seed=10).floats
    tokens = sampled_drafts(instance, 200_000, np.random.default_rng(11)).tokens[:, 0]
    fit = goodness_of_fit_by_g(np.bincount(tokens @ [3, 1], minlength=9), instance.draft.joint(2), alpha=1e-9)
    assert fit.passed
    assert fit.smallest_detectable_tv < 0.02


def test_samplers_are_reproducible():
    instance = panel(3, 2, 1, 0)["flat"]
    code = SamplerCode(as_sampler(verifiers.get("token")))
    samples = [Calls(code, 3, "a name").completions(instance.floats, 500) for _ in range(2)]
    assert samples[0].tolist() == samples[1].tolist()


def test_the_subjects_stream_is_not_the_one_its_drafts_come_from():
    # The token rule reads its uniforms from the generator first thing: one stream for both would couple them.
    found = only(audit(as_sampler(verifiers.get("token")), options=SHORT))
    assert joint(found).status is Status.PASSED


def test_samples_alone_judge_given_instances_too():
    options = AuditOptions(instances={"mine": panel(3, 1, 1, 0)["flat"]}, checks=())
    found = only(audit(sorts_its_noise, options=options))
    assert (found.verdict, found.evidence) == (SubjectVerdict.LOSSLESS, Evidence.STATISTICAL)


class Kept:
    """A method that was kept: no function can stand before it."""

    random = np.random.default_rng(5).random


PRIVATE = Kept()


def private_beside_zeros(draft_tokens, draft_probs, target_probs, generator):
    """Right, but where a row has zeros the numbers come from a generator that nobody sees."""
    hidden = PRIVATE if (target_probs == 0).any() else generator
    return as_sampler(verifiers.get("token"))(draft_tokens, draft_probs, target_probs, hidden)


def test_a_generator_out_of_sight_is_no_false_counterexample():
    found = only(audit(private_beside_zeros, options=AuditOptions(draft_length=2, checks=())))
    assert (found.verdict, found.evidence) == (SubjectVerdict.LOSSLESS, Evidence.STATISTICAL)
    assert "uninstrumented samples contradict" in found.remarks.notes[0]
    assert found.counterexample is None


def test_the_first_instance_is_not_traced_for_longer_than_the_budget(monkeypatch):
    """A correction by rejection has too many outcomes; it shows only when the time is over."""
    ends, token = [], as_sampler(verifiers.get("token"))

    def too_many(case, subject, context, known, end):
        ends.append(end)
        raise NoEvidenceError("not all outcomes could be run in time")

    monkeypatch.setattr("spec_oracle.audit.sampler.joint.law_after_all", too_many)
    found = OneCall(sampler(token), Context(seed=0, budget=1.0)).found(FoundBy.BOTH)
    assert found.how is How.SAMPLED
    assert len(ends) == 1
    assert ends[0] < time.process_time() + 1.0


def rounds_to_float32(draft_tokens, draft_probs, target_probs, generator):
    narrow = (rows.astype(np.float32) for rows in (draft_probs, target_probs))
    return as_sampler(verifiers.get("token"))(draft_tokens, *narrow, generator)


def test_rounding_to_float32_is_reported_and_not_lossy():
    thirds = Instance.context_free([1 / 3, 2 / 3], [0.7, 0.3], draft_length=2)
    found = only(audit(rounds_to_float32, options=AuditOptions(instances={"thirds": thirds}, checks=())))
    assert found.verdict is SubjectVerdict.LOSSLESS
    assert 1e-9 < found.total_variation < 1e-6
    assert "float32 rounding" in joint(found).detail


def test_a_reproduction_line_has_the_options_that_matter(tmp_path):
    options = AuditOptions(draft_length=2, counterexamples=tmp_path, seed=3, budget=7.0, checks=())
    shown = only(audit(specimens()["always-accept"].function, options=options)).counterexample
    assert shown.reproduce.endswith(f"--instance {shown.file} --draft-length 2 --seed 3 --budget 7.0")


TOKEN_RULE = specimens()["token-rule"].function


def keyword_only(draft_tokens, draft_probs, target_probs, *, generator):
    return TOKEN_RULE(draft_tokens, draft_probs, target_probs, generator)


class KeywordOnly:
    def verify(self, draft_tokens, draft_probs, target_probs, *, generator):
        return keyword_only(draft_tokens, draft_probs, target_probs, generator=generator)


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize("thing", [keyword_only, *at_night(KeywordOnly)])
def test_a_generator_may_be_keyword_only(thing):
    found = only(audit(thing, options=SHORT))
    assert (found.verdict, found.evidence) == (SubjectVerdict.LOSSLESS, Evidence.EXACT)


def right_alone(draft_tokens, draft_probs, target_probs, generator):
    """Accept all drafts of a call of several requests; a call of one, which is what is traced, is right."""
    draft_probs = target_probs[:, :-1] if len(draft_tokens) > 1 else draft_probs
    return TOKEN_RULE(draft_tokens, draft_probs, target_probs, generator)


def test_figures_come_from_samples_where_they_contradict_the_trace():
    options = AuditOptions(draft_length=2, checks=("joint",), shrink=False, budget=20.0)
    (found,) = audit(sampler(right_alone), options=options).subjects
    assert (found.verdict, found.evidence) == (SubjectVerdict.LOSSY, Evidence.STATISTICAL)
    assert "contradict the traced distribution" in found.remarks.notes[0]
    assert found.figures


def one_race(draft_tokens, draft_probs, target_probs, generator):
    """Take the noise of all corrections of a call from one row: each request alone is right."""
    (batch, length, vocab), request = draft_probs.shape, np.arange(len(draft_tokens))
    uniform, noise = generator.random((batch, length)), generator.standard_exponential((1, vocab))
    drafted = request[:, None], np.arange(length), draft_tokens
    accepts = (uniform * draft_probs[drafted] < target_probs[drafted]).cumprod(axis=1)
    accepted, ends = accepts.sum(axis=1), np.zeros((batch, 1, vocab))
    rows = np.maximum(target_probs - np.concatenate([draft_probs, ends], axis=1), 0)
    out = np.full((batch, length + 1), -1)
    out[:, :length] = np.where(accepts, draft_tokens, -1)
    out[request, accepted] = (rows[request, accepted] / noise).argmax(axis=1)
    return out, accepted


@pytest.mark.parametrize("code", [one_race, right_alone])
def test_what_is_wrong_of_many_requests_only_is_looked_for_there(code):
    """The distribution of one request is right: nothing is wrong with how it accepts or corrects."""
    options = AuditOptions(draft_length=2, checks=("joint",), shrink=False)
    (found,) = audit(sampler(code), options=options).subjects
    assert found.verdict is SubjectVerdict.LOSSY
    assert found.remarks.notes[-1] == RIGHT_ALONE
    assert what_to_do(found) == LOOK_AT_BATCHES


def test_what_is_wrong_of_one_request_is_looked_for_in_it():
    found = only(audit(specimens()["always-accept"].function, options=SHORT))
    assert RIGHT_ALONE not in found.remarks.notes
    assert LOOK_AT_BATCHES not in what_to_do(found)
