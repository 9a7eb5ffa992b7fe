"""What the texts and accepted lengths of a run say against its rule, at stated error rates.

Two e-processes, each with a false-alarm rate of `ALPHA` a run. *Tokens*: every emitted token against the
target's row at its place, recomputed by a second pass over the finished text (`TokenEvidence`: by p, by p/q,
by place, in pairs). *Lengths*: accepted lengths against those of a second verdict of the right rule on the
same drafts, whose random numbers are independent. Given the drafts both have the same expectation, so their
differences are a martingale. This takes one more verdict a call; an enumeration takes one a token of the
vocabulary.

How often does a rule have to accept too much for the second to see it?

>>> rng = np.random.default_rng(0)
>>> evidence = LengthEvidence(4)
>>> evidence.observe(rng.binomial(4, 0.7, 2000) - rng.binomial(4, 0.6, 2000))
>>> evidence.p_value < 1e-9
True
>>> round(evidence.detects(1e-9), 2)
0.44
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

from gpu_tests.observed import Run, truncation_of
from gpu_tests.pair import Pair
from gpu_tests.second_pass import Places, Rounding, cells, mass_by_cell, second_pass
from spec_oracle.language_models import Truncation
from spec_oracle.statistics.long_completions import BY_P, Scored, TokenEvidence, by, joined
from spec_oracle.statistics.power import DEFAULT_MISS

ALPHA = 1e-9
RATIO = "p/q"
STAKES = np.array([sign * 0.5**power for power in range(1, 8) for sign in (1, -1)])
"""Shares of the evidence that are bet on longer and on shorter lengths."""


@dataclass
class LengthEvidence:
    """An e-process against differences d of mean zero, in -L..L: each stake s grows by 1 + s d / L."""

    longest: int
    log_e: Any = field(default_factory=lambda: np.zeros(len(STAKES)))
    largest: float = 0.0
    calls: int = 0
    square: float = 0.0

    def observe(self, differences: Any) -> None:
        """Add differences int [n], in an order that is known before they come."""
        shares = np.asarray(differences, dtype=np.float64) / self.longest
        self.log_e = self.log_e + np.log1p(shares[:, None] * STAKES).sum(axis=0)
        self.calls, self.square = self.calls + len(shares), self.square + float((shares**2).sum())
        self.largest = max(self.largest, float(np.logaddexp.reduce(self.log_e)) - math.log(len(STAKES)))

    @property
    def p_value(self) -> float:
        """Anytime-valid: 1 over the largest e-value so far."""
        return math.exp(-self.largest)

    def detects(self, alpha: float) -> float:
        """Return the tokens a call by which lengths are off when that is detected (normal approximation).

        Whatever calls it is in: where few are off by up to L, the mean square grows by as much as the mean.
        """
        if not self.calls:
            return math.inf
        needed, shift = math.log(len(STAKES) / alpha), np.geomspace(1e-4, 1, 400)[:, None]
        stakes, square = STAKES[STAKES > 0], self.square / self.calls + shift
        mean = stakes * shift - stakes**2 * square / 2
        spread = scipy.stats.norm.isf(DEFAULT_MISS) * stakes * np.sqrt(square * self.calls)
        found = (self.calls * mean - spread >= needed).any(axis=1)
        return float(shift[found.argmax(), 0]) * self.longest if found.any() else math.inf


@dataclass(frozen=True)
class Evidence:
    """What a run says: e-processes of tokens and lengths, and the chance of tokens without mass."""

    tokens: TokenEvidence
    lengths: LengthEvidence
    impossible: float

    @property
    def problems(self) -> list[str]:
        """What contradicts the target or the rule, in words; empty for right ones."""
        found = []
        if self.tokens.p_value <= ALPHA:
            found.append(
                f"tokens contradict the target's rows, most {self.tokens.worst.name} "
                f"(log e-value {self.tokens.largest_log_e:.0f} nats after {self.tokens.tokens:,} tokens)"
            )
        if self.impossible <= ALPHA:
            found.append(f"{self.tokens.impossible} tokens have probability 0")
        if self.lengths.p_value <= ALPHA:
            found.append(
                "accepted lengths are not those of the rule on the same drafts "
                f"(log e-value {self.lengths.largest:.0f} nats after {self.lengths.calls:,} calls)"
            )
        return found

    @property
    def detected_tv(self) -> float:
        """The total variation a token that both orders, by p and by p/q, detect at `ALPHA`."""
        detects = self.tokens.detects(ALPHA)
        return max(detects.get(order, math.inf) for order in (BY_P, by(RATIO)))

    @property
    def detected_length(self) -> float:
        """The tokens a call by which a mean accepted length is detected at `ALPHA`."""
        return self.lengths.detects(ALPHA)


def judged(pair: Pair, run: Run, rule: Any, rounding: Rounding) -> Evidence:
    """Return the evidence of a run, whose rows are right up to the measured rounding."""
    doubt = rounding.doubt(pair.draft_length)
    tokens = TokenEvidence([RATIO], np.random.default_rng(11))
    for _, places in second_pass(pair, run.prompts, run.texts, truncation_of(rule)):
        tokens.add(_scored(places, doubt, rounding.ratio))
    lengths = LengthEvidence(pair.draft_length)
    if len(run.accepted):
        lengths.observe(run.accepted - run.expected)
    every = tokens.tokens + tokens.impossible
    chance = float(scipy.stats.binom.sf(tokens.impossible - 1, every, min(1.0, doubt)))
    return Evidence(tokens, lengths, chance if tokens.impossible else 1.0)


def _scored(places: Places, doubt: float, ratio: float) -> Scored:
    """Return the tokens of some texts by cells, in the order of the texts."""
    cell = cells(places.target, places.draft)
    masses, drafts = (mass_by_cell(rows, cell).cpu().numpy() for rows in (places.target, places.draft))
    came = cell.gather(1, places.came[:, None])[:, 0].cpu().numpy()
    parts, start = [], 0
    for size in places.sizes:
        here = slice(start, start + size)
        known = np.maximum(np.arange(size), 1)
        parts.append(Scored(masses[here], came[here], {RATIO: drafts[here]}, doubt, known, ratio))
        start += size
    return joined(parts)


@dataclass(frozen=True)
class Compared:
    """Texts beside texts that must be equal: ``parted`` of ``tokens`` compared tokens are not explained.

    ``explained`` differences are near ties or rounding, and ``margin`` is the largest gap of two
    probabilities among them; ``why`` says why nothing could be compared, "" if it was.
    """

    tokens: int
    parted: int
    explained: int = 0
    margin: float = 0.0
    why: str = ""

    def __str__(self) -> str:
        if self.why:
            return f"not tried: {self.why}"
        if self.parted:
            return f"DIFFERENT at {self.parted} of {self.tokens:,} tokens"
        ties = f", {self.explained} near ties (margin {self.margin:.1g})" if self.explained else ""
        return f"equal on {self.tokens:,} tokens{ties}"


def greedy_compared(pair: Pair, prompts: Any, texts: Any, rounding: Rounding) -> Compared:
    """Compare texts of greedy decoding with the most likely token of the second pass at every place.

    Another token is a near tie if its probability is less by at most what rounding moves both.
    """
    margins = []
    for _, places in second_pass(pair, prompts, texts, Truncation()):
        own = places.target.gather(1, places.came[:, None])[:, 0]
        margins.append((places.target.max(1).values - own).cpu().numpy())
    margin = np.concatenate(margins)
    other = margin[margin > 0]
    near = other[other <= 2 * rounding.largest]
    return Compared(len(margin), len(other) - len(near), len(near), float(near.max(initial=0)))


def texts_compared(pair: Pair, texts: Any, others: Any, rounding: Rounding) -> Compared:
    """Compare texts sampled with the same random numbers; they part where rounding moves a decision.

    A decision is moved with probability ``rounding.flips``, and a token follows from 2 (L + 1) of them at
    most. Where that explains that all texts part at once, nothing can be said.
    """
    rate = min(1.0, 2 * (pair.draft_length + 1) * rounding.flips)
    if rate ** len(texts) > ALPHA:
        return Compared(0, 0, why=f"rounding may change a token with probability {rate:.1g}")
    tokens, parted = 0, 0
    for text, other in zip(texts, others, strict=True):
        same = [a == b for a, b in zip(text, other, strict=True)]
        tokens += same.index(False) + 1 if False in same else len(same)
        parted += False in same
    is_explained = scipy.stats.binom.sf(parted - 1, tokens, rate) > ALPHA
    return Compared(tokens, 0 if is_explained else parted, parted if is_explained else 0)


def parts_at_near_ties(pair: Pair, prompts: Any, texts: Any, others: Any, rounding: Rounding) -> Compared:
    """Compare greedy texts with greedy texts: where two part, both tokens must be nearly as likely."""
    tokens = parted = near = 0
    widest = 0.0
    for prompt, text, other in zip(prompts, texts, others, strict=True):
        same = [a == b for a, b in zip(text, other, strict=True)]
        if False not in same:
            tokens += len(same)
            continue
        place = same.index(False)
        tokens += place + 1
        ((_, places),) = second_pass(pair, [prompt], [text[: place + 1]], Truncation())
        row = places.target[place]
        gap = float((row[text[place]] - row[other[place]]).abs())
        is_near = gap <= 2 * rounding.largest
        parted, near = parted + (not is_near), near + is_near
        widest = max(widest, gap if is_near else 0.0)
    return Compared(tokens, parted, near, widest)
