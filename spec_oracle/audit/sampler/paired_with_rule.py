"""Compare code that takes its randomness as an argument with a reference rule, under the same numbers.

Each row is one request that both verify. Total variation is at most the chance that the two results differ.
If they agree in all of n independent rows, that chance is at most -log(miss) / n: a larger one agrees in all
of them with probability ``miss`` at most. Samples alone would need n squared. Rows that differ are no defect,
since the code may use its random numbers in another way: then samples decide.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from spec_oracle import clock
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import affordable, sampled_drafts
from spec_oracle.audit.exact_comparison import never_happened, scope_of
from spec_oracle.audit.instances import instances_for, main_instances
from spec_oracle.audit.results import (
    CheckResult,
    Findings,
    How,
    LawResult,
    NoEvidenceError,
    Pair,
    Status,
    check_result,
    passed,
    with_findings,
)
from spec_oracle.audit.sampler.keyed_noise import pair_by_keys
from spec_oracle.audit.sampler.reference import RULES, pair_by_noise, pair_by_uniforms, rows_needed
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import ContractError, SamplerCode, SubjectRaisedError
from spec_oracle.contracts.sampler import KeyedSampler, in_same_arrays
from spec_oracle.statistics import DEFAULT_MISS
from spec_oracle.toy import Instance
from verifiers import Paths

PAIRED_BATCH: Final = 64  # Rows of one call beside a reference rule.
# Rows of each instance that measure the pace: few, since interpreted kernels do less than ten a second.
PAIRED_PILOT: Final = 4


def beside_a_rule(subject: SamplerSubject, context: Context) -> LawResult:
    """Compare code that takes its randomness as an argument with a rule that decides by it.

    Raises `NoEvidenceError` where the code does not decide as a rule does.
    """
    source = subject.randomness
    if isinstance(source, SamplerCode):
        rule = fitting_rule(subject, source, context)
        found = compared(pair_by_uniforms(source, rule), context)
        pair = pair_by_uniforms(in_same_arrays(source), rule)
        is_passed = found.status is Status.PASSED
        return replace(found, findings=replace(found.findings, pair=pair)) if is_passed else found
    assert source is not None
    pair = pair_by_keys(source) if isinstance(source, KeyedSampler) else pair_by_noise(source)
    return compared(pair, context)


def fitting_rule(subject: SamplerSubject, code: SamplerCode, context: Context) -> str:
    """Return the declared rule, or the first of `RULES` that agrees with the code in a few rows.

    Raises `NoEvidenceError` where none does.
    """
    first, rule_at = next(iter(instances_for(context, 1).values())), subject.facts.rule_at
    if rule_at is not None and (declared := rule_at(first.draft_length)) in RULES:
        return declared
    for name in RULES:
        rows = PairedRows(first)
        rows.add(pair_by_uniforms(code, name), PAIRED_BATCH, context.stream("sampler/joint/fit"))
        if not rows.differing:
            return name
    raise NoEvidenceError(
        "it uses its random numbers in another way than the reference rules, so it was sampled"
    )


@dataclass
class PairedRows:
    """Rows of one instance that both verified; ``lengths`` [L+1] counts the accepted lengths of the code."""

    instance: Instance
    rows: int = field(default=0, init=False)
    differing: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.instance = self.instance.floats
        self.lengths = np.zeros(self.instance.draft_length + 1, dtype=np.int64)

    def add(self, pair: Pair, count: int, rng: np.random.Generator) -> None:
        """Verify ``count`` more rows by both."""
        drafts = sampled_drafts(self.instance, count, rng)
        started = clock.now()
        code, rule = pair(drafts, rng)
        self.seconds += clock.now() - started
        self.rows += count
        self.differing += int((code.tokens != rule.tokens).any(axis=1).sum())
        self.lengths += np.bincount(code.lengths - 1, minlength=len(self.lengths))


def compared(pair: Pair, context: Context) -> LawResult:
    """Compare rows on every instance, most of them on the main ones, within the budget.

    Raises `NoEvidenceError` where rows differ.
    """
    instances, rng = instances_for(context, 1), context.stream("sampler/joint/rows")
    samples = {name: PairedRows(instance) for name, instance in instances.items()}
    for sample in samples.values():
        sample.add(pair, PAIRED_PILOT, rng)
    spent, main = sum(sample.seconds for sample in samples.values()), main_instances(instances)
    pace = PAIRED_PILOT * len(samples) / max(spent, 1e-9)
    payable = max(0.0, context.budget - spent) * pace / len(main)
    count = int(min(rows_needed(effort.SAMPLER_TV), payable))
    for name in main:
        samples[name] = PairedRows(instances[name])
        while samples[name].rows < count:
            samples[name].add(pair, min(PAIRED_BATCH, count - samples[name].rows), rng)
    rows = sum(sample.rows for sample in samples.values())
    differing = sum(sample.differing for sample in samples.values())
    if differing:
        what = "rows differ from the rule's under the same random numbers"
        raise NoEvidenceError(f"{differing:,} of {rows:,} {what}, so it was sampled")
    missing = never_happened(sample.lengths for sample in samples.values())
    alike = f"{rows:,} of {rows:,} rows as the rule's under the same random numbers"
    tv = 1 - DEFAULT_MISS ** (1 / count) if count else 1.0
    if tv > effort.SAMPLER_TV:
        excluded = f"{effort.SAMPLER_TV} must be excluded; {pace:.0f} rows a second, raise --budget"
        status, detail = (
            Status.INCONCLUSIVE,
            f"{alike}: a total variation of {tv:.2g} is possible, {excluded}",
        )
    elif missing:
        status, detail = Status.INCONCLUSIVE, f"in {rows:,} rows it {missing}"
    else:
        power = (
            f"a total variation of {tv:.2g} at {' or '.join(main)} would show with power {1 - DEFAULT_MISS}"
        )
        status, detail = Status.PASSED, f"{alike} ({power})"
    length = passed(f"accepted length as the rule's in all of {rows:,} rows", draws=rows, how=How.REPLAYED)
    scope = scope_of(f"{rows:,} rows beside a reference rule", instances.values())
    # Rows are too few for a mean number of tokens: no laws.
    findings = Findings(smallest_detectable_tv=tv, instances=instances, length=length)
    result = check_result(status, detail, how=How.REPLAYED, draws=rows, scope=(scope,))
    return with_findings(result, findings)


def beside_rule(
    alike: CheckResult, pair: Pair, subject: CalledAsSampler, context: Context, calls: Iterable[Paths]
) -> CheckResult | None:
    """Return a check as passed if code and rule agree in every row of these calls; None if they do not.

    The results depend on their own drafts and random numbers alone then, as the rule's do. None also where
    the budget is too short. ``alike`` counts the rows, and names the calls.
    """
    rng = context.stream("sampler/beside rule")
    if alike.measured.draws > affordable(subject, context):
        return None
    with suppress(ContractError, SubjectRaisedError):
        both = (pair(drafts, rng) for drafts in calls)
        if all(np.array_equal(code.tokens, rule.tokens) for code, rule in both):
            detail = (
                f"{alike.measured.draws:,} rows of {alike.detail}: as a rule's with the same random numbers"
            )
            return replace(alike, detail=detail, how=How.REPLAYED)
    return None
