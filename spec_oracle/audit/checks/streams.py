"""The check `streams`: same seed same result; other seeds, and requests without a seed, are independent."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.checks.check import Check, failed, passed, together
from spec_oracle.audit.checks.pairs import PairToy
from spec_oracle.audit.draws import checks_own_rng, sampled_drafts
from spec_oracle.audit.evidence.engine_cases import FIRST_TOKENS, Case
from spec_oracle.audit.evidence.engine_drawn import seed_all
from spec_oracle.audit.evidence.near_texts import PAIRS, Text, first_prompt, judged_pairs, volleys
from spec_oracle.audit.evidence.watched import watched
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects.engine import EngineSubject
from spec_oracle.audit.subjects.function import FunctionSubject
from spec_oracle.audit.subjects.keyed import KeyedSubject
from spec_oracle.audit.subjects.server import ServerSubject
from spec_oracle.audit.subjects.system import SystemSubject
from spec_oracle.audit.subjects.uniforms import UniformsSubject
from spec_oracle.audit.subjects.verifier import VerifierSubject
from spec_oracle.servers.apis import Ask
from spec_oracle.systems.contract import System
from spec_oracle.systems.text_cells import TextCells, text_cells
from spec_oracle.systems.texts import PlainTexts, decoded, unseeded

ROUNDS = 6
SEEDS_A_ROUND = 60
BATCH = 8
REPEATED = 64
REQUESTS = 500
FRESH_SESSIONS = 100
SEEDS = 8
ENGINE_PAIRS = 240
"""Pairs of texts of engines, all engines of a subject together."""

REPEATED_BY_SERVERS = 24
SERVER_TIME = 0.1
"""Share of a server's budget."""

