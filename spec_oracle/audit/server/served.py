"""What the checks of a server share: the plan, the rows of plain decoding, the texts drawn, and looks."""

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spec_oracle.adapters.servers.apis import Ask, Token
from spec_oracle.adapters.servers.client import ServerError
from spec_oracle.adapters.servers.metrics import Drafts
from spec_oracle.audit.results import TARGET_TV, CheckResult, Status
from spec_oracle.audit.server.one_token import PlainRows
from spec_oracle.audit.server.tree import PlainTree
from spec_oracle.contracts.server import Context, Server
from spec_oracle.errors import InvalidInputError
from spec_oracle.statistics import DEFAULT_MISS, GoodnessOfFit, goodness_of_fit_by_g, log_e_value, split

COARSE, COARSEST = 2.5, 0.5
"""How much coarser than texts single tokens may be tested: relative to the plan, and at most."""

NEAR = 8
"""Contexts near the prompts whose rows are asked for again, and compared with draws."""

PILOT = 24
"""Draws after each of these contexts by which the reading of probabilities is chosen."""

CERTAIN = 0.98
"""Probability of a first token, beyond which texts that are all alike are no surprise."""

TOLD_APART = 0.5
"""Least mass of texts that must be told apart beyond their first token, on which nothing speculates."""

UNKNOWN_ROWS = "the probabilities that the server shows are not known to be those of its draws"

FIRST_LOOK = 64
LOOK_SECONDS = 2.0
"""The first look at the evidence is after that many draws, the others are about that far apart."""


@dataclass(frozen=True)
class Plan:
    """What to ask of a server.

    Texts of ``tokens`` tokens; ``requests`` of them at most, None for as many as find a total variation of
    ``detect``. ``seeded``: each request has a seed of its own, so that one that is sent again is the same.
    ``assume_speculating``: the user knows that drafts are made, whatever the server tells of them.
    """

    tokens: int = 4
    requests: int | None = None
    detect: float = TARGET_TV
    seeded: bool = False
    assume_speculating: bool = False

    @property
    def coarse(self) -> float:
        """The total variation that tests of single tokens must find."""
        return min(COARSE * self.detect, COARSEST)

    def __post_init__(self) -> None:
        if self.tokens < 2:
            raise InvalidInputError(
                f"tokens: expected at least 2, got {self.tokens}; nothing speculates on the first"
            )
        if self.requests is not None and self.requests < 1:
            raise InvalidInputError(f"requests: expected at least 1, got {self.requests}")
        if not 0 < self.detect < 1:
            raise InvalidInputError(f"detect: expected a total variation in (0, 1), got {self.detect}")


