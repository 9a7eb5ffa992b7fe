"""What engines generate, by samples: where tracing does not work, and to confirm it where it does.

Half of the completions are generated with seeds, fresh ones; the halves are judged apart.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.engine.wording import scope_of, shown
from spec_oracle.audit.results import (
    Cause,
    CheckResult,
    Findings,
    How,
    LawResult,
    Measured,
    Shown,
    Status,
    WrongCompletion,
    failed,
    inconclusive,
    passed,
    remarked,
    with_findings,
)
from spec_oracle.audit.sampling import SampledDecision, confirm, judge_samples
from spec_oracle.contracts import ContractError, raising
from spec_oracle.contracts.engine import EngineCode, as_list
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.contracts.speculation import Speculation, speculation_seen
from spec_oracle.exact import Gap
from spec_oracle.exact.completions import Ids, Outcomes, listed_outcomes
from spec_oracle.statistics import (
    DEFAULT_ALPHA,
    draws_needed_by_g,
    draws_needed_by_joint_e_process,
    homogeneity_p_value,
    split,
    total_variation_interval,
)

# TV between traced and uninstrumented runs of an engine that uninstrumented samples should detect.
ENGINE_CONFIRMING_TV: Final = 0.1
ENGINE_CONFIRMING_SHARE: Final = 0.1  # Share of the budget that these samples may take.
ENGINE_TV: Final = 0.1  # TV that samples must be able to detect before they may call an engine lossless.
ENGINE_TV_WANTED: Final = 0.05  # TV that they should detect if the budget allows.
ENGINE_TV_MANY: Final = 0.03  # The same for engines that decode many requests at once.
# Share of the time for completions without speculation: they only show whose fault a defect is.
ENGINE_PLAIN_SHARE: Final = 0.25
ENGINE_TURNS: Final = 3  # Looks of the screening beyond the first one of every prompt, a prompt.

MOST_OUTCOMES = 300
BINS = 3
MOST_BINNED = 5
"""How many tokens of a completion have bins: so that there are fewer outcomes than `MOST_OUTCOMES`."""
RARER = 2
"""How many times as many samples as bins outcomes may take."""


def sampled_first_tokens(cases: Sequence[Case], context: Context) -> LawResult:
    """Judge the first tokens after every prompt by samples: a whole call of engines that decode many."""

    def tokens(case: Case) -> int:
        whole_call = case.code.has("start_many")
        most = int(case.code.engine.draft_length) + 1 if whole_call else effort.ENGINE_FIRST_TOKENS
        return min(context.inputs.tokens or most, most)

    result, seen = _sampled(_halves(cases), tokens, context)
    never, notes = seen.told()
    if result.status is Status.PASSED and never:
        result = replace(result, status=Status.INCONCLUSIVE, detail=never)
    return remarked(result, notes=notes)


def sampled_longer(cases: Sequence[Case], context: Context) -> LawResult:
    """Judge longer completions by samples, each generated after the one before."""
    return _sampled(_halves(cases), lambda _: context.inputs.tokens or effort.ENGINE_SAMPLED_TOKENS, context)[
        0
    ]


def sampled_with_seeds(cases: Sequence[Case], context: Context) -> LawResult:
    """Judge the first tokens of requests with seeds, where the others were traced."""
    most = min(context.inputs.tokens or effort.ENGINE_FIRST_TOKENS, effort.ENGINE_FIRST_TOKENS)
    return _sampled([(case, True) for case in cases], lambda _: most, context.after_claims())[0]


def _halves(cases: Sequence[Case]) -> list[tuple[Case, bool]]:
    """Return what is sampled of each case: requests without seeds, and with them where it takes seeds."""
    return [(case, False) for case in cases] + [(case, True) for case in cases if case.code.takes_seeds]


def confirmed(
    laws: Sequence[tuple[Case, int, dict[Ids, float]]], context: Context, rng: np.random.Generator
) -> str:
    """Compare uninstrumented samples with traced laws, of (case, tokens); say what they would detect.

    An engine may behave otherwise when its random numbers are traced: seeds that it sets are ignored then.
    Raises `NoEvidenceError` where samples contradict a law.
    """
    each = [
        CompletionSample(case, tokens, listed_outcomes(law), rng, seeded=seeded)
        for case, tokens, law in laws
        for seeded in (False, True)[: 1 + case.code.takes_seeds]
    ]
    samples = {sample.label: sample for sample in each}
    expected = [sample.law for sample in samples.values()]
    needed = draws_needed_by_joint_e_process(ENGINE_CONFIRMING_TV, expected, alpha=context.rate)
    seconds = ENGINE_CONFIRMING_SHARE * context.budget / len(samples)
    for sample in samples.values():
        sample.draw(effort.ENGINE_PILOT)
        sample.draw(max(int(min(needed, seconds * sample.pace)) - effort.ENGINE_PILOT, 0))
    return confirm(samples, context.rate)


def outcomes(code: EngineCode, prompt: Ids, tokens: int, rng: np.random.Generator) -> Outcomes:
    """Return one outcome a completion, or tokens in bins of equal probability.

    Bins where completions are too many, or so rare that they take many more samples of an engine that decodes
    one request at a time. Of long completions the tokens at `binned` places have bins.
    """
    places = binned(tokens)
    uniform = np.full(BINS ** len(places), float(BINS) ** -len(places))
    if code.vocab_size**tokens <= MOST_OUTCOMES:
        listed = listed_outcomes(code.law(prompt, tokens))
        needed, for_bins = (
            draws_needed_by_g(ENGINE_TV, law, alpha=DEFAULT_ALPHA)
            for law in (listed.law, np.append(uniform, 0.0))
        )
        if needed <= RARER * for_bins or code.has("start_many"):
            return listed

    def outcome(completion: Ids) -> int:
        bins = code.bins(prompt, completion, rng.random(tokens), BINS)
        return len(uniform) if bins is None else int(bins[places] @ BINS ** np.arange(len(places)))

    return Outcomes(np.append(uniform, 0.0), outcome)


def binned(tokens: int) -> list[int]:
    """Return the places of a completion whose tokens have bins: all, or a few from the first to the last.

    >>> binned(4), binned(48)
    ([0, 1, 2, 3], [0, 12, 24, 35, 47])
    """
    places: list[int] = np.linspace(0, tokens - 1, min(tokens, MOST_BINNED)).round().astype(int).tolist()
    return places


@dataclass
class CompletionSample:
    """Completions sampled of one case, all ``seeded`` or none.

    ``method`` is "generate_plain" for those without speculation.
    """

    case: Case
    tokens: int
    outcomes: Outcomes
    rng: np.random.Generator
    method: str = "generate"
    seeded: bool = False
    counts: NDArray[np.int64] = field(init=False)
    speculation: Speculation = field(default=Speculation(), init=False)
    seconds: float = field(default=0.0, init=False)
    slack: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.law), dtype=np.int64)

    @property
    def label(self) -> str:
        """What a reader is shown of the requests."""
        return self.case.label + ", with seeds" * self.seeded

    @property
    def law(self) -> NDArray[np.float64]:
        """The law of the outcomes, [C]."""
        return self.outcomes.law

    @property
    def draws(self) -> int:
        """Completions sampled so far."""
        return int(self.counts.sum())

    def draw(self, count: int) -> None:
        """Add completions."""
        started = time.perf_counter()
        fresh = self.rng.integers(2**31, size=count).tolist()
        seeds = fresh if self.seeded else [None] * count
        is_batch = self.case.code.has("start_many") and self.method == "generate"
        numbers: list[int] = []
        for some in [seeds] if is_batch else ([seed] for seed in seeds):
            with speculation_seen(self.case.code.engine) as seen:
                found = self._generated(some)
            self.speculation |= seen()
            numbers += [self.outcomes.outcome(completion) for completion in found]
        self.counts += np.bincount(np.array(numbers, np.int64), minlength=len(self.counts))
        self.seconds += time.perf_counter() - started

    def _generated(self, seeds: Sequence[int | None]) -> list[Ids]:
        code, prompt = self.case.code, self.case.prompt
        if self.method == "generate":
            return code.completions(prompt, self.tokens, seeds)
        with raising():
            returned = as_list(code.engine.generate_plain(list(prompt), self.tokens, seeds[0]))
        return [code.checked(returned, self.tokens, "generate_plain")]

    @property
    def pace(self) -> float:
        """Completions per second."""
        return self.draws / max(self.seconds, 1e-6)

    @property
    def most_off(self) -> WrongCompletion | None:
        """The completion with the largest gap, as sampled; None where outcomes are no completions."""
        if not self.outcomes.completions or not self.draws:
            return None
        shares = self.counts / self.draws
        worst = int(abs(shares - self.law)[: len(self.outcomes.completions)].argmax())
        gap = Gap(self.outcomes.completions[worst], float(self.law[worst]), float(shares[worst]))
        distance = float(abs(shares - self.law).sum() / 2)
        return WrongCompletion(self.case.name, self.case.prompt, self.tokens, gap, distance)


def _sampled(
    halves: Sequence[tuple[Case, bool]], tokens: Callable[[Case], int], context: Context
) -> tuple[LawResult, Speculation]:
    rng, cases = context.stream("engine/sampled"), list(dict.fromkeys(case for case, _ in halves))
    seed_all(context.seed)
    kinds = {case.label: outcomes(case.code, case.prompt, tokens(case), rng) for case in cases}
    each = [
        CompletionSample(case, tokens(case), kinds[case.label], rng, seeded=half) for case, half in halves
    ]
    fast, with_plain = (
        {sample.label: sample for sample in each},
        {sample.case.label: sample for sample in each if sample.case.code.has("generate_plain")},
    )
    plain = {label: replace(one, method="generate_plain", seeded=False) for label, one in with_plain.items()}
    rate, for_plain = split(context.rate, 3), context.budget * ENGINE_PLAIN_SHARE if plain else 0.0
    check, finds = _judged(fast, rate, context.budget - for_plain, context.admitted)
    is_wrong = False
    if plain:
        of_plain, _ = _judged(plain, rate, for_plain)
        is_wrong = of_plain.status is Status.FAILED
        if is_wrong:
            check = _beside_plain(check, of_plain, fast, plain, rate)
    seen = reduce(or_, (sample.speculation for sample in fast.values()))
    draws = sum(sample.draws for sample in (*fast.values(), *plain.values()))
    bound = max(total_variation_interval(s.counts, s.law, alpha=1e-6).lower for s in fast.values() if s.draws)
    off = [some for sample in fast.values() if (some := sample.most_off)]
    is_failed = check.status is Status.FAILED
    lengths = sorted({sample.tokens for sample in fast.values()})
    scope = (scope_of(cases, lengths, f"{draws:,} samples{_judged_of(lengths)}"), *check.remarks.scope)
    worst = max(off, key=lambda some: some.total_variation, default=None) if is_failed else None
    result = replace(
        remarked(check, scope=scope),
        how=How.SAMPLED,
        measured=Measured(context.rate, draws, bound),
        shown=Shown(worst),
    )
    findings = Findings(total_variation=bound, smallest_detectable_tv=finds, is_reference_wrong=is_wrong)
    return with_findings(result, findings), seen


def _judged_of(lengths: Sequence[int]) -> str:
    """Say which tokens of completions are judged, "" where all are."""
    places = binned(lengths[-1])
    if len(places) == lengths[-1]:
        return ""
    return (
        f", of which tokens {', '.join(str(place + 1) for place in places)} are judged, each given all before"
    )


def _judged(
    samples: dict[str, CompletionSample], rate: float, seconds: float, admitted: float | None = None
) -> tuple[CheckResult, float | None]:
    """Judge samples against their laws, and take the fresh ones over; return what would be found, too."""
    many = all(s.case.code.has("start_many") and s.method == "generate" for s in samples.values())
    decision: SampledDecision[CompletionSample] = judge_samples(
        samples,
        lambda name: replace(samples[name]),
        rate=rate,
        seconds=seconds,
        tv=ENGINE_TV_MANY if many else ENGINE_TV_WANTED,
        batch=effort.ENGINE_MANY if many else effort.ENGINE_ROUND,
        turns=ENGINE_TURNS * len(samples),
        most=10 * effort.ENGINE_MANY,
        admitted=admitted,
    )
    for name, fresh in decision.fresh.items():
        samples[name].counts += fresh.counts
        samples[name].speculation |= fresh.speculation
        samples[name].seconds += fresh.seconds
    scope = (decision.statistics,) if decision.statistics else ()
    if decision.worst is not None:
        worst = decision.fresh.get(decision.worst, samples[decision.worst])
        found = f"{decision.worst}: {decision.reason}"
        if off := worst.most_off:
            gap = off.gap
            found += f"; {gap.actual:.3g} of them are {shown(gap.sequence)}, "
            found += f"target-only decoding gives it probability {gap.expected:.3g}"
        return failed(found, scope=scope), None
    finds = decision.detectable_tv
    if finds <= ENGINE_TV:
        seen = f"{decision.draws:,} samples show no difference (a total variation of {finds:.2g} would show)"
        return passed(seen), finds
    pace = min(sample.pace for sample in samples.values())
    few = f"{decision.draws:,} samples, at {pace:.0f} a second, are too few to detect"
    least = f" (they detect {finds:.3g})" if finds < 1 else ""
    said = f"{few} a total variation of {ENGINE_TV}{least}; raise --budget"
    return inconclusive(said, scope=scope), finds


def _beside_plain(
    check: CheckResult,
    of_plain: CheckResult,
    fast: Mapping[str, CompletionSample],
    plain: Mapping[str, CompletionSample],
    alpha: float,
) -> CheckResult:
    """Judge against what the engine generates without speculation, where its rows are another law."""
    pairs = [(one, plain[one.case.label]) for one in fast.values() if one.case.label in plain]
    rate = split(alpha, len(pairs))
    differs = any(homogeneity_p_value(one.counts, other.counts) <= rate for one, other in pairs)
    if check.status is not Status.FAILED or differs:
        detail = "generate and generate_plain differ; next_token_probs differs from generate_plain too: "
        return replace(check, status=Status.FAILED, detail=detail + of_plain.detail)
    detail = f"next_token_probs is not the distribution of generate_plain: {of_plain.detail}"
    return replace(check, status=Status.INCONCLUSIVE, detail=detail, cause=Cause.UNDECIDED)


def generated_together(
    engine: Any, prompts: Sequence[Ids], tokens: int, seeds: Sequence[int | None]
) -> list[list[Any]]:
    """Return what an engine generates together; raises `ContractError` for what cannot be a batch."""
    returned = as_list(engine.generate_batch([list(prompt) for prompt in prompts], tokens, list(seeds)))
    if len(returned) != len(prompts):
        raise ContractError(f"generate_batch returned {len(returned)} completions for {len(prompts)} prompts")
    return [as_list(completion) for completion in returned]
