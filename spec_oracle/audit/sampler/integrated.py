"""Samplers that take their uniforms as an argument are integrated over them, not sampled.

    verify(draft_tokens, draft_probs, target_probs, uniforms [B, L+1]) -> (tokens, num_accepted)

`replayed_law` finds the regions of the cube of uniforms on which such code emits the same, for every draft of
an instance, and bounds the total variation that it may have missed. Where that bound leaves open whether a
measured gap is real, the instance in question is probed again, more densely.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.exact_comparison import declared_length, never_happened, scope_of
from spec_oracle.audit.instances import instances_for
from spec_oracle.audit.results import (
    Findings,
    How,
    LawResult,
    NoEvidenceError,
    Status,
    check_result,
    with_findings,
)
from spec_oracle.contracts import SamplerCode
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.call import draft_table
from spec_oracle.exact.replay import replayed_law
from spec_oracle.statistics import split
from spec_oracle.toy import Instance
from verifiers import Paths

# TV that must be excluded before a sampler that was integrated over its uniforms may be called lossless.
INTEGRATED_TV: Final = 1e-3
# Random uniforms per draft by which the integration finds where the sampler's emission changes.
INTEGRATED_PROBES: Final = 50_000
INTEGRATED_DENSER: Final = 20  # How many times as many a second look takes.
# About how many rows the distribution after one draft takes: probes, and the corners of boxes.
INTEGRATED_ROWS: Final = 100_000
# Rows of the calls that measure the pace: the first may compile, and code that is slow, or no faster with
# more rows, is spared those that follow.
INTEGRATED_PILOTS: Final = (16, 16, 128, 4096)


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
    code: SamplerCode, instance: Instance, *, alpha: float, seed: int, probes: int = INTEGRATED_PROBES
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
        drafts = table.paths(np.array([row]))

        def emit(uniforms: NDArray[np.float64], one: Paths = drafts) -> NDArray[np.int64]:
            return code(one.take(np.zeros(len(uniforms), dtype=np.int64)), uniforms).tokens

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


def integrated(code: SamplerCode, facts: Facts, context: Context, rate: float) -> LawResult:
    """Integrate on every instance of the context and judge: lossy, lossless, or too close to tell.

    Raises `NoEvidenceError` when that would take more time than the context allows.
    """
    instances = instances_for(context, 1)
    _require_affordable(code, instances, context)
    half = split(rate, 2)
    each = split(half, len(instances))
    laws = {
        name: integrated_law(code, instance, alpha=each, seed=context.seed)
        for name, instance in instances.items()
    }
    worst = max(laws, key=lambda name: laws[name].total_variation)
    gap, bound = laws[worst].total_variation, laws[worst].error_bound
    if max(facts.tolerance, 2 * bound / INTEGRATED_DENSER) < gap <= bound + facts.tolerance:
        # Half of the rate was kept for this one look, with probes enough to tell such a gap from none.
        probes = INTEGRATED_DENSER * INTEGRATED_PROBES
        laws[worst] = integrated_law(code, instances[worst], alpha=half, seed=context.seed + 1, probes=probes)
    status, detail = _judged(laws, facts.tolerance)
    exact = {name: found.law for name, found in laws.items()}
    bound = max(found.error_bound for found in laws.values())
    scope = (scope_of("integrated over its uniforms", instances.values()),)
    findings = Findings(
        exact,
        total_variation=max(found.total_variation for found in laws.values()),
        smallest_detectable_tv=bound,
        instances=instances,
        worst=worst if status is Status.FAILED else None,
        length=declared_length(exact, facts, bound + facts.tolerance),
    )
    least = max(0.0, *(found.total_variation - found.error_bound for found in laws.values()))
    result = check_result(status, detail, how=How.REPLAYED, alpha=rate, total_variation=least, scope=scope)
    return with_findings(result, findings)


def _require_affordable(code: SamplerCode, instances: Mapping[str, Instance], context: Context) -> None:
    rng = context.stream("sampler/joint/pace of integration")
    first = next(iter(instances.values()))
    pace, least = 0.0, INTEGRATED_PILOTS[0]
    for batch in INTEGRATED_PILOTS:
        drafts, uniforms = sampled_drafts(first, batch, rng), rng.random((batch, first.draft_length + 1))
        started = time.perf_counter()
        code(drafts, uniforms)
        before, pace = pace, batch / (time.perf_counter() - started)
        if pace < (2 * before if batch > least else least) and before:
            break
    laws = sum(np.count_nonzero(draft_table(instance).law.probability) for instance in instances.values())
    seconds = laws * INTEGRATED_ROWS / pace
    if seconds > context.budget:
        takes = f"takes about {seconds:.0f} s ({pace:.0f} rows a second); raise --budget for it"
        raise NoEvidenceError(f"integration over its uniforms {takes}")


def _judged(laws: Mapping[str, IntegratedLaw], tolerance: float) -> tuple[Status, str]:
    worst = max(laws, key=lambda name: laws[name].total_variation - laws[name].error_bound)
    largest = laws[worst]
    if largest.total_variation - largest.error_bound > tolerance:
        return Status.FAILED, f"{_size(largest)} on instance {worst!r}"
    name = max(laws, key=lambda name: laws[name].total_variation + laws[name].error_bound)
    open_ = laws[name]
    if open_.total_variation + open_.error_bound > INTEGRATED_TV:
        detail = f"{_size(open_)} on instance {name!r}: more than {INTEGRATED_TV} is possible"
        return Status.INCONCLUSIVE, detail
    missing = never_happened(found.law.accepted_length_pmf for found in laws.values())
    if missing:
        return Status.INCONCLUSIVE, f"on these instances it {missing}"
    return Status.PASSED, f"{_size(open_)} on {len(laws)} toy instances, integrated over all uniforms"


def _size(found: IntegratedLaw) -> str:
    return f"total variation {found.total_variation:.2g} (error at most {found.error_bound:.2g})"
