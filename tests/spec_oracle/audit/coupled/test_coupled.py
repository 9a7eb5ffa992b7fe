"""Audits of rules for coupled drafts: right rules pass, each defect fails its check, promises are held."""

import re
from dataclasses import replace

import numpy as np
import pytest

import verifiers
from lab.kill_matrix.columns import columns_of
from lab.specimens.registry import specimens
from spec_oracle.audit import AuditOptions, Status, SubjectVerdict, audit
from spec_oracle.audit.context import Context
from spec_oracle.audit.coupled.reference import by_races, compared
from spec_oracle.audit.coupled.subject import CoupledCode, names, requests
from spec_oracle.audit.panel import panel
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.results import How
from spec_oracle.audit.subjects import of_object
from spec_oracle.audit.table import CHECKS
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.coupling import coupled_emission_law
from spec_oracle.statistics import DEFAULT_ALPHA
from spec_oracle.toy import Instance
from verifiers import Verdict
from verifiers.rules.list_coupling import LIST_COUPLING, STRONG_LIST_COUPLING, race

ONLY_JOINT = AuditOptions(checks=())
COUPLED = {name: found for name, found in specimens(num_paths=2).items() if found.kind == "coupled"}
FAULTY = [(found, check) for found in COUPLED.values() for check in found.detected_by]
CONTROLS = [found for found in COUPLED.values() if found.is_control]
TWO = {name: panel(3, 3, 2, 0)[name] for name in ("flat", "good-draft")}
"""Fewer instances than an audit has, for rules that are sampled."""


def only(report):
    (subject,) = report.subjects
    return subject


def status_of(found, check):
    return next(one for one in found.checks if one.name == check)


@pytest.mark.parametrize("name", names())
def test_every_coupled_rule_is_lossless(name):
    report = audit(name)
    found = only(report)
    assert (found.kind, found.verdict, found.evidence) == (
        "coupled",
        SubjectVerdict.LOSSLESS,
        Evidence.REPLAYED,
    )
    assert report.exit_code == 0
    assert found.rule == name
    assert found.total_variation < 1e-12
    assert found.smallest_detectable_tv < 5e-4
    assert 0 < found.headroom < 0.5
    assert status_of(found, "invariance").how is How.REPLAYED


def test_figures_are_those_of_the_exact_distribution():
    toy = Instance.random(3, 2, num_paths=2, seed=4).rounded(8)
    options = replace(ONLY_JOINT, instances={"mine": toy}, exact=True)
    for name, all_race in zip(names(), (False, True), strict=True):
        (figures,) = only(audit(name, options=options)).figures
        law = coupled_emission_law(toy, all_race=all_race)
        assert figures.block_efficiency == float(law.block_efficiency)
        assert figures.accepted_length == tuple(map(float, law.accepted_length_pmf))


@pytest.mark.usefixtures("less_effort")
def test_one_path_is_gumbel_coupling_whichever_paths_race():
    found = only(audit("coupled/strong_list", options=replace(ONLY_JOINT, num_paths=1)))
    assert (found.verdict, found.rule) == (SubjectVerdict.LOSSLESS, "coupled/list")


@pytest.mark.parametrize(("found", "check"), FAULTY, ids=[f"{f.name}-{check}" for f, check in FAULTY])
def test_a_defect_fails_its_check(found, check):
    """All other checks of the specimens are run at night, in the kill matrix."""
    columns = columns_of(found, DEFAULT_ALPHA, 0)
    if check == "scale":  # the full vocabulary is tried beside the rule that `joint` finds
        assert columns["joint"]().status is Status.PASSED
    assert columns[check]().status is Status.FAILED


@pytest.mark.parametrize(
    ("name", "verdict", "exit_code"),
    [
        ("coupled-token-corrects-by-draft-noise", SubjectVerdict.LOSSY, 1),
        ("coupled-strong-active-race", SubjectVerdict.LOSSLESS, 2),
    ],
)
def test_a_broken_promise_is_not_lossy_but_no_pass(name, verdict, exit_code):
    report = audit(COUPLED[name].coupled, options=AuditOptions(checks=("invariance",), shrink=False))
    assert (only(report).verdict, report.exit_code) == (verdict, exit_code)


