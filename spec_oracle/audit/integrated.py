"""Evidence `replayed`: code that is handed its uniforms is integrated over them, not sampled.

    verify(draft_tokens, draft_probs, target_probs, uniforms [B, L+1]) -> (tokens, num_accepted)

`replayed_law` finds the regions of the cube of uniforms on which such code emits the same, for every draft of
an instance, and bounds the total variation that it may have missed. Where that bound leaves open whether a
measured gap is real, the instance in question is probed again, more densely.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.coins import Array
from spec_oracle.audit.draws import draft_table, sampled_drafts
from spec_oracle.audit.plain import (
    ContractError,
    Emissions,
    SubjectRaisedError,
    emissions_of,
    plain_arguments,
    to_library,
)
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.uniforms import PlainFunction
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.replay import replayed_law
from spec_oracle.toy import Instance
from verifiers import Drafts

SETTLED_TV = 1e-3
"""Total variation that must be excluded before replayed code may be called lossless."""

_PROBES = 50_000
_DENSER = 20
"""How many times as many probes a second look takes."""
_ROWS_PER_LAW = 100_000
"""About how many rows the law after one draft takes: probes, and the corners of boxes."""
_PILOT = 16


@dataclass(frozen=True)
class Injected:
    """Code under test that takes its uniforms: ``function`` on arrays of the library ``array``."""

    function: PlainFunction
    array: str = "numpy"

    def __call__(self, drafts: Drafts, uniforms: Array) -> Emissions:
        """Verify drafts of one path with ``uniforms`` [B, L+1]; errors as `call_plain`."""
        given = (*plain_arguments(drafts), uniforms)
        tokens, draft, target, last = (to_library(np.ascontiguousarray(a), self.array) for a in given)
        return emissions_of(partial(self.function, tokens, draft, target, last), drafts)


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
    subject: Injected, instance: Instance, *, alpha: float, seed: int, probes: int = _PROBES
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
            return subject(repeated(one, len(uniforms)), uniforms).tokens

        found = replayed_law(
            emit, length + 1, num_probes=probes, alpha=alpha / len(possible), seed=seed + int(row)
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


@dataclass(frozen=True)
class IntegratedFindings:
    """A joint check with the laws behind it."""

    check: CheckResult
    laws: Mapping[str, IntegratedLaw]

    @property
    def total_variation(self) -> float:
        """The largest as integrated."""
        return max((found.total_variation for found in self.laws.values()), default=0.0)

    @property
    def error_bound(self) -> float:
        """The largest over the instances."""
        return max((found.error_bound for found in self.laws.values()), default=1.0)


def affordable(subject: Injected, instances: Mapping[str, Instance], *, budget: float, seed: int) -> str:
    """Return why integration over all instances takes more than ``budget`` seconds; "" when it does not.

    Raises what the subject raises.
    """
    rng = np.random.default_rng(seed)
    first = next(iter(instances.values()))
    pace = 0.0
    for batch in (_PILOT, 256 * _PILOT):  # the first call may compile; a slow subject is spared the second
        drafts, uniforms = sampled_drafts(first, batch, rng), rng.random((batch, first.draft_length + 1))
        started = time.perf_counter()
        subject(drafts, uniforms)
        pace = batch / (time.perf_counter() - started)
        if pace < _PILOT:
            break
    laws = sum(np.count_nonzero(draft_table(instance).law.probability) for instance in instances.values())
    seconds = laws * _ROWS_PER_LAW / pace
    return f"{pace:.0f} rows/s, integration takes about {seconds:.0f} s" if seconds > budget else ""


def integrated_findings(
    subject: Injected, instances: Mapping[str, Instance], *, alpha: float, tolerance: float, seed: int
) -> IntegratedFindings:
    """Integrate on every instance and judge: lossy, lossless, or too close to tell.

    ``tolerance`` is the total variation that the subject's arithmetic explains.
    """
    laws: dict[str, IntegratedLaw] = {}
    rate = alpha / 2 / len(instances)
    try:
        for name, instance in instances.items():
            laws[name] = integrated_law(subject, instance, alpha=rate, seed=seed)
        worst = max(laws, key=lambda name: laws[name].total_variation)
        gap, bound = laws[worst].total_variation, laws[worst].error_bound
        if max(tolerance, 2 * bound / _DENSER) < gap <= bound + tolerance:
            # Half of the rate was kept for this one look, with probes enough to tell such a gap from none.
            laws[worst] = integrated_law(
                subject, instances[worst], alpha=alpha / 2, seed=seed + 1, probes=_DENSER * _PROBES
            )
    except ContractError as error:
        return IntegratedFindings(CheckResult("joint", Status.FAILED, str(error), alpha), laws)
    except SubjectRaisedError as error:
        return IntegratedFindings(CheckResult("joint", Status.INCONCLUSIVE, str(error), alpha), laws)
    return IntegratedFindings(_judged(laws, tolerance, alpha), laws)


def _judged(laws: Mapping[str, IntegratedLaw], tolerance: float, alpha: float) -> CheckResult:
    worst = max(laws, key=lambda name: laws[name].total_variation - laws[name].error_bound)
    largest = laws[worst]
    if largest.total_variation - largest.error_bound > tolerance:
        return _check(Status.FAILED, f"{_size(largest)} on instance {worst!r}", largest, alpha)
    open_name = max(laws, key=lambda name: laws[name].total_variation + laws[name].error_bound)
    opened = laws[open_name]
    lengths = [found.law.accepted_length_pmf for found in laws.values()]
    if opened.total_variation + opened.error_bound > SETTLED_TV:
        what = f"{_size(opened)} on instance {open_name!r} leaves more than {SETTLED_TV} possible"
        return _check(Status.INCONCLUSIVE, what, opened, alpha)
    if not any(pmf[-1] > 0 for pmf in lengths):
        return _check(Status.INCONCLUSIVE, "never accepted a whole draft, so no bonus token", opened, alpha)
    if not any(sum(pmf[:-1]) > 0 for pmf in lengths):
        return _check(Status.INCONCLUSIVE, "never rejected a draft", opened, alpha)
    what = f"{_size(opened)} on {len(laws)} instances, integrated over all uniforms"
    return _check(Status.PASSED, what, opened, alpha)


def _size(found: IntegratedLaw) -> str:
    return f"total variation {found.total_variation:.2g}, at most {found.error_bound:.2g} off"


def _check(status: Status, detail: str, found: IntegratedLaw, alpha: float) -> CheckResult:
    return CheckResult("joint", status, detail, alpha, total_variation=found.total_variation)
