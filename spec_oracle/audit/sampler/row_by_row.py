"""Slow code with known uniforms, row by row against a rule that decides by the same uniforms.

Total variation is at most the chance that two coupled results differ. Where both emit the same in all of n
independent rows, that chance is at most -log(miss) / n; if it is more, such rows come with probability
``miss``. Sampling alone would need n squared. Where rows differ, that is no defect yet, since the code may
use its uniforms in another way; but if its law is the target's too, a text is as often the code's alone as
the rule's alone, and sign tests on these rows tell (McNemar's, exact).
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import checks_own_rng, extended_cells, sampled_drafts
from spec_oracle.audit.facts import Facts
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.results import TARGET_TV, CheckResult, Findings, NoEvidenceError, Pair, Status, main_instances, never_happened, scope_of
from spec_oracle.audit.sampler.breakpoints import difference_at_breakpoints
from spec_oracle.audit.sampler.coins import BY_COINS, by_coins
from spec_oracle.contracts import (
    ContractError,
    Emissions,
    SamplerCode,
    SubjectRaisedError,
    checked_emissions,
    contract_arguments,
    raising,
)
from spec_oracle.contracts.calls import to_library
from spec_oracle.statistics import DEFAULT_MISS, split
from spec_oracle.toy import Instance
from verifiers import Drafts

_BATCH = 16
_PILOT = 4
"""Rows of each instance that settle the pace: few, since interpreted kernels do less than ten a second."""

_BREAKPOINTS = 40


def called_with(call: Callable[..., Any], drafts: Drafts, *noise: NDArray[Any]) -> Emissions:
    """Verify numpy drafts of one path by torch code that is handed its noise; errors as `SamplerCode`."""
    given = (*contract_arguments(drafts), *noise)
    with raising():
        returned = call(*(to_library(np.ascontiguousarray(array), "torch") for array in given))
    return checked_emissions(returned, drafts)


def pair_by_coins(code: SamplerCode, rule: str) -> Pair:
    """Return the pair of code that takes its uniforms and a rule of `BY_COINS`."""

    def pair(drafts: Drafts, rng: np.random.Generator) -> tuple[Emissions, Emissions]:
        uniforms = rng.random((drafts.batch, drafts.draft_length + 1))
        return code(drafts, uniforms), by_coins(BY_COINS[rule], drafts, uniforms)

    return pair


def fitting_rule(code: SamplerCode, instance: Instance, seed: int) -> str | None:
    """Return the first rule of `BY_COINS` that agrees with the code in a few rows, if one does."""
    for name in BY_COINS:
        rows = PairedRows(instance)
        rows.add(pair_by_coins(code, name), 4 * _BATCH, np.random.default_rng([seed, 2]))
        if not rows.differing:
            return name
    return None


@dataclass
class PairedRows:
    """What was seen on one instance; ``alone`` [2, cells] counts texts of code and rule where they differ."""

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
        # One seed for both, so that equal emissions are continued to equal texts.
        seed = int(rng.integers(2**62))
        texts = [
            extended_cells(self.instance, e.tokens, e.lengths, np.random.default_rng(seed))
            for e in (code, rule)
        ]
        self.rows += count
        self.differing += int((code.tokens != rule.tokens).any(axis=1).sum())
        self.lengths += np.bincount(code.lengths - 1, minlength=len(self.lengths))
        apart = texts[0] != texts[1]
        self.alone += [np.bincount(cells[apart], minlength=self.alone.shape[1]) for cells in texts]

    @property
    def largest_possible_tv(self) -> float:
        """Bound of the chance that texts differ, so of the distance: Clopper-Pearson's, at `DEFAULT_MISS`."""
        apart, sure = int(self.alone[0].sum()), 1 - DEFAULT_MISS
        return float(stats.beta.ppf(sure, apart + 1, self.rows - apart)) if apart < self.rows else 1.0

    @property
    def p_value(self) -> float:
        """Smallest p-value of the sign tests, times their number; for equal laws seldom small.

        One test for every beginning of a text: defects of few tokens show in few cells.
        """
        vocab, width = self.instance.vocab_size, self.instance.draft_length + 1
        begun = [self.alone.reshape(2, vocab**n, -1).sum(axis=2) for n in range(1, width + 1)]
        code, rule = np.concatenate(begun, axis=1)
        tests = [stats.binomtest(int(a), int(a + b)).pvalue for a, b in zip(code, rule, strict=True) if a + b]
        return float(min([1.0, *(pvalue * len(code) for pvalue in tests)]))


def row_by_row(code: SamplerCode, facts: Facts, context: Context, alpha: float) -> Findings:
    """Compare code that takes its uniforms with a rule of `BY_COINS`: the declared one, or one that fits.

    Raises `NoEvidenceError` where none does.
    """
    first = next(iter(context.toys(1).values()))
    declared = None if facts.rule_at is None else facts.rule_at(first.draft_length)
    rule = declared if declared in BY_COINS else fitting_rule(code, first, context.seed)
    if rule is None:
        raise NoEvidenceError("it uses its uniforms otherwise than the built-in rules")
    pair = pair_by_coins(code, rule)
    findings = paired_findings(pair, context, alpha)
    if findings.joint.status is not Status.PASSED:
        return findings
    toys = context.toys(1)
    differences = (
        difference_at_breakpoints(code, rule, toys[name], _BREAKPOINTS, context.seed)
        for name in main_instances(toys)
    )
    difference = next(filter(None, differences), "")
    status = Status.INCONCLUSIVE if difference else Status.PASSED
    detail = f"{findings.joint.detail}; {difference or 'thresholds agree to 1e-5'}"
    joint = replace(findings.joint, status=status, detail=detail)
    return replace(findings, joint=joint, pair=None if difference else pair)