def test_every_check_that_is_asked_of_coupled_rules_has_one_to_kill():
    asked = {name for name, check in CHECKS.items() if callable(check.coupled)}
    assert asked == {check for _, check in FAULTY}


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize("found", CONTROLS, ids=lambda found: found.name)
def test_a_control_passes_every_check(found):
    results = only(audit(found.coupled, options=AuditOptions(instances=TWO, shrink=False))).checks
    assert not [one for one in results if one.status in (Status.FAILED, Status.INCONCLUSIVE)]


def test_a_rule_that_is_not_list_coupling_is_sampled_and_says_so():
    """Two G tests and an e-process: false-alarm rate 2e-7."""
    options = replace(ONLY_JOINT, instances=TWO)
    found = only(audit(COUPLED["coupled-token-by-other-noise"].coupled, options=options))
    assert (found.verdict, found.evidence, found.rule) == (
        SubjectVerdict.LOSSLESS,
        Evidence.STATISTICAL,
        None,
    )
    assert found.smallest_detectable_tv <= 0.02
    assert any("not list coupling, so it was sampled" in note for note in found.notes)


class InFloat32:
    """List coupling whose races are computed in float32."""

    invariance = "weak"

    def verify(self, drafts, uniforms):
        small = np.maximum(uniforms.astype(np.float32), np.float32(1e-30))
        single = replace(drafts, target_probs=drafts.target_probs.astype(np.float32))
        noise = -np.log(np.minimum(small, np.float32(1 - 2**-24)))
        return LIST_COUPLING.verify(single, np.exp(-noise.astype(np.float64)))


def test_rounding_to_float32_is_no_other_rule():
    found = only(audit(InFloat32(), options=ONLY_JOINT))
    assert (found.verdict, found.rule) == (SubjectVerdict.LOSSLESS, "coupled/list")


@pytest.mark.parametrize("rule", [LIST_COUPLING, STRONG_LIST_COUPLING])
@pytest.mark.parametrize("paths", [1, 3])
def test_the_reference_decides_as_the_rules_do(rule, paths):
    toy = Instance.random(4, 3, num_paths=paths, kind="sparse", seed=paths)
    call = requests(toy, 2000, np.random.default_rng(1))
    expected, is_near = by_races(call, all_race=rule.all_race)
    assert (rule.verify(*call).emitted == expected.tokens)[~is_near].all()
    assert is_near.mean() < 1e-2


def test_a_race_is_near_where_rounding_may_decide_it():
    """The arrival times are those of tokens 0 and 1, as level as asked."""
    toy = Instance.context_free(["1/2", "1/2"], ["1/2", "1/2"], draft_length=1)
    drafts, uniforms = requests(toy, 3, np.random.default_rng(2))
    uniforms[:, 0, 0] = np.exp([[-1, -1 - 1e-7], [-1, -1 - 1e-3], [-2, -1]])
    uniforms[:, 0, 1] = np.exp([[-1, -2]] * 3)
    assert by_races((drafts, uniforms), all_race=False)[1].tolist() == [True, False, False]


class Other:
    """Emits the token after that of list coupling in one request of a hundred."""

    def verify(self, drafts, uniforms):
        found = LIST_COUPLING.verify(drafts, uniforms)
        is_other = uniforms[:, 0, 0, 0] < 0.01
        return replace(found, next_token=(found.next_token + is_other) % drafts.vocab_size)


def test_requests_that_differ_are_counted():
    toy = Instance.random(3, 2, num_paths=2, seed=1)
    found = compared(CoupledCode(Other()), "coupled/list", requests(toy, 4000, np.random.default_rng(3)))
    assert "of 4,000 requests" in found.apart
    same = compared(CoupledCode(LIST_COUPLING), "coupled/list", requests(toy, 4000, np.random.default_rng(3)))
    assert (same.requests, same.near, same.apart) == (4000, 0, "")
    assert same.share == pytest.approx(1 - 0.001 ** (1 / 4000))


