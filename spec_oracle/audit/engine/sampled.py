"""What engines generate, by draws: where interception cannot follow, and to confirm it where it can.

Every other text is generated with a seed, a fresh one. As for functions, an e-process watches many draws of
all prompts first, then the G test judges each prompt at a stated power; both share the rate evenly.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import checks_own_rng
from spec_oracle.audit.engine.cases import FIRST_TOKENS, Case, Compared, scope_of, text_of
from spec_oracle.audit.engine.cells import TextCells, listed_cells, text_cells
from spec_oracle.audit.engine.spies import Drafts, drafts_seen
from spec_oracle.audit.reports import Evidence
from spec_oracle.audit.results import CheckResult, Findings, FoundText, NoEvidenceError, Status
from spec_oracle.contracts import make_generator, raising
from spec_oracle.contracts.engine import Text, as_list
from spec_oracle.exact import Gap
from spec_oracle.statistics import (
    EProcess,
    draws_needed_by_g,
    draws_needed_by_joint_e_process,
    goodness_of_fit_by_e_process,
    goodness_of_fit_by_g,
    homogeneity_p_value,
    split,
    total_variation_interval,
)

CONFIRMING_TV = 0.2
"""Total variation between an engine that is watched and one that is not, which plain draws should find."""

CONFIRMING_SHARE = 0.1
"""Share of the budget that these draws may take."""

DRAWN_TOKENS = 4
"""Tokens of the texts that `calls` draws, unless told otherwise."""

TARGET_TV = 0.1
"""Total variation that draws must be able to find before they may call an engine lossless."""

WANTED_TV = 0.05
"""What they should find if the budget allows."""

PLAIN_SHARE = 0.25
"""Share of the time for texts without speculation: they only tell whose fault a defect is."""

SCREENING_SHARE = 0.25
SCREENING_TURNS = 4
ROUND = 50
_PILOT = 10


@dataclass
class Drawn:
    """Texts drawn of one case, as counts of cells; ``plain`` for those without speculation."""

    case: Case
    tokens: int
    cells: TextCells
    plain: bool = False
    counts: NDArray[np.int64] = field(init=False)
    drafts: Drafts = field(default=Drafts(), init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.cells.law), dtype=np.int64)

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Add texts; return the counts of their cells alone."""
        new, code, started = np.zeros_like(self.counts), self.case.code, time.perf_counter()
        for number in range(count):
            seed = int(rng.integers(2**31)) if number % 2 else None
            with drafts_seen(code.engine) as seen:
                text = (
                    self._plain(seed) if self.plain else code.generated(self.case.prompt, self.tokens, seed)
                )
            self.drafts |= seen()
            new[self.cells.cell(text)] += 1
        self.seconds += time.perf_counter() - started
        self.counts += new
        return new

    def _plain(self, seed: int | None) -> Text:
        with raising():
            returned = self.case.code.engine.generate_plain(list(self.case.prompt), self.tokens, seed)
            return self.case.code.checked(as_list(returned), self.tokens, "generate_plain")

    def add(self, other: "Drawn") -> None:
        """Take over the texts of another sample of the same case."""
        self.counts += other.counts
        self.drafts |= other.drafts
        self.seconds += other.seconds

    @property
    def pace(self) -> float:
        """Texts per second."""
        return self.draws / max(self.seconds, 1e-6)

    @property
    def draws(self) -> int:
        """Texts drawn so far."""
        return int(self.counts.sum())

    @property
    def found(self) -> FoundText | None:
        """The text with the largest gap, as drawn; None where cells are no texts."""
        if not self.cells.texts or not self.draws:
            return None
        shares = self.counts / self.draws
        cell = int(abs(shares - self.cells.law)[: len(self.cells.texts)].argmax())
        gap = Gap(self.cells.texts[cell], float(self.cells.law[cell]), float(shares[cell]))
        distance = float(abs(shares - self.cells.law).sum() / 2)
        return FoundText(self.case.name, self.case.prompt, self.tokens, gap, distance)


def seed_all(seed: int) -> None:
    """Seed the global streams that an engine may draw from."""
    make_generator("torch" if "torch" in sys.modules else "numpy", seed)


def confirm(found: Sequence[Compared], alpha: float, context: Context) -> str:
    """Compare plain draws of the longest texts with their enumerated law; return what that could have found.

    An engine may behave otherwise when its random numbers are followed: seeds that it sets are ignored then.
    Raises `NoEvidenceError` where draws contradict a law.
    """
    longest = {c.case: c for c in sorted(found, key=lambda c: c.tokens) if not c.is_pair}
    samples = [
        Drawn(case, compared.tokens, listed_cells(dict(compared.texts.law)))
        for case, compared in longest.items()
    ]
    rng = checks_own_rng(context.seed)
    seed_all(context.seed)
    process = EProcess.against([sample.cells.law for sample in samples])
    needed = draws_needed_by_joint_e_process(CONFIRMING_TV, process.laws, alpha=alpha)
    for number, sample in enumerate(samples):
        process = process.observe(sample.draw(_PILOT, rng), number)
        affordable = CONFIRMING_SHARE * context.budget / len(samples) * sample.pace
        more = int(max(min(needed, affordable) - _PILOT, 0))
        process = process.observe(sample.draw(more, rng), number)
    fit = goodness_of_fit_by_e_process(process, alpha=alpha)
    if not fit.passed:
        worst = samples[int(process.log_e_by_sample.argmax())].case
        raise NoEvidenceError(f"plain draws contradict the law that was followed, {worst}: {fit}")
    return (
        f"confirmed by {process.draws} plain draws, which would have found a total variation of "
        f"{fit.smallest_detectable_tv:.2g}"
    )


