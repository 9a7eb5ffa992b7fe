"""The check `calls`: every token of long completions is the target's; no call repeats another one.

Long completions are too many for a bin each. But let u be uniform on the part of [0, 1] that the next-token
distribution gives to the token that came, tokens in order of probability. If the completion is the target's,
all u are uniform and independent, whatever the distributions. A server that favours likely tokens shows in u;
a call that repeats the randomness of another one, in pairs of u some tokens apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.results import CheckResult, How, failed, inconclusive, not_asked, passed
from spec_oracle.audit.sampling import judge_looks
from spec_oracle.audit.server import subject as subjects
from spec_oracle.audit.server.bins import Binned, Bins
from spec_oracle.audit.server.conclusion import result_of, samples_needed, unless_unconfirmed
from spec_oracle.audit.server.distributions import Distributions
from spec_oracle.audit.server.subject import Completions, ServerSubject
from spec_oracle.contracts.server import Prefix, Token
from spec_oracle.statistics import draws_needed_by_g, goodness_of_fit_by_g, split

TENTHS = 10
THIRDS = 3


def calls(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge long completions token by token, and whether tokens some way apart are independent."""
    plan, rate = subject.plan, context.rate
    if not subject.server.listed:
        return not_asked(subjects.NEEDS_PROBABILITIES)
    if subjects.is_unchecked(context):
        return inconclusive(subjects.UNCHECKED)
    length = effort.SERVER_LONGER * plan.tokens
    long = Completions(subject.server, length, (context.seed, "server/calls"), plan.seeded)
    uniforms = Uniforms(subject.distributions, context.stream("server/calls/uniforms"))
    # Four of ten tokens are the first of a pair at least, whatever the distance.
    share, of_pairs = split(rate, 2 * effort.SERVER_DISTANCES), uniforms.pairs_at(1)[1]
    pairs = draws_needed_by_g(effort.SERVER_DISTANCES_TV, of_pairs, alpha=share)
    alone = draws_needed_by_g(plan.coarse, uniforms.by_tenths()[1], alpha=split(rate, 4))
    needed = max(alone, 5 * pairs // 2)

    def tokens_alone(rate: float) -> CheckResult:
        more = Binned(lambda tokens: uniforms.add(long.sample(-(-tokens // length))), uniforms.by_tenths)
        progress = partial(subject.server.tell, "calls")
        decision = judge_looks(more, rate=rate, count=needed, seconds=context.budget, progress=progress)
        uncertain = (
            "" if samples_needed(2 * plan.coarse, more, rate)[1] else subject.distributions.uncertainty
        )
        what = f"tokens 2 to {length} of {len(long.found):,} completions"
        return result_of(what, decision, 2 * plan.coarse, rate, uncertain)

    return unless_unconfirmed(first_failure(rate, tokens_alone, uniforms.pairs), context)


@dataclass
class Uniforms:
    """The u of completions sampled so far: counts by tenths, and of pairs by thirds, [distance - 1, 9].

    First tokens are left out: nothing speculates on them.
    """

    distributions: Distributions
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self._tenths = np.zeros(TENTHS, dtype=np.int64)
        self._pairs = np.zeros((effort.SERVER_DISTANCES, THIRDS**2), dtype=np.int64)
        self._slack = 0.0

    def add(self, completions: Sequence[Prefix]) -> None:
        """Add completions; asks for the distributions of all their prefixes at once."""
        self.distributions.fetch(
            (n, tokens[:end]) for n, tokens in completions for end in range(1, len(tokens))
        )
        for number, tokens in completions:
            u = np.array(self._of(number, tokens))
            self._tenths += np.bincount((u * TENTHS).astype(np.int64), minlength=TENTHS)
            thirds = (u * THIRDS).astype(np.int64)
            for distance in range(1, min(effort.SERVER_DISTANCES, len(u) - 1) + 1):
                # Every other run of ``distance`` tokens, so that no u is in two pairs.
                first = np.flatnonzero(np.arange(len(u) - distance) // distance % 2 == 0)
                both = thirds[first] * THIRDS + thirds[first + distance]
                self._pairs[distance - 1] += np.bincount(both, minlength=THIRDS**2)

    def _of(self, number: int, tokens: tuple[Token, ...]) -> list[float]:
        """Return the u of a completion, up to the first prefix whose distribution is not known."""
        found = []
        for end in range(1, len(tokens)):
            law = self.distributions.after((number, tokens[:end]))
            if law is None:
                break
            place = law.index(tokens[end])
            masses = np.append(law.probabilities, law.other)
            low = float(masses[:place].sum()) if place >= 0 else 1 - law.other
            # A token that is ruled out is put at the very end, where it does the most harm.
            found.append(min(low + float(masses[place]) * self.rng.random(), np.nextafter(1, 0)))
            self._slack = max(self._slack, law.slack + TENTHS * law.other_error)
        return found

    def by_tenths(self) -> Bins:
        """Return the counts by tenths, their law, and what errors of distributions explain."""
        return self._tenths.copy(), np.full(TENTHS, 1 / TENTHS), np.full(TENTHS, self._slack)

    def pairs_at(self, distance: int) -> Bins:
        """Return the same of pairs that many tokens apart, by thirds."""
        bins = THIRDS**2
        return self._pairs[distance - 1], np.full(bins, 1 / bins), np.full(bins, 2 * self._slack)

    def pairs(self, rate: float) -> CheckResult:
        """Judge whether tokens are independent, at every distance."""
        share = split(rate, effort.SERVER_DISTANCES)
        fits = {
            distance: goodness_of_fit_by_g(counts, law, alpha=share, slack=slack)
            for distance in range(1, effort.SERVER_DISTANCES + 1)
            for counts, law, slack in [self.pairs_at(distance)]
            if counts.any()
        }
        if not fits:
            return inconclusive("no completion is long enough for pairs of tokens; raise --tokens")
        worst = min(fits, key=lambda distance: fits[distance].p_value)
        coarsest = max(fit.smallest_detectable_tv for fit in fits.values())
        known: dict[str, Any] = {
            "alpha": rate,
            "how": How.SAMPLED,
            "scope": (f"tokens {worst} apart: {fits[worst]}",),
        }
        if not fits[worst].passed:
            return failed(f"tokens {worst} apart are not independent", **known)
        what = f"tokens up to {max(fits)} apart are independent"
        detail = f"{what}; a total variation of {coarsest:.2g} would show"
        if coarsest <= 2 * effort.SERVER_DISTANCES_TV:
            return passed(detail, **known)
        return inconclusive(f"{detail}, not {2 * effort.SERVER_DISTANCES_TV:g}; raise --budget", **known)
