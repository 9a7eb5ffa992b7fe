"""Checks of verifiers that can be enumerated: proof on every instance tried."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import verifiers
from spec_oracle.audit.bad_input import bad_input_of_function
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.panel import panel
from spec_oracle.audit.plain import ContractError, as_plain
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects import ROUNDING, Subject
from spec_oracle.exact import DecisionError, DecodedLaw, EmissionLaw, VerdictError, decoded_law, emission_law
from spec_oracle.exact.call import call_verifier, fresh_state
from spec_oracle.toy import Instance
from verifiers import AnyVerifier, Drafts, ModelBound, StatefulVerifier, drafting_of, replayed_decisions


@dataclass(frozen=True)
class Arithmetic:
    """Which arithmetic an exact check runs in."""

    exact: bool = False
    array: str = "numpy"
    rounding: float = ROUNDING

    @property
    def tolerance(self) -> float:
        """Largest total variation that still counts as none."""
        return 0.0 if self.exact else self.rounding


@dataclass(frozen=True)
class JointFindings:
    """Emission laws by instance; ``failure`` is set where the subject cannot be a verifier at all."""

    laws: Mapping[str, EmissionLaw]
    failure: str | None = None

    @property
    def total_variation(self) -> float:
        """The largest over the instances."""
        return max((float(law.total_variation) for law in self.laws.values()), default=0.0)


def joint_findings(
    law_of: Callable[[Instance], EmissionLaw], instances: Mapping[str, Instance]
) -> JointFindings:
    """Compute the emission law on every instance."""
    laws: dict[str, EmissionLaw] = {}
    for name, instance in instances.items():
        try:
            laws[name] = law_of(instance)
        except (DecisionError, VerdictError, ContractError) as error:
            return JointFindings(laws, f"{name}: {error}")
    return JointFindings(laws)


def joint(findings: JointFindings, arithmetic: Arithmetic, how: str = "enumerated") -> CheckResult:
    """Judge whether the extended law of one call is the target's, on every instance."""
    if findings.failure is not None:
        return CheckResult("joint", Status.FAILED, findings.failure)
    worst = findings.total_variation
    count = len(findings.laws)
    if worst > arithmetic.tolerance:
        name = max(findings.laws, key=lambda key: float(findings.laws[key].total_variation))
        return CheckResult("joint", Status.FAILED, f"total variation {worst:.3g} on instance {name!r}")
    lengths = [law.accepted_length_pmf for law in findings.laws.values()]
    if not any(pmf[-1] > 0 for pmf in lengths):
        return CheckResult("joint", Status.INCONCLUSIVE, "never accepted a whole draft, so no bonus token")
    if not any(sum(pmf[:-1]) > 0 for pmf in lengths):
        return CheckResult("joint", Status.INCONCLUSIVE, "never rejected a draft")
    size = "exactly 0" if arithmetic.exact else f"at most {worst:.1e}"
    return CheckResult("joint", Status.PASSED, f"total variation {size} on {count} instances, all {how}")


def length(findings: JointFindings, rule_at: Callable[[int], str], tolerance: float) -> CheckResult:
    """Judge whether the accepted length has the law of the rule that the subject declares."""
    gaps = {}
    for name, law in findings.laws.items():
        rule = rule_at(law.instance.draft_length)
        declared = emission_law(verifiers.get(rule), law.instance).accepted_length_pmf
        pairs = zip(law.accepted_length_pmf, declared, strict=True)
        gaps[name, rule] = sum(abs(mine - theirs) for mine, theirs in pairs) / 2
    (name, rule), gap = max(gaps.items(), key=lambda item: item[1])
    if gap > tolerance:
        detail = f"accepted length is not that of {rule!r}: total variation {gap:.3g} on instance {name!r}"
        return CheckResult("length", Status.FAILED, detail)
    return CheckResult("length", Status.PASSED, f"accepted length as declared, by the law of {rule!r}")