Sessions = Callable[[System], tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Decodes two sets of requests by a system, and returns their texts, pair by pair."""

STREAMS = Check("streams", "same seed same result, other seeds independent?", Fraction(10, 100))
STREAMS.does_not_apply("it draws nothing: decisions come from the source it is handed", VerifierSubject)


@STREAMS.way(
    FunctionSubject,
    UniformsSubject,
    KeyedSubject,
    requests=2 * REPEATED + 2 * ROUNDS * SEEDS_A_ROUND * BATCH,
    of_a_true_law=True,
)
def _of_generators(subject: Any, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether a function repeats itself on the same seed, and on no other.

    One that emits what a rule does with the same uniforms has no other streams than theirs.
    """
    instance = panel(3, 1, subject.num_paths, bench.seed)["flat"]
    toy = PairToy(subject.code, (instance, instance), bench.seed)
    seeds = checks_own_rng(bench.seed).integers(2**31, size=(ROUNDS, SEEDS_A_ROUND))

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for chosen in seeds:
            texts, nexts = (
                np.concatenate([toy.texts(BATCH, subject.code.generator(int(s) + shift)) for s in chosen])
                for shift in (0, 1)
            )
            yield [toy.paired(texts, nexts)]

    def repeats(rate: float) -> CheckResult:
        del rate
        drafts = sampled_drafts(instance, REPEATED, checks_own_rng(bench.seed))
        runs = [subject.code(drafts, subject.code.generator(bench.seed)).tokens for _ in range(2)]
        return _same(runs, "on the same seed")

    parts = [repeats]
    if bench.pair is None:
        parts.append(lambda rate: watched("texts of seeds s and s + 1", [toy.law], rounds(), alpha=rate))
    return together(alpha, *parts)


def _same(runs: list[NDArray[np.int64]], when: str) -> CheckResult:
    count = len(runs[0])
    if np.array_equal(runs[0], runs[1]):
        return passed(f"{count} requests repeat {when}", draws=2 * count)
    return failed(f"{count} requests differ {when}", draws=2 * count)


@STREAMS.way(SystemSubject)
def _of_systems(subject: SystemSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether seeded requests repeat in another process, and whether all others are independent."""
    instance, seed = subject.toys(bench)["flat"], bench.seed

    def repeats(rate: float) -> CheckResult:
        del rate
        seeds, texts = list(range(seed, seed + REPEATED)), []
        for entropy in (seed, seed + 1):
            system = subject.factory(instance, entropy)
            texts.append(decoded(system, system.start(seeds), len(seeds), 2)[0])
        return _same(texts, "on the same seeds in another process")

    def pairs(what: str, sessions: Sessions) -> Callable[[float], CheckResult]:
        return lambda rate: _pairs_of_sessions(subject.factory(instance, seed), what, sessions, rate, seed)

    return together(
        alpha,
        repeats,
        pairs("texts of seeds s and s + 1", _neighbouring_seeds(seed)),
        pairs("texts of requests without seed", _one_by_one),
    )


def _neighbouring_seeds(seed: int) -> Sessions:
    rng = checks_own_rng(seed)

    def sessions(system: System) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        seeds = rng.integers(2**31, size=REQUESTS)
        first, second = (
            decoded(system, system.start([int(s) + shift for s in seeds]), REQUESTS, 1)[0] for shift in (0, 1)
        )
        return first, second

    return sessions


def _one_by_one(system: System) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start requests one after another, as a server does; pair each with the next."""
    texts = [decoded(system, system.start(unseeded(1)), 1, 1)[0] for _ in range(2 * FRESH_SESSIONS)]
    return np.concatenate(texts[::2]), np.concatenate(texts[1::2])


def _pairs_of_sessions(system: System, what: str, sessions: Sessions, alpha: float, seed: int) -> CheckResult:
    texts, rng = PlainTexts.of(system, 2), checks_own_rng(seed)
    law = np.outer(texts.law, texts.law).reshape(-1)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            first, second = sessions(system)
            yield [texts.cells(first, rng) * len(texts.law) + texts.cells(second, rng)]

    return watched(what, [law], rounds(), alpha=alpha)


def _by_rows(subject: EngineSubject, bench: Bench) -> CheckResult | None:
    del subject
    if bench.findings is None or not bench.findings.is_reference_wrong:
        return None
    return CheckResult("streams", Status.INCONCLUSIVE, "next_token_probs is not the law of generate_plain")


@STREAMS.way(EngineSubject, of_a_true_law=True, known=_by_rows)
def _of_engines(subject: EngineSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether seeded texts repeat, after others too, and whether all other texts are independent."""
    cases = list({case.name: case for case in reversed(subject.cases(bench))}.values())
    rng = checks_own_rng(bench.seed)
    seed_all(bench.seed)

    def neighbours() -> tuple[int, int]:
        seed = int(rng.integers(2**31 - 1))
        return seed, seed + 1

    parts = [lambda rate: _pairs_of_texts(cases, "texts without seed", lambda: (None, None), rate, rng)]
    if seeded := [case for case in cases if case.code.takes_seeds]:
        parts += [
            lambda _: _same_texts(seeded, bench.seed),
            lambda rate: _pairs_of_texts(seeded, "texts of seeds s and s + 1", neighbours, rate, rng),
        ]
    return together(alpha, *parts)


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


@STREAMS.way(ServerSubject, of_a_true_law=True)
def _of_a_server(subject: ServerSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether seeded requests repeat, alone on the server, and whether all others are independent."""
    served, rng = subject.served, checks_own_rng(bench.seed)
    width, seconds = served.server.client.limits.concurrency, SERVER_TIME * bench.budget / 2

    def repeats(rate: float) -> CheckResult:
        del rate
        seeds = [int(seed) for seed in rng.integers(2**31, size=REPEATED_BY_SERVERS)]
        runs: list[dict[int, Text]] = []
        for order in (seeds, seeds[::-1]):
            texts = [served.server.complete([first_prompt(served, seed)])[0].tokens for seed in order]
            runs.append(dict(zip(order, texts, strict=True)))
        moved = sum(runs[0][seed] != runs[1][seed] for seed in seeds)
        if moved:
            return failed(f"{moved} of {len(seeds)} requests have another text on the same seed")
        return passed(f"{len(seeds)} requests repeat on the same seed", draws=2 * len(seeds))

    def neighbours(rate: float) -> CheckResult:
        def asks() -> list[Ask]:
            seeds = rng.integers(2**31 - 1, size=width)
            return [first_prompt(served, int(seed) + shift) for seed in seeds for shift in (0, 1)]

        found = volleys(served, asks, -(-PAIRS // width), seconds)
        near = [pair for texts in found for pair in zip(texts[::2], texts[1::2], strict=True)]
        return judged_pairs("texts of seeds s and s + 1", near, served, rate)

    def in_turn(rate: float) -> CheckResult:
        found = volleys(served, lambda: [first_prompt(served)] * width, -(-2 * PAIRS // width), seconds)
        near = [
            pair
            for one, two in zip(found[::2], found[1::2], strict=False)
            for pair in zip(one, two, strict=True)
        ]
        return judged_pairs("texts of requests one after another", near, served, rate)

    return together(alpha, repeats, neighbours, in_turn)
