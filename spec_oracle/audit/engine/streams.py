"""The check `streams`: same seed same result; other seeds, and requests without a seed, are independent."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.draws import checks_own_rng
from spec_oracle.audit.engine.cases import FIRST_TOKENS, Case
from spec_oracle.audit.engine.cells import TextCells, text_cells
from spec_oracle.audit.engine.sampled import seed_all
from spec_oracle.audit.engine.subject import EngineSubject
from spec_oracle.audit.results import CheckResult, failed, passed
from spec_oracle.audit.sampling import watched

ROUNDS = 6


SEEDS = 8


ENGINE_PAIRS = 240
"""Pairs of texts of engines, all engines of a subject together."""


# WAY @STREAMS.way(EngineSubject, of_a_true_law=True, known=_by_rows)
def streams(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge whether seeded texts repeat, after others too, and whether all other texts are independent."""
    cases = list({case.name: case for case in reversed(subject.cases(context))}.values())
    rng = checks_own_rng(context.seed)
    seed_all(context.seed)

    def neighbours() -> tuple[int, int]:
        seed = int(rng.integers(2**31 - 1))
        return seed, seed + 1

    parts = [lambda rate: _pairs_of_texts(cases, "texts without seed", lambda: (None, None), rate, rng)]
    if seeded := [case for case in cases if case.code.takes_seeds]:
        parts += [
            lambda _: _same_texts(seeded, context.seed),
            lambda rate: _pairs_of_texts(seeded, "texts of seeds s and s + 1", neighbours, rate, rng),
        ]
    return first_failure(alpha, *parts)


def _same_texts(cases: Sequence[Case], seed: int) -> CheckResult:
    seeds = range(seed, seed + SEEDS)
    for case in cases:
        first, again = (
            {s: case.code.generated(case.prompt, FIRST_TOKENS, s) for s in order}
            for order in (seeds, seeds[::-1])
        )
        if moved := [s for s in seeds if first[s] != again[s]]:
            return failed(f"{case}: seeds {moved} give another text the second time", draws=2 * SEEDS)
    return passed(f"{SEEDS} seeds repeat their texts", draws=2 * SEEDS * len(cases))


def _pairs_of_texts(
    cases: Sequence[Case],
    what: str,
    seeds: Callable[[], tuple[int | None, int | None]],
    alpha: float,
    rng: np.random.Generator,
) -> CheckResult:
    """Pair texts that are generated one after the other."""
    cells = [text_cells(case.code, case.prompt, FIRST_TOKENS, rng) for case in cases]
    laws = [np.outer(some.law, some.law).reshape(-1) for some in cells]
    count = max(ENGINE_PAIRS // ROUNDS // len(cases), 4)

    def pair(case: Case, some: TextCells) -> int:
        first, second = (some.cell(case.code.generated(case.prompt, FIRST_TOKENS, s)) for s in seeds())
        return first * len(some.law) + second

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            yield [
                np.array([pair(case, some) for _ in range(count)])
                for case, some in zip(cases, cells, strict=True)
            ]

    return watched(what, laws, rounds(), alpha=alpha)
