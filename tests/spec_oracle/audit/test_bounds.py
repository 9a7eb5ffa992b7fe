"""Rules that declare a bound on their distance from the target pass within it, and are lossy beyond it."""

import math
from dataclasses import dataclass, replace

import pytest

import verifiers
from lab.claims.published import Cactus, Typical
from spec_oracle.audit import AuditOptions, Status, audit
from spec_oracle.audit.declared import Bound, declared_bound, largest_divergence
from spec_oracle.audit.subjects import of_object
from spec_oracle.contracts import as_sampler
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from spec_oracle.report import AUDIT_FORMATS
from spec_oracle.toy import Instance

QUICK = AuditOptions(draft_length=2, checks=("joint", "calls", "inputs-kept", "scale"), budget=10.0)
STEP = Instance.context_free(["1/2", "1/2"], [1, 0], draft_length=1)


@dataclass(frozen=True)
class BoundedTypical(Typical):
    declared_bound: tuple[str, float] = ("total_variation", 0.95)


def tv(most):
    return BoundedTypical(declared_bound=("total_variation", most))


def sampler(most):
    """Return typical acceptance as a function of the sampler contract, with a bound."""
    function = as_sampler(Typical())

    def verify(*arguments):
        return function(*arguments)

    verify.declared_bound = ("total_variation", most)
    return verify


@pytest.mark.parametrize(
    ("subject", "code"),
    [(tv(0.95), 0), (tv(0.5), 1), (Cactus(), 1), (sampler(0.95), 0), (sampler(0.5), 1)],
    ids=["typical-within", "typical-beyond", "cactus", "sampler-within", "sampler-beyond"],
)
def test_a_rule_is_held_to_its_bound(subject, code):
    options = replace(QUICK, shrink=False)
    report = audit(subject, options=options)
    (found,) = report.subjects
    joint, text = found.checks[0], AUDIT_FORMATS["text"](report)
    assert (found.verdict, report.exit_code) == ("lossy" if code else "declared-lossy", code)
    assert (joint.name, joint.status) == ("joint", Status.FAILED if code else Status.PASSED)
    assert joint.detail.startswith("exceeds its bound: " if code else "within its bound: ")
    assert (found.counterexample is not None) == bool(code)
    assert ("not run, since joint failed" if code else "not run, since it declares itself lossy") in text


def test_the_counterexample_is_beyond_the_bound():
    (found,) = audit(Cactus(), options=replace(QUICK, checks=("joint",))).subjects
    law = emission_law(Cactus(), found.counterexample.instance)
    assert largest_divergence(law) > Cactus().budget


def test_divergences_by_hand():
    raised = 0.5 + math.sqrt(2 * 0.05 * 0.25)
    expected = raised * math.log(2 * raised) + (1 - raised) * math.log(2 * (1 - raised))
    assert largest_divergence(emission_law(Cactus(), STEP)) == pytest.approx(expected)
    assert largest_divergence(emission_law(verifiers.get("token"), STEP)) == pytest.approx(0, abs=1e-12)
    certain = Instance.context_free([0, "1/2", "1/2"], [0, 1, 0], draft_length=1)
    assert largest_divergence(emission_law(verifiers.get("block"), certain, exact=True)) == 0
    law = emission_law(verifiers.get("token"), Instance.context_free([0, 1], [0, 1], draft_length=1))
    other = replace(law, masses=tuple(mass[::-1] for mass in law.masses))
    assert largest_divergence(other) == math.inf


@pytest.mark.parametrize("declared", [("tv", 0.1), ("kl", -1), ("kl", math.nan), ("kl",), 0.1])
def test_a_declaration_is_checked(declared):
    with pytest.raises(InvalidInputError, match="declared_bound"):
        declared_bound(BoundedTypical(declared_bound=declared))


def test_without_a_declaration_there_is_no_bound():
    assert of_object("mine", Typical()).facts.bound is None
    assert declared_bound(Cactus()) == Bound("kl", 0.05)


def test_engines_declare_no_bound():
    class Engine:
        declared_bound = ("kl", 0.05)

        def next_token_probs(self, context):
            return [0.5, 0.5]

        def generate(self, prompt, max_new_tokens, seed=None):
            return [0] * max_new_tokens

    with pytest.raises(InvalidInputError, match="declared_bound"):
        audit(Engine(), options=QUICK)