def drawn_first_texts(cases: Sequence[Case], context: Context, alpha: float) -> Findings:
    """Judge the first tokens after every prompt by draws."""
    findings, drafts = _drawn(cases, min(context.tokens or FIRST_TOKENS, FIRST_TOKENS), context, alpha)
    if findings.joint.status is Status.PASSED and drafts.missing:
        inconclusive = replace(findings.joint, status=Status.INCONCLUSIVE, detail=drafts.missing)
        findings = replace(findings, joint=inconclusive)
    return replace(findings, notes=(drafts.unknown,) if drafts.unknown else ())


def drawn_longer_texts(cases: Sequence[Case], context: Context, alpha: float) -> Findings:
    """Judge longer texts by draws, each generated after the one before."""
    return _drawn(cases, context.tokens or DRAWN_TOKENS, context, alpha)[0]


def _drawn(cases: Sequence[Case], tokens: int, context: Context, alpha: float) -> tuple[Findings, Drafts]:
    rng, drafts = checks_own_rng(context.seed), Drafts()
    seed_all(context.seed)
    cells = [text_cells(case.code, case.prompt, tokens, rng) for case in cases]
    texts = [Drawn(case, tokens, some) for case, some in zip(cases, cells, strict=True)]
    plain = [Drawn(s.case, tokens, s.cells, plain=True) for s in texts if s.case.code.has("generate_plain")]
    rate, for_plain = split(alpha, 3), context.budget * PLAIN_SHARE * bool(plain)
    check, finds = _judged(texts, rate, context.budget - for_plain, rng)
    of_plain = _judged(plain, rate, for_plain, rng)[0] if plain else None
    is_wrong = of_plain is not None and of_plain.status is Status.FAILED
    if of_plain is not None and is_wrong:
        check = _beside_plain(check, of_plain, texts, plain, rate)
    for sample in texts:
        drafts |= sample.drafts
    draws = sum(sample.draws for sample in (*texts, *plain))
    bound = max(total_variation_interval(s.counts, s.cells.law, alpha=1e-6).lower for s in texts if s.draws)
    shown = [found for sample in texts if check.status is Status.FAILED and (found := sample.found)]
    findings = Findings(
        replace(check, alpha=alpha, draws=draws, total_variation=bound),
        Evidence.STATISTICAL,
        total_variation=bound,
        smallest_detectable_tv=finds,
        is_reference_wrong=is_wrong,
        text=max(shown, key=lambda found: found.total_variation, default=None),
        scope=(scope_of(cases, [tokens], f"sampled, {draws} texts"),),
    )
    return findings, drafts


def _judged(
    samples: Sequence[Drawn], alpha: float, seconds: float, rng: np.random.Generator
) -> tuple[CheckResult, float | None]:
    """Judge samples against the laws of their cells; return what would have been found, too."""
    half, started = split(alpha, 2), time.perf_counter()
    process = EProcess.against([sample.cells.law for sample in samples])
    for turn in range(SCREENING_TURNS * len(samples)):
        number = turn % len(samples)
        process = process.observe(samples[number].draw(ROUND, rng), number)
        is_late = time.perf_counter() - started > SCREENING_SHARE * seconds
        if process.p_value <= half or (is_late and turn >= len(samples)):
            break
    if process.p_value <= half:
        worst = samples[int(process.log_e_by_sample.argmax())]
        detail = f"{worst.case}: e-process p-value {process.p_value:.1e} after {process.draws} texts"
        return CheckResult("", Status.FAILED, detail + _most_off(worst)), None
    finds, rate = 0.0, split(half, len(samples))
    for position, sample in enumerate(samples):
        left = (seconds - (time.perf_counter() - started)) / (len(samples) - position)
        needed = draws_needed_by_g(WANTED_TV, sample.cells.law, alpha=rate)
        # The G test takes fresh draws: those of the screening were looked at already.
        fresh = replace(sample)
        fresh.draw(int(max(min(needed, left * sample.pace), ROUND)), rng)
        sample.add(fresh)
        fit = goodness_of_fit_by_g(fresh.counts, sample.cells.law, alpha=rate)
        if not fit.passed:
            return CheckResult("", Status.FAILED, f"{sample.case}: {fit}{_most_off(fresh)}"), None
        finds = max(finds, fit.smallest_detectable_tv)
    draws = sum(sample.draws for sample in samples)
    if finds <= TARGET_TV:
        return CheckResult(
            "", Status.PASSED, f"no defect in {draws} texts; finds total variation {finds:.3g}"
        ), finds
    pace = draws / (time.perf_counter() - started)
    detail = f"{draws} texts find a total variation of {finds:.3g}, not {TARGET_TV}; {pace:.0f} a second"
    return CheckResult("", Status.INCONCLUSIVE, f"{detail}, raise --budget"), finds


def _most_off(sample: Drawn) -> str:
    found = sample.found
    if found is None:
        return ""
    gap = found.gap
    return f": text {text_of(gap.sequence)} in {gap.actual:.3g} of texts, plainly decoded {gap.expected:.3g}"


def _beside_plain(
    check: CheckResult, of_plain: CheckResult, texts: Sequence[Drawn], plain: Sequence[Drawn], alpha: float
) -> CheckResult:
    """Judge against what the engine generates without speculation: its rows tell another law."""
    pairs = [(t.counts, p.counts) for t in texts for p in plain if t.case is p.case]
    rate = split(alpha, len(pairs))
    differs = any(homogeneity_p_value(*pair) <= rate for pair in pairs)
    if check.status is not Status.FAILED or differs:
        detail = f"generate_plain has another law than generate; and than next_token_probs, {of_plain.detail}"
        return replace(check, status=Status.FAILED, detail=detail)
    detail = f"generate_plain has another law than next_token_probs, {of_plain.detail}"
    return replace(check, status=Status.INCONCLUSIVE, detail=detail)