@dataclass
class Texts:
    """Texts of ``length`` tokens, drawn from a server after prompts chosen at random.

    ``found`` in the order in which they were drawn. ``doubtful`` came after a failed attempt; ``drafts`` is
    what the answers tell of drafts, ``odd_counts`` the first of it that cannot be.
    """

    server: Server
    length: int
    seed: int
    seeded: bool = False
    found: list[Context] = field(default_factory=list, init=False)
    doubtful: int = field(default=0, init=False)
    drafts: Drafts = field(default=Drafts(0, 0), init=False)
    odd_counts: str = field(default="", init=False)
    _tally: Counter[Context] = field(default_factory=Counter, init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng([self.seed, self.length])

    def draw(self, count: int) -> None:
        """Draw some more."""
        numbers = self._rng.integers(len(self.server.prompts), size=count)
        seeds = self._rng.integers(2**31, size=count)
        asks = [
            Ask(self.server.prompts[number], self.length, int(seed) if self.seeded else None)
            for number, seed in zip(numbers, seeds, strict=True)
        ]
        completions = self.server.complete(asks)
        new = [(int(number), done.tokens) for number, done in zip(numbers, completions, strict=True)]
        self.found += new
        self._tally.update(new)
        self.doubtful += sum(done.is_doubtful for done in completions)
        for done in completions:
            self.drafts += Drafts(done.drafted, done.accepted)
            self.odd_counts = self.odd_counts or done.odd_counts

    def counts(self, tree: PlainTree) -> NDArray[np.int64]:
        """Return how many texts fell into each cell, int [C]; raises `ContractError`."""
        counts = np.zeros(len(tree.law), dtype=np.int64)
        for (number, tokens), times in self._tally.items():
            counts[tree.cell(number, tokens)] += times
        return counts

    def after(self, number: int) -> list[tuple[Token, ...]]:
        """Return the texts after one prompt."""
        return [tokens for prompt, tokens in self.found if prompt == number]


@dataclass
class Served:
    """A server under audit; ``reference`` serves the same model without drafts, if there is one."""

    server: Server
    plan: Plan = field(default_factory=Plan)
    reference: Server | None = None
    seed: int = 0

    @cached_property
    def texts(self) -> Texts:
        """The texts of `joint`; other checks compare theirs with them."""
        return Texts(self.server, self.plan.tokens, self.seed, seeded=self.plan.seeded)

    @cached_property
    def rows(self) -> PlainRows:
        """The rows of plain decoding, their reading chosen and their noise measured."""
        rows = PlainRows(self.server)
        rows.choose_reading(rows.draws(near_contexts(rows) * PILOT))
        rows.measure_noise(near_contexts(rows))
        return rows

    def drafts_since(self, before: Drafts) -> Drafts:
        """Return what is known of the drafts of `joint`: by its answers, else by the server's counters."""
        told = self.texts.drafts
        return told if told.accepted is not None else self.server.drafts().since(before)

    @property
    def is_certain(self) -> bool:
        """Whether texts after the first prompt may well be all the same; they may where no row is known."""
        row = self.rows.row((0, ())) if self.server.listed else None
        return row is None or float(row.probabilities[0]) > CERTAIN

    @property
    def doubt(self) -> float:
        """What answers after a failed attempt may hide, total variation: it may have failed for its text.

        Nothing, if each had a seed that fixes the text: then the same text came at last.
        """
        texts = self.texts
        if not texts.doubtful or (self.plan.seeded and self.server.repeats_seeds):
            return 0.0
        return texts.doubtful / len(texts.found)

    def joint(
        self, result: CheckResult, proven: float, detectable: float, drafts: Drafts, told_apart: float
    ) -> CheckResult:
        """Return the result of `joint`: nothing passes on texts that say too little, or nothing of drafts.

        A total variation of ``proven`` is certain, of ``detectable`` would have been found. ``told_apart`` is
        the mass of texts that are told apart beyond their first token.
        """
        open_, plan = "", self.plan
        if result.status is Status.FAILED and 0 < self.doubt >= proven:
            open_ = (
                f"{self.doubt:.2%} of the answers came after a failed attempt, which may explain it; --seeded"
            )
        elif result.status is not Status.PASSED:
            return result
        elif drafts.vacuity and not (plan.assume_speculating and drafts.accepted is None):
            open_ = drafts.vacuity
        elif detectable > plan.detect:
            doubt = f", {self.doubt:.2g} of it for doubtful answers" if self.doubt else ""
            open_ = f"finds a total variation of {detectable:.3g}{doubt}, not {plan.detect}"
            open_ += "; raise --budget, --requests or --detect"
        elif told_apart < TOLD_APART:
            open_ = (
                f"only {told_apart:.0%} of texts are told apart beyond their first token; filter by --top-k"
            )
        if not open_:
            return result
        return replace(result, status=Status.INCONCLUSIVE, detail=f"{open_} ({result.detail})")


def near_contexts(rows: PlainRows) -> list[Context]:
    """Return the prompts, and the most probable contexts one token behind them; none that ends a text."""
    roots: list[Context] = [(number, ()) for number in range(len(rows.server.prompts))]
    rows.fetch(roots)
    listed = [(log, root, token) for root in roots for token, log in rows.logs(root).items()]
    children = [(n, (token,)) for _, (n, _), token in sorted(listed, key=lambda entry: -entry[0])]
    open_ = [child for child in children if child[1][0] not in rows.server.ends]
    rows.fetch(open_[: NEAR - len(roots)])
    return [*roots, *open_[: max(0, NEAR - len(roots))]]


@dataclass(frozen=True)
class Looks:
    """How a test of draws ended: the fit, and why draws ended early, "" if they did not."""

    fit: GoodnessOfFit
    ended: str = ""

    def result(self, what: str, coarsest: float) -> CheckResult:
        """Return the result of a check; it passes if it would have found a TV of ``coarsest``."""
        fit, status, ended = self.fit, Status.PASSED, ""
        if not fit.passed:
            status = Status.FAILED
        elif self.ended:
            status, ended = Status.INCONCLUSIVE, f"; ended early: {self.ended}"
        elif fit.smallest_detectable_tv > coarsest:
            status, ended = Status.INCONCLUSIVE, f", not {coarsest:.3g}; raise --budget or --requests"
        return CheckResult("", status, f"{what}: {fit}{ended}", 2 * fit.alpha, fit.draws)


Sample = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]
"""Counts [C], their law [C], and its slack [C]."""


def looked_at(
    draw: Callable[[int], None],
    sample: Callable[[], Sample],
    *,
    count: int,
    seconds: float,
    alpha: float,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Looks:
    """Draw until there are ``count`` draws or the time is up; stop at once where the evidence suffices.

    Half of ``alpha`` is for an e-process at every look, the other half for the G test of all draws in the
    end. Draws end early with the server. Raises `ServerError` where it is gone before the first look.
    """
    half, start, ended = split(alpha, 2), time.monotonic(), ""
    counts, law, slack = sample()
    before, step = counts.sum(), FIRST_LOOK
    while counts.sum() < count and (not counts.any() or time.monotonic() - start < seconds):
        try:
            draw(int(min(step, count - counts.sum())))
        except ServerError as error:
            if not counts.any():
                raise
            ended = str(error)
            break
        counts, law, slack = sample()
        progress(int(counts.sum()), count)
        log_e = float(log_e_value(counts, law, slack))
        if log_e >= -math.log(half):
            return Looks(_found(counts, log_e, half))
        pace = (counts.sum() - before) / (time.monotonic() - start)
        step = max(FIRST_LOOK, int(LOOK_SECONDS * pace))
    return Looks(goodness_of_fit_by_g(counts, law, alpha=half, slack=slack), ended)


def _found(counts: NDArray[np.int64], log_e: float, alpha: float) -> GoodnessOfFit:
    """Return the fit of an e-process that has found a defect."""
    return GoodnessOfFit(
        test="e-process",
        statistic=log_e,
        degrees_of_freedom=len(counts) - 1,
        p_value=math.exp(-log_e),
        alpha=alpha,
        miss=DEFAULT_MISS,
        draws=int(counts.sum()),
        smallest_detectable_tv=math.inf,
        off_support=(),
    )
