"""The check `batch`: a request's result ignores its batch mates, their number and its own place."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.checks.check import Check, failed, passed, together
from spec_oracle.audit.checks.dependence import BUDGET_SHARE, Design, equal_calls, independent, sessions
from spec_oracle.audit.checks.mixed_batch import mixed_batch, options_of
from spec_oracle.audit.checks.traffic import beside_other_traffic, within_volleys
from spec_oracle.audit.draws import checks_own_rng, sampled_drafts
from spec_oracle.audit.evidence.engine_batches import drawn_batches, enumerated_batches
from spec_oracle.audit.evidence.findings import NoEvidenceError
from spec_oracle.audit.evidence.row_by_row import beside_rule
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
from spec_oracle.exact.call import call_verifier, fresh_state
from spec_oracle.plain import PlainCode
from spec_oracle.statistics import homogeneity_p_value
from spec_oracle.systems.contract import SystemFactory
from spec_oracle.systems.texts import PlainTexts, decoded, unseeded
from spec_oracle.toy import Instance
from spec_oracle.toy.contexts import after_tokens, first_of_depth
from verifiers import AnyVerifier, Drafts, replayed_decisions

BATCHES = (
    *(Design((2,), 601), Design((16,), 151), Design((33,), 79)),
    *(Design((128,), 37), Design((130,), 37), Design((1030,), 19)),
)
"""Half as many calls as are made, at each size: primes, so that no usual period hides in their halves."""

REPEATS = 600
KINDS = 5
MIXED = 3000
ROUNDS = 6
REQUESTS = 2000
STEPS = 2
REPLAYED = 16
"""Requests of a batch that are replayed alone."""

UNIFORMS = 64
"""More than any request takes."""

COST: Final = {
    "requests": sum(design.requests for design in BATCHES) + REPEATS * (1 + KINDS) + MIXED,
    "least": 2 * (REPEATS * (1 + KINDS) + MIXED),
}
"""What it takes of a function."""

BATCH = Check(
    "batch",
    "does a request ignore its mates, their number and its place, and share no randomness with them?",
    Fraction(10, 100),
    speaks_against_law=True,
)


@BATCH.way(VerifierSubject)
def _by_replay(subject: VerifierSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether requests get the same verdict alone, and in another order, given the same uniforms."""
    del alpha
    verifier, rng = subject.verifier, np.random.default_rng(bench.seed)
    instance = next(iter(bench.toys(subject.num_paths).values()))
    sizes = [size for design in BATCHES for size in design.sizes]
    for size in sizes:
        drafts = sampled_drafts(instance, size, rng, subject.drafting)
        uniforms = rng.random((size, UNIFORMS))
        together, order = verdicts(verifier, drafts, uniforms), rng.permutation(size)
        if not np.array_equal(together[order], verdicts(verifier, *_rows(drafts, uniforms, order))):
            return failed(f"a batch of {size} is decided otherwise in another order")
        for row in {0, size - 1, *order[:REPLAYED].tolist()}:
            alone = verdicts(verifier, *_rows(drafts, uniforms, np.array([row])))
            if not np.array_equal(together[[row]], alone):
                return failed(f"request {row} of {size} is decided otherwise alone")
    return passed(f"requests of batches of {', '.join(map(str, sizes))} decided alike alone and in any order")


def _rows(
    drafts: Drafts, uniforms: NDArray[np.float64], rows: NDArray[np.int64]
) -> tuple[Drafts, NDArray[np.float64]]:
    return _ordered(drafts, rows), uniforms[rows]


def _ordered(drafts: Drafts, rows: NDArray[np.int64]) -> Drafts:
    return Drafts(*(array[rows] for array in (drafts.tokens, drafts.draft_probs, drafts.target_probs)))