class Promising:
    """Samples the target by noise of the first path; what it declares is given."""

    def __init__(self, invariance=None, **declared):
        if invariance is not None:
            self.invariance = invariance
        vars(self).update(declared)

    def verify(self, drafts, uniforms):
        token = race(drafts.target_probs[:, 0, 0], uniforms[:, 0, 0])
        return Verdict(0 * token, 0 * token, token, drafts.tokens)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (Promising(), "^invariance: .* needs an attribute invariance.*: none, weak, strong; got no such"),
        (Promising("feeble"), "^invariance: .*got 'feeble'"),
        (Promising("weak", rule="list"), "^rule: .*unknown coupled rule 'list'.*coupled/list"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(rule, says):
    with pytest.raises(InvalidInputError, match=says):
        audit(rule)


def test_what_is_a_coupled_rule():
    """By the second parameter of two, or by its promise; samplers take uniforms as fourth parameter."""

    class OfNoise:
        invariance = "strong"

        def verify(self, drafts, noise):
            return STRONG_LIST_COUPLING.verify(drafts, noise)

    class Sampler:
        def verify(self, draft_tokens, draft_probs, target_probs, uniforms):
            raise NotImplementedError

    assert of_object("mine", OfNoise()).kind == "coupled"
    assert of_object("mine", OfNoise).kind == "coupled"
    assert of_object("mine", Promising("none")).kind == "coupled"
    assert of_object("mine", Sampler()).kind == "sampler"
    assert of_object("mine", verifiers.get("token")).kind == "verifier"


def test_no_promise_is_not_asked_about():
    found = CHECKS["invariance"].outcome(of_object("mine", Promising("none")), Context())
    assert (found.status, found.detail) == (
        Status.NOT_APPLICABLE,
        "it promises none: invariance = 'none'",
    )


class ReturnsNothing(Promising):
    def verify(self, drafts, uniforms):
        del drafts, uniforms


class OneTokenForAll(Promising):
    def verify(self, drafts, uniforms):
        return replace(super().verify(drafts, uniforms), next_token=np.array([0]))


class OutOfRange(Promising):
    def verify(self, drafts, uniforms):
        found = super().verify(drafts, uniforms)
        return replace(found, next_token=found.next_token + drafts.vocab_size)


class Raises(Promising):
    def verify(self, drafts, uniforms):
        raise KeyError("noise")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (ReturnsNothing, "verify returned NoneType, without num_accepted; it must return a Verdict"),
        (OneTokenForAll, "next_token: expected shape"),
        (OutOfRange, "next_token: .* expected 0..2"),
        (Raises, "it is called as verify\\(drafts, uniforms \\[B, K, L\\+1, V\\]\\)"),
    ],
)
def test_a_rule_that_returns_no_verdict_is_broken(rule, says):
    report = audit(rule("weak"), options=ONLY_JOINT)
    assert (only(report).verdict, report.exit_code) == (SubjectVerdict.BROKEN, 3)
    (joint,) = (one for one in only(report).checks if one.name == "joint")
    assert joint.status is Status.FAILED
    assert re.search(says, joint.detail)


def test_torch_rules_are_given_tensors():
    torch = pytest.importorskip("torch")
    seen = []

    class OfTensors:
        invariance = "weak"

        def verify(self, drafts, uniforms):
            seen.append((type(drafts.tokens), type(uniforms)))
            return LIST_COUPLING.verify(drafts, uniforms)

    options = AuditOptions(checks=("shapes", "inputs-kept", "invariance"), array="torch")
    found = only(audit(OfTensors(), options=options))
    assert (found.verdict, found.rule) == (SubjectVerdict.LOSSLESS, "coupled/list")
    assert {*seen} == {(torch.Tensor, torch.Tensor)}
    assert status_of(found, "shapes").status is Status.PASSED


def test_names_of_coupled_rules_begin_with_coupled():
    with pytest.raises(InvalidInputError, match="coupled/list"):
        audit("coupled/lists")