def rows_needed(total_variation: float) -> int:
    """Return how many rows exclude a total variation, but for `DEFAULT_MISS`, if all are alike."""
    return int(np.ceil(-np.log(DEFAULT_MISS) / total_variation))


def beside_rule(
    passed: CheckResult, subject: Any, context: Context, calls: Iterable[Drafts]
) -> CheckResult | None:
    """Return a check as passed if the rows of these calls, made one after the other, are all as a rule's.

    They depend on their own drafts and uniforms alone then, as the rule's do. It is None, too, where `joint`
    has found no rule, or the budget is too short. ``passed`` tells how many rows, and of what calls they are.
    """
    pair, rng = context.pair, np.random.default_rng([context.seed, 7])
    if pair is None or passed.draws > context.affordable(subject):
        return None
    with suppress(ContractError, SubjectRaisedError):
        both = (pair(drafts, rng) for drafts in calls)
        if all(np.array_equal(code.tokens, rule.tokens) for code, rule in both):
            detail = f"{passed.draws} rows of {passed.detail}, as a rule's with the same uniforms"
            return replace(passed, detail=detail)
    return None


def paired_findings(pair: Pair, context: Context, alpha: float) -> Findings:
    """Compare rows on every instance, most of them on the main ones, within the budget."""
    instances = context.toys(1)
    rng = checks_own_rng(context.seed)
    samples = {name: PairedRows(instance) for name, instance in instances.items()}
    main = main_instances(instances)
    rate = split(alpha, 2 * len(instances))
    needed = rows_needed(TARGET_TV)
    for sample in samples.values():
        sample.add(pair, _PILOT, rng)
    spent = sum(sample.seconds for sample in samples.values())
    pace = _PILOT * len(samples) / max(spent, 1e-9)
    affordable = int(min(max(0.0, context.budget - spent) * pace / len(main), 1e6))
    # The first rows only settle how many there will be; what is tested are fresh ones.
    agree = not any(sample.differing for sample in samples.values())
    count = min(needed, affordable) if agree else affordable
    for name in main:
        samples[name] = PairedRows(instances[name])
        while samples[name].rows < count:
            samples[name].add(pair, min(4 * _BATCH, count - samples[name].rows), rng)
    detectable = max(samples[name].largest_possible_tv for name in main)
    return Findings(
        _joint(samples, rate, detectable, pace),
        Evidence.REPLAYED,
        # Rows are too few for a mean number of tokens; `length` compares theirs with the rule's.
        smallest_detectable_tv=detectable,
        instances=instances,
        length=_length(samples, rate),
        scope=(
            scope_of("beside a rule under the same randomness", instances.values(), f"{_rows(samples)} rows"),
        ),
    )


def _rows(samples: Mapping[str, PairedRows]) -> int:
    return sum(sample.rows for sample in samples.values())


def _length(samples: Mapping[str, PairedRows], rate: float) -> CheckResult:
    """Judge the accepted length by the same rows: emissions of equal length have laws as close."""
    rows, differing = _rows(samples), sum(sample.differing for sample in samples.values())
    if differing or not rows:
        return CheckResult("length", Status.INCONCLUSIVE, f"{differing} of {rows} rows differ", draws=rows)
    detail = f"accepted length as the declared rule's in all of {rows} rows"
    return CheckResult("length", Status.PASSED, detail, rate, rows)


def _joint(samples: Mapping[str, PairedRows], rate: float, detectable: float, pace: float) -> CheckResult:
    rows, differing = _rows(samples), sum(sample.differing for sample in samples.values())
    missing = never_happened(sample.lengths for sample in samples.values())
    name = min(samples, key=lambda key: samples[key].p_value)
    status = Status.INCONCLUSIVE
    if samples[name].p_value <= rate:
        status = Status.FAILED
        detail = f"instance {name!r}: texts of the code and of the rule, p-value {samples[name].p_value:.1e}"
    elif detectable > TARGET_TV:
        detail = (
            f"{differing} of {rows} rows differ from the rule under the same uniforms; that excludes a total "
            f"variation above {detectable:.2g}, not {TARGET_TV}, but for a chance of {DEFAULT_MISS}; "
            f"{pace:.0f} rows/s, raise --budget"
        )
    elif missing:
        detail = f"{rows} rows {missing}"
    else:
        status = Status.PASSED
        detail = (
            f"{rows - differing} of {rows} rows as the rule's under the same uniforms; total variation at "
            f"most {detectable:.2g}, but for a chance of {DEFAULT_MISS} to see none of it"
        )
    return CheckResult("joint", status, detail, rate, rows)
