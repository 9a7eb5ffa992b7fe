"""Exact laws of samplers by tracing their random numbers, confirmed by uninstrumented samples."""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TypeAlias

import numpy as np

import verifiers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import Sample, Sampler, draft_table
from spec_oracle.audit.laws import judge_laws
from spec_oracle.audit.results import CheckResult, Findings, How, Law, NoEvidenceError, Status, passed
from spec_oracle.audit.sampler.after_draft import law_after
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampling import confirm
from spec_oracle.contracts import SamplerCode, SubjectRaisedError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.conditional import ConditionalLaw, conditional_laws
from spec_oracle.exact.interception import NotTracedError
from spec_oracle.toy import Instance
from verifiers import Drafting, ModelBound, StatefulVerifier, drafting_of

Known: TypeAlias = dict[bytes, ConditionalLaw]
"""Laws of what is emitted after one draft, by the bytes of the arrays that the sampler is given."""

_FEW = 8


def traced(subject: SamplerSubject, context: Context, rate: float) -> CheckResult:
    """Trace the sampler's random numbers on every instance, then compare with uninstrumented samples.

    Raises `NoEvidenceError` where the law would not be exact, where the code raises while it is traced, and
    where samples contradict what was found.
    """
    code, known = subject.code, Known()
    end = time.process_time() + context.budget
    law_of = partial(traced_law, code, known=known, end=end)
    try:
        found = judge_laws(law_of, context.toys(subject.num_paths), subject.facts, "traced")
    except NotTracedError as error:
        raise NoEvidenceError(f"could not trace the random numbers, sampled instead: {error}") from None
    except SubjectRaisedError as error:
        raise NoEvidenceError(f"could not trace the random numbers, sampled instead: it {error}") from None
    findings = found.findings or Findings()
    if not findings.laws:
        return found
    if found.status is Status.PASSED and subject.facts.rule_at is None:
        findings = _with_rule(code, findings, subject.facts.tolerance, known)
    confirmed = confirmed_by_samples(
        code, findings.laws, rate, context.seed, effort.CONFIRMING_SHARE * context.budget
    )
    # Whoever needs more laws limits the time.
    findings = replace(findings, law_of=partial(traced_law, code, known=known))
    return replace(found, scope=(*found.scope, confirmed), findings=findings)


def traced_law(
    code: SamplerCode,
    instance: Instance,
    known: Known | None = None,
    *,
    end: float = math.inf,
    exact: bool = False,
) -> EmissionLaw:
    """Return the exact emission law of a sampler on ``instance``, in float64.

    The sampler is run on one draft at a time, once per outcome of its random decisions. Laws found in
    ``known`` are not computed again, new ones are entered: instances that differ in one row, as in the search
    for a small counterexample, share most of them. ``end`` is when `time.process_time` says that it takes too
    long. Raises `NotTracedError` where the law would not be exact, `ContractError` for what is no emission,
    `SubjectRaisedError` when the sampler raises.
    """
    del exact  # foreign code computes in floats
    floats = instance.floats
    vocab, probability = floats.vocab_size, draft_table(floats).law.probability
    masses = [np.zeros(vocab**length) for length in range(1, floats.draft_length + 2)]
    for row, law in laws_after(code, floats, {} if known is None else known, end).items():
        for prefix, mass in law.leaves.items():
            index = np.ravel_multi_index(prefix, (vocab,) * len(prefix)) if prefix else 0
            masses[len(prefix)].reshape(-1, vocab)[index] += mass * probability[row]
    return EmissionLaw(floats, tuple(masses))


def laws_after(
    code: SamplerCode, instance: Instance, known: Known, end: float = math.inf
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


def _with_rule(code: SamplerCode, findings: Findings, tolerance: float, known: Known) -> Findings:
    """Add the built-in rule with the same law after every draft, if there is one.

    Losslessness does not fix what is emitted after one draft; a rule does. Where code and rule agree after
    every draft of the instances, the rule says what to expect after any other draft.
    """
    laws = [(law.instance, laws_after(code, law.instance, known)) for law in findings.laws.values()]
    rule = identified(laws, Drafting.INDEPENDENT, tolerance)
    if rule is None:
        return findings
    drafts = sum(len(by_row) for _, by_row in laws)
    detail = f"what is emitted is distributed as by {rule!r} after each of {drafts} drafts"
    return replace(findings, rule=rule, length=passed(detail, how=How.PROVEN))


def identified(
    laws: Iterable[tuple[Instance, Mapping[int, ConditionalLaw]]], drafting: Drafting, tolerance: float
) -> str | None:
    """Return the first rule with the same law after every draft, None where there is none.

    ``laws`` by instance: the law after each draft by its row in the instance's `draft_table`. Rules are the
    built-in verifiers that want drafts drawn so, and whose calls do not depend on each other.
    """
    candidates = [name for name in verifiers.names() if drafting_of(verifiers.get(name)) is drafting]
    bound = StatefulVerifier | ModelBound
    candidates = [name for name in candidates if not isinstance(verifiers.get(name), bound)]
    for instance, found in laws:
        rows = list(found)
        for some in (rows[:_FEW], rows[_FEW:]):  # most rules differ soon
            candidates = [name for name in candidates if _fits(name, instance, found, some, tolerance)]
    return candidates[0] if candidates else None


def _fits(
    name: str, instance: Instance, found: Mapping[int, ConditionalLaw], rows: list[int], tolerance: float
) -> bool:
    """Whether a rule has the laws that were found after the drafts of some rows."""
    if not rows:
        return True
    drafts = draft_table(instance, drafting_of(verifiers.get(name))).drafts(np.array(rows))
    expected = conditional_laws(verifiers.get(name), drafts)
    return all(found[row].distance(law) <= tolerance for row, law in zip(rows, expected, strict=True))


def confirmed_by_samples(
    code: SamplerCode, laws: Mapping[str, Law], rate: float, seed: int, seconds: float = math.inf
) -> str:
    """Compare samples on every instance with its traced law; see `spec_oracle.audit.sampling.confirm`.

    Each instance is sampled by one call, since calls may depend on each other: that is another check's.
    """
    sampler = Sampler(code, seed, "sampler/joint/confirmation")
    samples = {f"instance {name!r}": sampler.on(law.instance) for name, law in laws.items()}
    for sample, law in zip(samples.values(), laws.values(), strict=True):
        sample.law = law.extended().reshape(-1)
    first = next(iter(laws.values())).instance

    @cache
    def size(needed: int) -> int:
        share = seconds / len(samples)
        return sampler.most_within(share, first, start=effort.CONFIRMING_PILOT, most=needed)

    def draw(sample: Sample, needed: int) -> None:
        sample.draw(size(needed))

    return confirm(samples, draw, rate=rate, tv=effort.CONFIRMING_TV)
