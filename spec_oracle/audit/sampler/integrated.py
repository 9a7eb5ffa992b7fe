"""Evidence `replayed`: code that is handed its uniforms is integrated over them, not sampled.

    verify(draft_tokens, draft_probs, target_probs, uniforms [B, L+1]) -> (tokens, num_accepted)

`replayed_law` finds the regions of the cube of uniforms on which such code emits the same, for every draft of
an instance, and bounds the total variation that it may have missed. Where that bound leaves open whether a
measured gap is real, the instance in question is probed again, more densely.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import draft_table, sampled_drafts
from spec_oracle.audit.facts import Facts
from spec_oracle.audit.lengths import declared_length
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.results import CheckResult, Findings, NoEvidenceError, Status, never_happened, scope_of
from spec_oracle.contracts import SamplerCode
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.replay import replayed_law
from spec_oracle.statistics import split
from spec_oracle.toy import Instance
from verifiers import Drafts

SETTLED_TV = 1e-3
"""Total variation that must be excluded before replayed code may be called lossless."""

_PROBES = 50_000
_DENSER = 20
"""How many times as many probes a second look takes."""
_ROWS_PER_LAW = 100_000
"""About how many rows the law after one draft takes: probes, and the corners of boxes."""
_PILOTS = (16, 16, 128, 4096)
"""Rows of the calls that settle the pace: the first may compile, and code that is slow, or no faster with
more rows, is spared those that follow."""


@dataclass(frozen=True)
class IntegratedLaw:
    """The emission law on one instance, and the bound on its error in total variation."""

    law: EmissionLaw
    error_bound: float

    @property
    def total_variation(self) -> float:
        """Distance from the target, as integrated."""
        return float(self.law.total_variation)


def integrated_law(
    code: SamplerCode, instance: Instance, *, alpha: float, seed: int, probes: int = _PROBES
) -> IntegratedLaw:
    """Integrate the emission law over the uniforms, draft by draft; the bound holds at confidence 1 - alpha.

    Raises `ContractError` for what is no emission, `SubjectRaisedError` when the code raises.
    """
    floats = instance.floats
    vocab, length = floats.vocab_size, floats.draft_length
    table = draft_table(instance)
    masses = [np.zeros(vocab**n) for n in range(1, length + 2)]
    possible = np.flatnonzero(table.law.probability)
    bound = 0.0
    for row in possible:
        drafts = table.drafts(np.array([row]))

        def emit(uniforms: NDArray[np.float64], one: Drafts = drafts) -> NDArray[np.int64]:
            return code(repeated(one, len(uniforms)), uniforms).tokens

        found = replayed_law(
            emit, length + 1, num_probes=probes, alpha=split(alpha, len(possible)), seed=seed + int(row)
        )
        probability = float(table.law.probability[row])
        bound += probability * found.error_bound
        for label, mass in found.probabilities.items():
            emission = [token for token in label if token >= 0]
            index = np.ravel_multi_index(emission, (vocab,) * len(emission))
            masses[len(emission) - 1][index] += probability * mass
    return IntegratedLaw(EmissionLaw(floats, tuple(masses)), bound)


def repeated(drafts: Drafts, count: int) -> Drafts:
    """Return ``count`` copies of one request's drafts."""
    arrays = (drafts.tokens, drafts.draft_probs, drafts.target_probs)
    return Drafts(*(np.repeat(array, count, axis=0) for array in arrays))


def integrated(code: SamplerCode, facts: Facts, context: Context, alpha: float) -> Findings:
    """Integrate on every instance of the context and judge: lossy, lossless, or too close to tell.

    Raises `NoEvidenceError` when that would take more time than the context allows.
    """
    instances = context.toys(1)
    _require_affordable(code, instances, context)
    half = split(alpha, 2)
    rate = split(half, len(instances))
    laws = {
        name: integrated_law(code, instance, alpha=rate, seed=context.seed)
        for name, instance in instances.items()
    }
    worst = max(laws, key=lambda name: laws[name].total_variation)
    gap, bound = laws[worst].total_variation, laws[worst].error_bound
    if max(facts.tolerance, 2 * bound / _DENSER) < gap <= bound + facts.tolerance:
        # Half of the rate was kept for this one look, with probes enough to tell such a gap from none.
        laws[worst] = integrated_law(
            code, instances[worst], alpha=half, seed=context.seed + 1, probes=_DENSER * _PROBES
        )
    check = _joint(laws, facts.tolerance, alpha)
    exact = {name: found.law for name, found in laws.items()}
    bound = max(found.error_bound for found in laws.values())
    return Findings(
        check,
        Evidence.REPLAYED,
        exact,
        total_variation=max(found.total_variation for found in laws.values()),
        smallest_detectable_tv=bound,
        instances=instances,
        worst=worst if check.status is Status.FAILED else None,
        length=declared_length(exact, facts, bound + facts.tolerance),
        scope=(scope_of("integrated over its uniforms", instances.values()),),
    )


def _require_affordable(code: SamplerCode, instances: Mapping[str, Instance], context: Context) -> None:
    rng = np.random.default_rng(context.seed)
    first = next(iter(instances.values()))
    pace = 0.0
    for batch in _PILOTS:
        drafts, uniforms = sampled_drafts(first, batch, rng), rng.random((batch, first.draft_length + 1))
        started = time.perf_counter()
        code(drafts, uniforms)
        before, pace = pace, batch / (time.perf_counter() - started)
        if pace < (2 * before if batch > _PILOTS[0] else _PILOTS[0]) and before:
            break
    laws = sum(np.count_nonzero(draft_table(instance).law.probability) for instance in instances.values())
    seconds = laws * _ROWS_PER_LAW / pace
    if seconds > context.budget:
        raise NoEvidenceError(f"integration over its uniforms takes about {seconds:.0f} s, {pace:.0f} rows/s")


def _joint(laws: Mapping[str, IntegratedLaw], tolerance: float, alpha: float) -> CheckResult:
    worst = max(laws, key=lambda name: laws[name].total_variation - laws[name].error_bound)
    largest = laws[worst]
    if largest.total_variation - largest.error_bound > tolerance:
        return CheckResult("joint", Status.FAILED, f"{_size(largest)} on instance {worst!r}", alpha)
    name = max(laws, key=lambda name: laws[name].total_variation + laws[name].error_bound)
    open_ = laws[name]
    if open_.total_variation + open_.error_bound > SETTLED_TV:
        detail = f"{_size(open_)} on instance {name!r} leaves more than {SETTLED_TV} possible"
        return CheckResult("joint", Status.INCONCLUSIVE, detail, alpha)
    missing = never_happened(found.law.accepted_length_pmf for found in laws.values())
    if missing:
        return CheckResult("joint", Status.INCONCLUSIVE, missing, alpha)
    detail = f"{_size(open_)} on {len(laws)} instances, integrated over all uniforms"
    return CheckResult("joint", Status.PASSED, detail, alpha)


def _size(found: IntegratedLaw) -> str:
    return f"total variation {found.total_variation:.2g}, at most {found.error_bound:.2g} off"