def calls(
    verifier: AnyVerifier, instance: Instance, arithmetic: Arithmetic
) -> tuple[CheckResult, DecodedLaw | None]:
    """Judge whether the text of several calls is the target's, carried state and a stop token included."""
    tokens = 2 * instance.draft_length + 1
    worst, law = 0.0, None
    for stop in (None, 0):
        try:
            text = decoded_law(
                verifier, instance, tokens, exact=arithmetic.exact, array=arithmetic.array, stop_token=stop
            )
        except (DecisionError, VerdictError) as error:
            return CheckResult("calls", Status.FAILED, str(error)), None
        if law is None or text.total_variation > worst:
            worst, law = text.total_variation, text
    if worst > arithmetic.tolerance:
        return CheckResult(
            "calls", Status.FAILED, f"total variation {float(worst):.3g} of {tokens} tokens"
        ), law
    how = "exactly 0" if arithmetic.exact else f"at most {float(worst):.1e}"
    return (
        CheckResult("calls", Status.PASSED, f"total variation of the first {tokens} tokens {how}"),
        law,
    )


def batch(verifier: AnyVerifier, instance: Instance, seed: int) -> CheckResult:
    """Judge whether requests get the same verdict alone and among others, given the same uniforms."""
    if isinstance(verifier, ModelBound):
        return CheckResult("batch", Status.NOT_RUN, "rule for toy models, never batched in service")
    drafts = sampled_drafts(instance, 64, np.random.default_rng(seed), drafting_of(verifier))
    uniforms = np.random.default_rng(seed).random((drafts.batch, 64))
    together = _verdicts(verifier, drafts, uniforms)
    for row in range(drafts.batch):
        alone = _verdicts(verifier, _rows(drafts, slice(row, row + 1)), uniforms[row : row + 1])
        if not np.array_equal(together[row : row + 1], alone):
            return CheckResult(
                "batch", Status.FAILED, f"request {row} of {drafts.batch} is decided otherwise alone"
            )
    return CheckResult("batch", Status.PASSED, f"{drafts.batch} requests decided alike alone and together")


def bad_input(verifier: AnyVerifier, seed: int) -> CheckResult:
    """Judge, on one path and by draws, what comes of extreme uniforms and of rows that are no law."""
    if isinstance(verifier, ModelBound | StatefulVerifier):
        return CheckResult("bad-input", Status.NOT_RUN, "for rules that see one call and its rows only")
    subject = Subject("", function=as_plain(verifier))
    return bad_input_of_function(subject, panel(3, 3, 1, seed)["zeros"], seed=seed)


def inputs_kept(verifier: AnyVerifier, instance: Instance, seed: int) -> CheckResult:
    """Judge whether the drafts are unchanged after the call."""
    if isinstance(verifier, ModelBound):
        return CheckResult("inputs-kept", Status.NOT_RUN, "rule for toy models, never batched in service")
    drafts = sampled_drafts(instance, 64, np.random.default_rng(seed), drafting_of(verifier))
    before = [array.copy() for array in (drafts.tokens, drafts.draft_probs, drafts.target_probs)]
    _verdicts(verifier, drafts, np.random.default_rng(seed).random((drafts.batch, 64)))
    after = (drafts.tokens, drafts.draft_probs, drafts.target_probs)
    for name, old, new in zip(("tokens", "draft_probs", "target_probs"), before, after, strict=True):
        if not np.array_equal(old, new):
            return CheckResult("inputs-kept", Status.FAILED, f"{name} changed during the call")
    return CheckResult("inputs-kept", Status.PASSED, "inputs unchanged")


def _rows(drafts: Drafts, rows: slice) -> Drafts:
    return Drafts(drafts.tokens[rows], drafts.draft_probs[rows], drafts.target_probs[rows])


def _verdicts(verifier: AnyVerifier, drafts: Drafts, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return (tau, path, next token) of every request, int [B, 3], decided by its row of ``uniforms``."""
    state = fresh_state(verifier, drafts.batch)
    verdict, _ = call_verifier(verifier, drafts, replayed_decisions(uniforms), state)
    return np.stack([verdict.num_accepted, verdict.path, verdict.next_token], axis=1)
