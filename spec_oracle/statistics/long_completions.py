"""Long completions, token by token: each one is a sample of its own next-token distribution, or it is not.

Long completions are too many for a bin each. But let u be uniform on the part of [0, 1] that the next-token
distribution gives to the token that came, tokens put in any order that is known before it came. If the
completions are the target's, all u are uniform and independent, whatever the distributions, the vocabulary
and the length (docs/theory.md, "Statistics"). What is wrong shows in one order or another: a
temperature in the order of p; what verification gets wrong, with p and q of target and draft, in the order of
p/q, since it is nearly always mass between the event p >= q and its complement. A drafter that proposes one
token has q = 1 there.

Do 500 tokens show that drafts are always accepted, by q where p is the target?

>>> rng, n = np.random.default_rng(0), 500
>>> p, q = np.tile([0.5, 0.3, 0.2], (n, 1)), np.tile([0.5, 0.1, 0.4], (n, 1))
>>> evidence = TokenEvidence(["p/q"], rng)
>>> evidence.add(Scored(p, rng.choice(3, n, p=q[0]), {"p/q": q}))
>>> evidence.p_value < 1e-6
True
>>> round(evidence.detects(1e-6)["by p/q"], 2)
0.24
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np

from spec_oracle.arrays import Booleans, Floats, Integers
from spec_oracle.statistics.token_tests import FIRST, KINDS, LAST, Bet, ByOrder, ByPlace, ByRow

T = TypeVar("T")

BINS: Final = (2, 10)
"""Equal bins of u: two have the most power against what verification gets wrong; ten see the rest."""

THIRDS: Final = 3
"""Bins of u in pairs."""

_APART: Final = {
    f"a token and the {nth} one{' after it' * (distance > 1)}": distance
    for distance, nth in enumerate(("next", "2nd", "3rd", "4th", "5th", "6th"), start=1)
}
"""Distances of pairs, tokens: calls are about that far apart."""

OFTEN: Final = 10
"""Of so many tokens one has another one behind it at distances of which it is said what pairs detect."""

RANGES: Final = 10
"""Places 2, 3 to 4, 5 to 8, ...; the last one has no end."""

PERIODS: Final = (4, 8, 16, 32, 64, 128, 256)
"""Places that are judged apart: each of so many in turn, as blocks, pages and budgets of tokens have them."""

LEAST_Q: Final = 1e-12
BY_P: Final = "by p"
ALL, REJECTED, APART = "all tokens", "after a likely rejection", "in pairs of tokens"


@dataclass(frozen=True, eq=False)
class Scored:
    """A run of T tokens of one completion: ``came`` int [T] is the cell of each in its own distribution.

    ``masses`` [T, C]: a cell is a token, the most probable first, and the last one may be all tokens that are
    not listed. ``drafts``: by name, what a drafter gives to the same cells, [T, C]. Rows of NaN are unknown.
    ``doubt`` [T], or a number: by how much a distribution may be off, total variation; ``relative``: by how
    much the ratio of its probabilities to these may differ from 1. ``places`` int [T] are those of the tokens
    in their completion: from 1 on, since nothing speculates on the one before. ``positions`` int [T] count
    the prompt, too; None where it is not known. ``left`` int [T] places come after them in the longest
    context, -1 where its length is not known.
    """

    masses: Floats
    came: Integers
    drafts: Mapping[str, Floats] = field(default_factory=dict)
    doubt: Floats | float = 0.0
    places: Integers | None = None
    relative: Floats | float = math.inf
    positions: Integers | None = None
    left: Integers | None = None


def by_probability(rows: Floats) -> tuple[Integers, Integers]:
    """Return the ids of each row [T, V], the most probable first, and the place of each id: int [T, V]."""
    order = np.argsort(-rows, axis=1, kind="stable")
    return order, np.argsort(order, axis=1)


def joined(parts: Sequence[Scored]) -> Scored:
    """Return several completions as one; tokens that are not known keep them too far apart for pairs."""
    cells, gap = max(part.masses.shape[1] for part in parts), len(_APART)
    total = sum(len(part.came) + gap for part in parts)
    masses, doubt, relative = np.full((total, cells), np.nan), np.zeros(total), np.full(total, math.inf)
    came, places = np.zeros(total, dtype=np.int64), np.ones(total, dtype=np.int64)
    positions, left = np.ones(total, dtype=np.int64), np.full(total, -1, dtype=np.int64)
    drafts = {name: np.full((total, cells), np.nan) for name in parts[0].drafts}
    start = 0
    for part in parts:
        here, width = slice(start, start + len(part.came)), part.masses.shape[1]
        # The last cell is all tokens that are not listed.
        for whole, own in ((masses, part.masses), *((drafts[name], part.drafts[name]) for name in drafts)):
            whole[here, : width - 1], whole[here, width - 1 : -1] = own[:, :-1], 0.0
            whole[here, -1] = own[:, -1]
        came[here] = np.where(part.came == width - 1, cells - 1, part.came)
        doubt[here], relative[here] = part.doubt, part.relative
        places[here] = np.arange(len(part.came)) + 1 if part.places is None else part.places
        positions[here] = places[here] if part.positions is None else part.positions
        left[here] = -1 if part.left is None else part.left
        start = here.stop + gap
    return Scored(masses, came, drafts, doubt, places, relative, positions, left)


def part(scored: Scored, start: int, end: int) -> Scored:
    """Return some tokens of a completion, from one of them up to another; places are counted from there."""
    here = slice(start, end)
    drafts = {name: q[here] for name, q in scored.drafts.items()}
    doubt, relative = (
        one[here] if isinstance(one, np.ndarray) else one for one in (scored.doubt, scored.relative)
    )
    return Scored(scored.masses[here], scored.came[here], drafts, doubt, relative=relative)


class TokenEvidence:
    """What the tokens of completions so far say against their distributions, in the order of p and of p/q.

    One e-process over all orders: two fifths of the stake are on all tokens of an order; a fifth on those in
    one range of places, or behind a token that probably was a correction; a tenth each on pairs some tokens
    apart, and on places (`ByPlace`); a fifth on what verification gets wrong (`Bet`). Of ``whole_rows``, each
    of which lists every token and does not depend on the one that came, a tenth is on equal rows (`ByRow`),
    and as much less on all tokens. It may be looked at any time. ``impossible`` counts tokens of probability
    0: these are no part of it. Where it ``knows_positions`` in prompt and completion, places are judged by
    these, too.
    """

    def __init__(
        self,
        drafts: Iterable[str],
        rng: np.random.Generator,
        *,
        whole_rows: bool = False,
        knows_positions: bool = False,
    ) -> None:
        self.rng, self.tokens, self.impossible, self.largest_log_e = rng, 0, 0, 0.0
        self.drafts = tuple(drafts)
        orders = [BY_P, *map(by, self.drafts)]
        everywhere = [(order, ALL, 1, bins) for order in orders for bins in BINS]
        somewhere = [(by(name), REJECTED, 1, bins) for name in self.drafts for bins in BINS]
        somewhere += [(order, _range(number), 1, BINS[-1]) for order in orders for number in range(RANGES)]
        pairs = [(order, where, THIRDS, THIRDS) for order in orders for where in _APART]
        self.tests = [
            ByOrder(order, where, part / len(kinds), np.zeros((given, bins), dtype=np.int64))
            for part, kinds in ((0.3 if whole_rows else 0.4, everywhere), (0.2, somewhere), (0.1, pairs))
            for order, where, given, bins in kinds
        ]
        from_where = (False, True) if knows_positions else (False,)
        groups = [(0, False, FIRST + 1), *((m, whole, m) for m in PERIODS for whole in from_where)]
        groups += [(0, True, LAST + 1)] if knows_positions else []
        part = 0.1 / (len(orders) * len(groups))
        self.by_place = [
            ByPlace(order, period, whole, part, np.zeros((count, BINS[0] + 1), dtype=np.int64))
            for order in orders
            for period, whole, count in groups
        ]
        part = 0.2 / (len(KINDS) * max(len(self.drafts), 1))
        self.bets = [Bet(by(name), kind, part) for name in self.drafts for kind in KINDS]
        self.by_row = ByRow(0.1) if whole_rows else None
        rows = [] if self.by_row is None else [self.by_row]
        self._all: list[ByOrder | Bet | ByPlace | ByRow] = [*self.tests, *self.bets, *self.by_place, *rows]

    def add(self, scored: Scored) -> None:
        """Add the tokens of a completion, or of several `joined` ones."""
        every = np.arange(len(scored.came))
        own = scored.masses[every, scored.came]
        self.tokens += int((own > 0).sum())
        self.impossible += int((own == 0).sum())
        doubt, relative = (
            np.broadcast_to(np.asarray(one, dtype=np.float64), own.shape)
            for one in (scored.doubt, scored.relative)
        )
        places = every + 1 if scored.places is None else scored.places
        positions = places if scored.positions is None else scored.positions
        left = np.full(len(own), -1) if scored.left is None else scored.left
        ranges = np.minimum(np.log2(places).astype(np.int64), RANGES - 1)
        parts = self.rng.random(len(own))
        if self.by_row is not None:
            possible = own > 0
            self.by_row.observe(scored.masses[possible], scored.came[possible], doubt[possible])
        for order, keys, q in self._orders(scored):
            known = (own > 0) & np.isfinite(keys).all(axis=1)
            u = _uniforms(scored.masses, keys, scored.came, parts)
            kinds: dict[str, Booleans] = {ALL: known}
            kinds |= {_range(number): known & (ranges == number) for number in range(RANGES)}
            if q is not None:
                # A token was a correction with probability max(0, 1 - q/p), if the token rule verified it.
                rejected = 2 * q[every, scored.came] < own
                kinds[REJECTED] = known & np.append(False, rejected[:-1])
                for bet in self.bets:
                    if bet.order == order:
                        of_draft = (scored.masses[known], q[known], scored.came[known])
                        bet.observe(*of_draft, doubt[known], relative[known])
            for one in self.by_place:
                if one.order == order and one.is_absolute and not one.period:
                    near = known & (left >= 0)
                    one.observe(u[near], left[near] + 1, doubt[near])
                elif one.order == order:
                    one.observe(u[known], (positions if one.is_absolute else places)[known], doubt[known])
            for test in self.tests:
                if test.order == order and test.where in kinds:
                    here = np.flatnonzero(kinds[test.where])
                    test.observe(_bin(u[here], test), np.zeros_like(here), doubt[here])
                elif test.order == order:
                    distance = _APART[test.where]
                    both = np.flatnonzero(known[distance:] & known[:-distance])
                    first = _bin(u[both], test)
                    test.observe(_bin(u[both + distance], test), first, doubt[both + distance])
        self.largest_log_e = max(self.largest_log_e, self.log_e)

    def _orders(self, scored: Scored) -> Iterator[tuple[str, Floats, Floats | None]]:
        """Yield names, keys [T, C] of which the smallest comes first, NaN if not known, and q."""
        masses = scored.masses
        yield BY_P, np.where(np.isnan(masses), np.nan, np.arange(masses.shape[1])), None
        for name in self.drafts:
            q = scored.drafts.get(name, np.full_like(masses, np.nan))
            yield by(name), -masses / np.maximum(q, LEAST_Q), q

    @property
    def log_e(self) -> float:
        """Log e-value of all tests together, nats."""
        return float(np.logaddexp.reduce([math.log(test.weight) + test.log_e_value for test in self._all]))

    @property
    def p_value(self) -> float:
        """Anytime-valid: 1 over the largest e-value so far."""
        return math.exp(-self.largest_log_e)

    @property
    def worst(self) -> ByOrder | Bet | ByPlace | ByRow:
        """The test that says most."""
        return max(self._all, key=lambda test: math.log(test.weight) + test.log_e_value)

    def least_tv(self, alpha: float) -> float:
        """Return a lower confidence bound of the TV a token, by the test that shows most."""
        tests = [one for one in self._all if not isinstance(one, Bet)]
        return max(test.least_tv(alpha / len(tests)) for test in tests)

    @property
    def all_by_p(self) -> ByOrder:
        """The test of all tokens in ten bins by p."""
        return next(test for test in self.tests if test.name == f"{BY_P}, {ALL}" and test.counts.size > 2)

    def detects(self, alpha: float) -> dict[str, float]:
        """Return the TV a token that is detected: by order, by bet, and of pairs (`APART`) in the order of p.

        That of an order is between ten bins of u: what the order does not see is not in it. Pairs are left
        out at distances that few tokens have, as where completions are short: no number would detect any.
        """
        found = {
            test.order: test.detects(alpha)
            for test in self.tests
            if test.where == ALL and test.counts.size == BINS[-1] and test.tokens
        }
        found |= {bet.name: bet.detects(alpha) for bet in self.bets}
        pairs = [test for test in self.tests if test.order == BY_P and len(test.counts) > 1]
        often = [test.detects(alpha) for test in pairs if OFTEN * test.tokens >= self.tokens]
        return found | ({APART: max(often)} if often else {})


def by(name: str) -> str:
    """Return the name of the order of p over what a drafter gives."""
    return f"by {name}"


def point_masses(proposed: Sequence[int | None], cells: int) -> Floats:
    """Return q [T, C] of a drafter that proposes one cell, or nothing, each time."""
    q = np.full((len(proposed), cells), np.nan)
    known = {place: cell for place, cell in enumerate(proposed) if cell is not None}
    q[[*known]] = 0.0
    q[[*known], [*known.values()]] = 1.0
    return q


def proposed_along(text: Sequence[T], start: int, gram: int = 2) -> list[T | None]:
    """Return the token that followed the last ``gram`` ones when they came before, None if they did not.

    After each beginning of a text, from ``start`` tokens up to all of it.
    """
    followed, found = dict[tuple[T, ...], T](), list[T | None]()
    for end in range(len(text) + 1):
        last = tuple(text[max(end - gram, 0) : end])
        if end >= start:
            found.append(followed.get(last))
        if gram <= end < len(text):
            followed[last] = text[end]
    return found


def _uniforms(masses: Floats, keys: Floats, came: Integers, parts: Floats) -> Floats:
    """Return u [T]: the mass before the token that came, and ``parts`` [T] of its own."""
    own, number = np.take_along_axis(keys, came[:, None], axis=1), np.arange(masses.shape[1])
    before = (keys < own) | ((keys == own) & (number < came[:, None]))
    u = np.where(before, masses, 0.0).sum(axis=1) + parts * masses[np.arange(len(came)), came]
    return np.asarray(np.minimum(u, np.nextafter(1, 0)))


def _bin(u: Floats, test: ByOrder) -> Integers:
    return np.asarray(u * test.counts.shape[1], dtype=np.int64)


def _range(number: int) -> str:
    """Return a range of places in words; the second token of a completion is number 2."""
    low, high = 2**number + 1, 2 ** (number + 1)
    if number == RANGES - 1:
        return f"from token {low} on"
    return f"tokens {low} to {high}" if number else "token 2"