def verdicts(verifier: AnyVerifier, drafts: Drafts, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return (tau, path, next token) of every request, int [B, 3], decided by its row of ``uniforms``."""
    state = fresh_state(verifier, drafts.batch)
    verdict, _ = call_verifier(verifier, drafts, replayed_decisions(uniforms), state)
    return np.stack([verdict.num_accepted, verdict.path, verdict.next_token], axis=1)


def _beside_rule(subject: UniformsSubject, bench: Bench) -> CheckResult | None:
    """Compare batches with a rule that knows no mates, where one emits the same."""
    if options_of(subject.code):
        return None
    rng = checks_own_rng(bench.seed)
    instance = panel(3, 3, subject.num_paths, bench.seed)["flat"]
    sizes = [size for design in BATCHES for size in design.sizes]

    def calls() -> Iterator[Drafts]:
        yield from (sampled_drafts(instance, size, rng) for size in sizes)
        for _ in range(REPLAYED):
            yield _ordered(_with_odd_mates(sampled_drafts(instance, 1, rng)), rng.permutation(KINDS))

    rows, what = sum(sizes) + REPLAYED * KINDS, f"batches of up to {max(sizes)}, odd mates among them"
    return beside_rule(CheckResult("batch", Status.PASSED, what, draws=rows), subject, bench, calls())


@BATCH.way(UniformsSubject, **COST, of_a_true_law=True, known=_beside_rule)
@BATCH.way(FunctionSubject, KeyedSubject, **COST, of_a_true_law=True)
def _by_draws(subject: Any, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether requests are independent, and whether one has the law that it has alone.

    It is run alone and among odd mates, and in batches of mixed requests where the code takes them.
    """
    code, seed = subject.code, bench.seed
    instance = panel(3, 3, subject.num_paths, seed)["flat"]
    parts: list[Callable[[float], CheckResult]] = [
        lambda rate: _alone_and_among_mates(code, instance, rate, seed),
        lambda rate: independent(
            equal_calls(subject, seed), BATCHES, rate, affordable=bench.affordable(subject, BUDGET_SHARE)
        ),
    ]
    if subject.num_paths == 1 and options_of(code):
        parts.insert(0, lambda rate: mixed_batch(code, instance, MIXED, rate, seed))
    return together(alpha, *parts)


def _alone_and_among_mates(code: PlainCode, instance: Instance, alpha: float, seed: int) -> CheckResult:
    """Compare the texts of a request alone with its texts among odd mates, in a new order every time."""
    rng, generator = checks_own_rng(seed), code.generator(seed)
    request = sampled_drafts(instance, 1, rng)
    mates = _with_odd_mates(request)
    orders = [rng.permutation(KINDS) for _ in range(REPEATS)]

    def texts(emitted: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return how often each text was emitted, by number of context."""
        reached = after_tokens(np.zeros(REPEATS, dtype=np.int64), np.stack(emitted), instance.vocab_size)
        return np.bincount(reached, minlength=first_of_depth(instance.vocab_size, instance.draft_length + 2))

    alone = texts([code(request, generator).tokens[0] for _ in orders])
    among = texts([code(_ordered(mates, order), generator).tokens[order == 0][0] for order in orders])
    p_value = homogeneity_p_value(alone, among)
    return CheckResult(
        "",
        Status.PASSED if p_value > alpha else Status.FAILED,
        f"a request alone and among odd mates: p-value {p_value:.3g} of {REPEATS} draws each",
        alpha,
        REPEATS * (1 + KINDS),
    )


def _with_odd_mates(request: Drafts) -> Drafts:
    """Return the batch (request, greedy, certain draft, equal models, padding)."""
    tokens, draft, target = (
        np.repeat(array, KINDS, axis=0)
        for array in (request.tokens, request.draft_probs, request.target_probs)
    )
    vocab = request.vocab_size
    target[1] = np.eye(vocab)[target[1].argmax(axis=-1)]
    tokens[2] = (tokens[2] + 1) % vocab
    draft[2] = np.eye(vocab)[tokens[2]]
    target[3] = np.roll(target[3], 1, axis=-1)
    draft[3] = target[3][:, :-1]
    tokens[3] = draft[3].argmax(axis=-1)
    tokens[4] = 0
    draft[4] = target[4][:, :-1] = target[4][:, -1:] = np.eye(vocab)[0]
    return Drafts(tokens, draft, target)


@BATCH.way(SystemSubject)
def _by_sessions(subject: SystemSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether seeded requests repeat in any batch, and whether the others stay independent in one."""
    instance = subject.toys(bench)["flat"]
    return together(
        alpha,
        lambda _: _same_in_any_batch(subject.factory, instance, bench.seed),
        lambda rate: _independent_beside_seeded(subject.factory, instance, rate, bench.seed),
        lambda rate: independent(sessions(subject.factory(instance, bench.seed)), BATCHES, rate),
    )


def _same_in_any_batch(factory: SystemFactory, instance: Instance, seed: int) -> CheckResult:
    seeds = list(range(100, 116))

    def texts(order: Sequence[int | None]) -> dict[int, int]:
        system = factory(instance, seed)
        reached, _ = decoded(system, system.start(order), len(order), STEPS)
        return {s: int(text) for s, text in zip(order, reached, strict=True) if s is not None}

    alone = {s: text for one in seeds for s, text in texts([one]).items()}
    batches: dict[str, Sequence[int | None]] = {
        "together": seeds,
        "in another order": seeds[::-1],
        "in a batch of odd size": seeds[:5],
        "beside requests without seed": [s for pair in zip(seeds, unseeded(16), strict=True) for s in pair],
    }
    for name, order in batches.items():
        found = texts(order)
        moved = [s for s, text in found.items() if alone[s] != text]
        if moved:
            return failed(f"requests with seeds {moved} decode otherwise {name}")
    return passed(f"{len(seeds)} seeded requests decode alike in any batch")


def _independent_beside_seeded(
    factory: SystemFactory, instance: Instance, alpha: float, seed: int
) -> CheckResult:
    """Pair neighbouring requests without seed, in batches where every third request has one."""
    system, rng = factory(instance, seed), checks_own_rng(seed)
    texts = PlainTexts.of(system, 2)
    law = np.outer(texts.law, texts.law).reshape(-1)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            seeds: list[int | None] = [
                int(s) if i % 3 == 0 else None for i, s in enumerate(rng.integers(2**31, size=REQUESTS))
            ]
            reached, _ = decoded(system, system.start(seeds), REQUESTS, 1)
            cells = texts.cells(reached, rng)
            first, second = cells[1::3], cells[2::3]
            count = min(len(first), len(second))
            yield [first[:count] * len(texts.law) + second[:count]]

    return watched("texts of neighbours without seed", [law], rounds(), alpha=alpha)


@BATCH.way(EngineSubject)
def _by_texts(subject: EngineSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether texts generated together have the law of independent ones: enumerated, else drawn."""
    cases = [case for case in subject.cases(bench) if case.code.has("generate_batch")]
    try:
        return enumerated_batches(cases, subject.facts)
    except NoEvidenceError:
        return drawn_batches(cases, alpha, bench)


@BATCH.way(ServerSubject, of_a_true_law=True)
def _by_traffic(subject: ServerSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether requests served at once are independent, and have the law that they have alone."""
    return together(
        alpha,
        lambda rate: within_volleys(subject.served, rate, bench.budget),
        lambda rate: beside_other_traffic(subject.served, rate, bench.budget),
    )
