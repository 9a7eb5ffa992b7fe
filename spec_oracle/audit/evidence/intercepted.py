"""Exact laws of plain functions, by interception of their randomness, each confirmed by plain draws."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.draws import Sample, Sampler, draft_table
from spec_oracle.audit.evidence.enumerated import judged
from spec_oracle.audit.evidence.findings import Findings, NoEvidenceError
from spec_oracle.audit.evidence.identified import identified
from spec_oracle.audit.facts import Facts
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.interception import NotTracedError
from spec_oracle.plain import PlainCode, SubjectRaisedError
from spec_oracle.plain.law import law_after
from spec_oracle.statistics import (
    EProcess,
    draws_needed_by_joint_e_process,
    goodness_of_fit_by_e_process,
)
from spec_oracle.toy import Instance
from verifiers import Drafting

Known: TypeAlias = dict[bytes, ConditionalLaw]
"""Laws of the emission after one draft, by the bytes of the arrays that the function is handed."""

CONFIRMING_TV = 0.02
"""Total variation between code that is watched and code that is not, which plain draws should find."""

CONFIRMING_SHARE = 0.05
"""Share of the budget that these draws may take."""

_PILOT = 1000


def intercepted(code: PlainCode, facts: Facts, bench: Bench, alpha: float, num_paths: int) -> Findings:
    """Follow the function's random numbers on every instance, then compare with plain draws.

    Raises `NoEvidenceError` where the law would not be exact, where the code raises while it is followed, and
    where plain draws contradict what was found.
    """
    end = time.process_time() + bench.budget
    known: Known = {}
    law_of = partial(intercepted_law, code, known=known, end=end)
    try:
        findings = judged(law_of, bench.toys(num_paths), facts, "intercepted")
    except NotTracedError as error:
        raise NoEvidenceError(f"interception failed: {error}") from None
    except SubjectRaisedError as error:
        raise NoEvidenceError(f"interception failed: followed, it {error}") from None
    if not findings.laws:
        return findings
    if findings.joint.status is Status.PASSED and facts.rule_at is None:
        findings = _identified(code, findings, facts, known)
    confirmed = confirm(code, findings.laws, alpha, bench.seed, CONFIRMING_SHARE * bench.budget)
    unlimited = partial(intercepted_law, code, known=known)  # whoever asks for more laws limits the time
    return replace(findings, law_of=unlimited, scope=(*findings.scope, confirmed))


def _identified(code: PlainCode, findings: Findings, facts: Facts, known: Known) -> Findings:
    """Add the built-in rule with the same law after every draft, if there is one."""
    laws = [(law.instance, laws_after(code, law.instance, known)) for law in findings.laws.values()]
    rule = identified(laws, Drafting.INDEPENDENT, facts.tolerance)
    if rule is None:
        return findings
    drafts = sum(len(by_row) for _, by_row in laws)
    detail = f"law of the emission as that of {rule!r} after each of {drafts} drafts"
    return replace(findings, rule=rule, length=CheckResult("length", Status.PASSED, detail))


def confirm(
    code: PlainCode, laws: Mapping[str, Any], alpha: float, seed: int, seconds: float = math.inf
) -> str:
    """Compare plain draws on every instance with its intercepted law; return what that could have found.

    Code may behave otherwise when its random numbers are followed. Each instance is drawn by one call, since
    calls may depend on each other, which is another check's question; one e-process judges them all. Raises
    `NoEvidenceError` when it contradicts a law.
    """
    expected = [law.extended().reshape(-1) for law in laws.values()]
    samples = [Sample.of(law.instance) for law in laws.values()]
    sampler = Sampler(code, seed)
    needed = draws_needed_by_joint_e_process(CONFIRMING_TV, expected, alpha=alpha)
    count = sampler.most_within(seconds / len(samples), samples[0].instance, start=_PILOT, most=needed)
    process = EProcess.against(expected)
    for number, sample in enumerate(samples):
        process = process.observe(sampler.draw(sample, count), number)
    fit = goodness_of_fit_by_e_process(process, alpha=alpha)
    if not fit.passed:
        worst = list(laws)[int(process.log_e_by_sample.argmax())]
        raise NoEvidenceError(
            f"plain draws contradict the law that was followed on instance {worst!r}, {fit}"
        )
    return (
        f"confirmed by {process.draws} plain draws on all of these, which would have found a total "
        f"variation of {fit.smallest_detectable_tv:.2g}"
    )


def intercepted_law(
    code: PlainCode,
    instance: Instance,
    known: Known | None = None,
    *,
    end: float = math.inf,
    exact: bool = False,
) -> EmissionLaw:
    """Return the exact emission law of a plain function on ``instance``, in float64.

    The function is run on one draft at a time, once per outcome of its random decisions. Laws found in
    ``known`` are not computed again, new ones are entered: instances that differ in one row, as in the search
    for a small counterexample, share most of them. ``end`` is when `time.process_time` says that it takes too
    long. Raises `NotTracedError` where the law would not be exact, `ContractError` for what is no emission,
    `SubjectRaisedError` when the function raises.
    """
    del exact  # foreign code computes in floats
    floats = instance.floats
    probability = draft_table(floats).law.probability
    masses = [np.zeros(floats.vocab_size**length) for length in range(1, floats.draft_length + 2)]
    for row, law in laws_after(code, floats, {} if known is None else known, end).items():
        _add_law(masses, law, probability[row])
    return EmissionLaw(floats, tuple(masses))


def laws_after(
    code: PlainCode, instance: Instance, known: Known, end: float = math.inf
) -> dict[int, ConditionalLaw]:
    """Return the law after each possible draft, by its row in the instance's `draft_table`; as above."""
    table = draft_table(instance)
    found = {}
    for row in np.flatnonzero(table.law.probability).tolist():
        drafts = table.drafts(np.array([row]))
        key = b"".join(
            repr(array.shape).encode() + array.tobytes()
            for array in (drafts.tokens, drafts.draft_probs, drafts.target_probs)
        )
        if key not in known:
            known[key] = law_after(code, drafts, max_seconds=end - time.process_time())
        found[row] = known[key]
    return found


def _add_law(masses: list[NDArray[np.float64]], law: ConditionalLaw, probability: float) -> None:
    """Add the law of the emission after one draft, whose probability is given, to the masses."""
    vocab = len(masses[0])
    for prefix, mass in law.leaves.items():
        index = np.ravel_multi_index(prefix, (vocab,) * len(prefix)) if prefix else 0
        masses[len(prefix)].reshape(-1, vocab)[index] += mass * probability
