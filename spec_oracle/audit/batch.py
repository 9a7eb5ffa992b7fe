"""The check `batch`: a request's result ignores its batch mates, their number and its own place."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import checks_own_rng, sampled_drafts
from spec_oracle.audit.pairs import PairToy, pairs_over
from spec_oracle.audit.plain import call_plain, make_generator
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.texts import PlainTexts, decoded, unseeded
from spec_oracle.audit.watch import first_failure, watched
from spec_oracle.statistics import homogeneity_p_value
from spec_oracle.systems.contract import SystemFactory
from spec_oracle.toy import Instance
from spec_oracle.toy.contexts import after_tokens, first_of_depth
from verifiers import Drafts

ROUNDS = 6
CALLS_A_ROUND = 50
BATCH = 20
REPEATS = 600
REQUESTS = 2000
STEPS = 2


def batch_of_function(
    subject: Subject, small: Instance, instance: Instance, *, alpha: float, seed: int
) -> CheckResult:
    """Judge whether neighbours are independent, and whether a request has the law that it has alone.

    ``small`` is the toy of pairs, ``instance`` gives the request that is run alone and among odd mates: one
    greedy request (a point-mass p), one with a certain draft (a point-mass q), one whose models agree.
    """
    toy, generator = PairToy((small, small), seed), make_generator(subject.array, seed)

    def neighbours(_: int) -> NDArray[np.int64]:
        texts = np.stack([toy.texts(subject, BATCH, generator) for _ in range(CALLS_A_ROUND)])
        return toy.paired(texts[:, ::2].reshape(-1), texts[:, 1::2].reshape(-1))

    return first_failure(
        "batch",
        lambda: watched(
            "batch", "texts of neighbours", [toy.law], pairs_over(ROUNDS, neighbours), alpha=alpha / 2
        ),
        lambda: _alone_and_among_mates(subject, instance, alpha / 2, seed),
    )


def _alone_and_among_mates(subject: Subject, instance: Instance, alpha: float, seed: int) -> CheckResult:
    request = sampled_drafts(instance, 1, checks_own_rng(seed))
    mates = _with_odd_mates(request)
    generator = make_generator(subject.array, seed)
    alone = _emissions(subject, request, instance, 0, generator)
    together = _emissions(subject, mates, instance, 1, generator)
    cells = first_of_depth(instance.vocab_size, instance.draft_length + 2)
    p_value = homogeneity_p_value(np.bincount(alone, minlength=cells), np.bincount(together, minlength=cells))
    return CheckResult(
        "batch",
        Status.PASSED if p_value > alpha else Status.FAILED,
        f"a request alone and among odd mates: p-value {p_value:.3g} of {REPEATS} draws each",
        alpha,
        2 * REPEATS,
    )


def _with_odd_mates(request: Drafts) -> Drafts:
    """Return the batch (greedy, request, certain draft, equal models)."""
    tokens, draft, target = (
        np.repeat(array, 4, axis=0) for array in (request.tokens, request.draft_probs, request.target_probs)
    )
    vocab = request.vocab_size
    target[0] = np.eye(vocab)[target[0].argmax(axis=-1)]
    tokens[2] = (tokens[2] + 1) % vocab
    draft[2] = np.eye(vocab)[tokens[2]]
    target[3] = np.roll(target[3], 1, axis=-1)
    draft[3] = target[3][:, :-1]
    tokens[3] = draft[3].argmax(axis=-1)
    return Drafts(tokens, draft, target)


def _emissions(
    subject: Subject, drafts: Drafts, instance: Instance, row: int, generator: object
) -> NDArray[np.int64]:
    """Return what request ``row`` emitted in each of `REPEATS` calls, as numbers of contexts."""
    emitted = [call_plain(subject, drafts, generator).tokens[row] for _ in range(REPEATS)]
    return after_tokens(np.zeros(REPEATS, dtype=np.int64), np.stack(emitted), instance.vocab_size)


def batch_of_system(factory: SystemFactory, instance: Instance, *, alpha: float, seed: int) -> CheckResult:
    """Judge whether seeded requests repeat in any batch, and whether the others stay independent in one."""
    return first_failure(
        "batch",
        lambda: _same_in_any_batch(factory, instance, seed),
        lambda: _independent_beside_seeded(factory, instance, alpha, seed),
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
            return CheckResult("batch", Status.FAILED, f"requests with seeds {moved} decode otherwise {name}")
    return CheckResult("batch", Status.PASSED, f"{len(seeds)} seeded requests decode alike in any batch")


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

    return watched("batch", "texts of neighbours without seed", [law], rounds(), alpha=alpha)
