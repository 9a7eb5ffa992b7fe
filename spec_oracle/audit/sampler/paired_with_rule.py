"""Compare code that takes its randomness as an argument with a reference rule, under the same numbers.

Each row is one request that both verify. Total variation is at most the chance that the two results differ.
If they agree in all of n independent rows, that chance is at most -log(miss) / n: a larger one agrees in all
of them with probability ``miss`` at most. Samples alone would need n squared. Rows that differ are no defect
yet, since the code may use its random numbers in another way. But if its distribution is the target's too, a
completion is as often the code's alone as the rule's alone: sign tests decide (McNemar's, exact).
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import scipy

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import Facts
from spec_oracle.audit.draws import affordable, extended_cells, sampled_drafts
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
    inconclusive,
    passed,
    with_findings,
)
from spec_oracle.audit.sampler.keyed_noise import pair_by_keys
from spec_oracle.audit.sampler.reference import RULES, pair_by_noise, pair_by_uniforms, rows_needed
from spec_oracle.audit.sampler.subject import SamplerSubject, TakesKeys, TakesUniforms
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import ContractError, SamplerCode, SubjectRaisedError
from spec_oracle.contracts.sampler import in_same_arrays
from spec_oracle.statistics import DEFAULT_MISS, split
from spec_oracle.toy import Instance
from verifiers import Paths

PAIRED_BATCH: Final = 64  # Rows of one call beside a reference rule.
# Rows of each instance that measure the pace: few, since interpreted kernels do less than ten a second.
PAIRED_PILOT: Final = 4


def beside_a_rule(subject: SamplerSubject, context: Context) -> LawResult:
    """Compare code that takes its randomness as an argument with a rule that decides by it.

    Raises `NoEvidenceError` where that decides nothing.
    """
    source = subject.randomness
    if isinstance(source, TakesUniforms):
        return by_same_uniforms(source.code, subject.facts, context)
    if isinstance(source, TakesKeys):
        return compared(pair_by_keys(source.engine), context)
    assert source is not None
    found = compared(pair_by_noise(source.engine), context)
    if found.status is Status.INCONCLUSIVE:
        raise NoEvidenceError(found.detail)
    return found


def by_same_uniforms(code: SamplerCode, facts: Facts, context: Context) -> LawResult:
    """Compare code that takes uniforms with a rule: the declared one, or one that fits.

    Raises `NoEvidenceError` where none does.
    """
    first = next(iter(instances_for(context, 1).values()))
    declared = None if facts.rule_at is None else facts.rule_at(first.draft_length)
    rule = declared if declared in RULES else fitting_rule(code, first, context)
    if rule is None:
        raise NoEvidenceError(
            "it uses its random numbers in another way than the reference rules, so it was sampled"
        )
    found = compared(pair_by_uniforms(code, rule), context)
    if found.status is not Status.PASSED:
        return found
    later = pair_by_uniforms(in_same_arrays(code), rule)
    return replace(found, findings=replace(found.findings, pair=later))


def fitting_rule(code: SamplerCode, instance: Instance, context: Context) -> str | None:
    """Return the first of `RULES` that agrees with the code in a few rows, if one does."""
    for name in RULES:
        rows = PairedRows(instance)
        rows.add(pair_by_uniforms(code, name), PAIRED_BATCH, context.stream("sampler/joint/fit"))
        if not rows.differing:
            return name
    return None


@dataclass
class PairedRows:
    """Rows of one instance; ``alone`` [2, cells] counts completions of code and rule where they differ."""

    instance: Instance
    rows: int = field(default=0, init=False)
    differing: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.instance = self.instance.floats
        width = self.instance.draft_length + 1
        self.alone = np.zeros((2, self.instance.vocab_size**width), dtype=np.int64)
        self.lengths = np.zeros(width, dtype=np.int64)

    def add(self, pair: Pair, count: int, rng: np.random.Generator) -> None:
        """Verify ``count`` more rows by both."""
        drafts = sampled_drafts(self.instance, count, rng)
        started = time.perf_counter()
        code, rule = pair(drafts, rng)
        self.seconds += time.perf_counter() - started
        # One seed for both, so that equal emissions are continued to equal completions.
        seed = int(rng.integers(2**62))
        cells = [
            extended_cells(self.instance, e.tokens, e.lengths, np.random.default_rng(seed))
            for e in (code, rule)
        ]
        self.rows += count
        self.differing += int((code.tokens != rule.tokens).any(axis=1).sum())
        self.lengths += np.bincount(code.lengths - 1, minlength=len(self.lengths))
        apart = cells[0] != cells[1]
        self.alone += [np.bincount(some[apart], minlength=self.alone.shape[1]) for some in cells]

    @property
    def largest_possible_tv(self) -> float:
        """Clopper-Pearson bound of the chance that completions differ, so of the distance."""
        apart, sure = int(self.alone[0].sum()), 1 - DEFAULT_MISS
        return float(scipy.stats.beta.ppf(sure, apart + 1, self.rows - apart)) if apart < self.rows else 1.0

    @property
    def p_value(self) -> float:
        """Smallest p-value of the sign tests, times their number; for equal laws seldom small.

        One test for every beginning of a completion: defects of few tokens show in few cells.
        """
        vocab, width = self.instance.vocab_size, self.instance.draft_length + 1
        begun = [self.alone.reshape(2, vocab**n, -1).sum(axis=2) for n in range(1, width + 1)]
        code, rule = np.concatenate(begun, axis=1)
        tests = [
            scipy.stats.binomtest(int(a), int(a + b)).pvalue for a, b in zip(code, rule, strict=True) if a + b
        ]
        return float(min([1.0, *(pvalue * len(code) for pvalue in tests)]))


def compared(pair: Pair, context: Context) -> LawResult:
    """Compare rows on every instance, most of them on the main ones, within the budget."""
    instances, rng = instances_for(context, 1), context.stream("sampler/joint/rows")
    samples = {name: PairedRows(instance) for name, instance in instances.items()}
    main = main_instances(instances)
    rate = split(context.rate, 2 * len(instances))
    for sample in samples.values():
        sample.add(pair, PAIRED_PILOT, rng)
    spent = sum(sample.seconds for sample in samples.values())
    pace = PAIRED_PILOT * len(samples) / max(spent, 1e-9)
    payable = int(min(max(0.0, context.budget - spent) * pace / len(main), 1e6))
    # The first rows only settle how many there will be; what is tested are fresh ones.
    agree = not any(sample.differing for sample in samples.values())
    count = min(rows_needed(effort.SAMPLER_TV), payable) if agree else payable
    for name in main:
        samples[name] = PairedRows(instances[name])
        while samples[name].rows < count:
            samples[name].add(pair, min(PAIRED_BATCH, count - samples[name].rows), rng)
    return _judged(samples, max(samples[name].largest_possible_tv for name in main), rate, pace)


def _judged(samples: Mapping[str, PairedRows], tv: float, rate: float, pace: float) -> LawResult:
    """Return the result of all rows, which exclude a total variation above ``tv``."""
    rows = sum(sample.rows for sample in samples.values())
    differing = sum(sample.differing for sample in samples.values())
    missing = never_happened(sample.lengths for sample in samples.values())
    name = min(samples, key=lambda key: samples[key].p_value)
    status, p_value = Status.INCONCLUSIVE, samples[name].p_value
    apart = f"{differing:,} of {rows:,} rows differ from the rule's under the same random numbers"
    if p_value <= rate:
        status = Status.FAILED
        detail = f"instance {name!r}: {apart}, in one direction more often than chance allows"
    elif tv > effort.SAMPLER_TV:
        excluded = f"{effort.SAMPLER_TV} must be excluded; {pace:.0f} rows a second, raise --budget"
        detail = f"{apart}: a total variation of {tv:.2g} is possible, {excluded}"
    elif missing:
        detail = f"in {rows:,} rows it {missing}"
    else:
        status = Status.PASSED
        alike = f"{rows - differing:,} of {rows:,} rows as the rule's under the same random numbers"
        detail = f"{alike} (a total variation of {tv:.2g} would show with power {1 - DEFAULT_MISS})"
    if differing or not rows:
        length = inconclusive(apart, draws=rows)
    else:
        what = f"accepted length as the rule's in all of {rows:,} rows"
        length = passed(what, alpha=rate, draws=rows, how=How.REPLAYED)
    instances = {key: sample.instance for key, sample in samples.items()}
    scope = scope_of(f"{rows:,} rows beside a reference rule", instances.values())
    # Rows are too few for a mean number of tokens: no laws.
    findings = Findings(smallest_detectable_tv=tv, instances=instances, length=length)
    scopes = (scope, f"sign tests: p-value {p_value:.1e}")
    result = check_result(status, detail, how=How.REPLAYED, alpha=rate, draws=rows, scope=scopes)
    return with_findings(result, findings)


def beside_rule(
    alike: CheckResult, subject: CalledAsSampler, context: Context, calls: Iterable[Paths]
) -> CheckResult | None:
    """Return a check as passed if code and rule agree in every row of these calls; None if they do not.

    The results depend on their own drafts and random numbers alone then, as the rule's do. None also where
    `joint` has found no rule, or the budget is too short. ``alike`` counts the rows, and names the calls.
    """
    pair, rng = context.findings.pair, context.stream("sampler/beside rule")
    if pair is None or alike.measured.draws > affordable(subject, context):
        return None
    with suppress(ContractError, SubjectRaisedError):
        both = (pair(drafts, rng) for drafts in calls)
        if all(np.array_equal(code.tokens, rule.tokens) for code, rule in both):
            detail = (
                f"{alike.measured.draws:,} rows of {alike.detail}: as a rule's with the same random numbers"
            )
            return replace(alike, detail=detail, how=How.REPLAYED)
    return None
