"""The check `calls`: is the text of several calls the target's? No call remembers or repeats another one."""

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.checks.check import Check, failed, passed, together
from spec_oracle.audit.checks.dependence import BUDGET_SHARE, Design, equal_calls, independent, sessions
from spec_oracle.audit.checks.pairs import PairToy
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.evidence.engine_drawn import drawn_longer_texts
from spec_oracle.audit.evidence.engine_enumerated import enumerated_longer_texts
from spec_oracle.audit.evidence.findings import Findings, NoEvidenceError
from spec_oracle.audit.evidence.keyed import TOKENS, decoded_texts, expected_of, law_of_texts, verified_by
from spec_oracle.audit.evidence.long_texts import TENTHS, Uniforms
from spec_oracle.audit.evidence.row_by_row import beside_rule, rows_needed
from spec_oracle.audit.evidence.served import UNKNOWN_ROWS, Texts, looked_at
from spec_oracle.audit.evidence.texts import law_of_texts as law_of_system_texts
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
from spec_oracle.exact import DecisionError, VerdictError, decoded_law
from spec_oracle.statistics import DEFAULT_MISS, draws_needed_by_g, goodness_of_fit_by_g, split
from spec_oracle.systems.contract import System
from spec_oracle.systems.texts import decoded, unseeded
from spec_oracle.toy import Instance

ROUNDS = 6
BATCH = 500
LEAST_BATCH = 100
"""Requests of a call of slow code."""

KEYED_REQUESTS = 16
RULE_TEXTS = 20_000

CHAINS = (Design((4,), 151), Design((1, 2, 16, 33), 151))
"""Chains of 302 calls, of one batch size and of several in turn, as engines keep graphs for each size."""

COST: Final = {
    "requests": 2 * ROUNDS * BATCH + sum(design.requests for design in CHAINS),
    "least": 2 * ROUNDS * LEAST_BATCH,
}
"""What it takes of a function."""

COMPARED = 38
"""Calls of each size that are compared with a rule."""

TURNS = ("flat", "reversed")
"""Instances whose calls take turns."""

STEPS = Design((4,), 1009, row="request", column="step")
"""Steps of a session, two tokens each at most: systems on toys know contexts of eight."""

MEMORYLESS = Instance.context_free(
    [Fraction(n, 64) for n in (19, 21, 24)], [Fraction(n, 64) for n in (28, 20, 16)], draft_length=1
).floats

SYSTEM_TOKENS = 4
"""Tokens of a system's text: two calls reach that far on toys of draft length 2."""

LONGER = 4
"""How many times longer than the texts of `joint` those of a server are."""

DISTANCES = 6
"""Tokens between pairs whose independence is judged: calls are about that far apart."""

PAIRS_TV = 0.1
"""Total variation of such pairs that must be found, or twice that where texts are short."""

SERVER_TIME = 0.1
"""Share of a server's budget."""

CALLS = Check(
    "calls", "is the text of several calls the target's?", Fraction(15, 100), speaks_against_law=True
)


@CALLS.way(VerifierSubject)
def _decoded(subject: VerifierSubject, bench: Bench, alpha: float) -> CheckResult:
    """Enumerate the text of several calls, carried state and a stop token included."""
    del alpha
    paths = next(iter(bench.toys(subject.num_paths).values())).num_paths
    instance = panel(2, 2, paths, bench.seed)["good-draft"]
    tokens = 2 * instance.draft_length + 1
    try:
        worst = max(
            decoded_law(
                subject.verifier,
                instance,
                tokens,
                exact=bench.exact,
                array="numpy" if bench.exact else bench.array,
                stop_token=stop,
            ).total_variation
            for stop in (None, 0)
        )
    except (DecisionError, VerdictError) as error:
        return failed(str(error))
    if worst > (0 if bench.exact else subject.facts.tolerance):
        result = failed(f"total variation {float(worst):.3g} of {tokens} tokens")
    else:
        size = "exactly 0" if bench.exact else f"at most {float(worst):.1e}"
        result = passed(f"total variation of the first {tokens} tokens {size}")
    return replace(result, total_variation=float(worst))


def _beside_rule(subject: UniformsSubject, bench: Bench) -> CheckResult | None:
    """Compare calls with a rule that has no memory, where one emits the same."""
    toys, rng = panel(3, 1, subject.num_paths, bench.seed), np.random.default_rng([bench.seed, 6])
    turns = itertools.cycle(toys[name] for name in TURNS)
    sizes = [size for design in CHAINS for size in design.sizes] * COMPARED
    calls = (sampled_drafts(next(turns), size, rng) for size in sizes)
    what = f"{len(sizes)} calls of up to {max(sizes)} requests, of two models in turn"
    return beside_rule(CheckResult("calls", Status.PASSED, what, draws=sum(sizes)), subject, bench, calls)


@CALLS.way(FunctionSubject, **COST, of_a_true_law=True)
@CALLS.way(UniformsSubject, **COST, of_a_true_law=True, known=_beside_rule)
def _of_functions(subject: Any, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether calls are independent: consecutive ones of two instances, equal ones at any distance."""
    return together(
        alpha,
        lambda rate: _consecutive(subject, bench, rate),
        lambda rate: independent(
            equal_calls(subject, bench.seed),
            CHAINS,
            rate,
            affordable=bench.affordable(subject, BUDGET_SHARE),
        ),
    )


def _consecutive(subject: Any, bench: Bench, alpha: float) -> CheckResult:
    """Judge whether consecutive calls with one generator, on fresh drafts, are independent.

    Calls take turns between two instances of one shape, as other requests come by in a service: rows that
    were kept from the call before are another model's.
    """
    toys = panel(3, 1, subject.num_paths, bench.seed)
    first, second = (toys[name] for name in TURNS)
    toy = PairToy(subject.code, (first, second), bench.seed)
    generator = subject.code.generator(bench.seed)
    affordable = bench.affordable(subject, BUDGET_SHARE)
    batch = int(np.clip(affordable / ROUNDS / 2, LEAST_BATCH, BATCH))

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            yield [toy.paired(*(toy.texts(batch, generator, member) for member in (0, 1)))]

    return watched("texts of two calls", [toy.law], rounds(), alpha=alpha)


@CALLS.way(KeyedSubject)
def _own_keys(subject: KeyedSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge text over several calls under the engine's own keying, beside texts of its rule, as budgeted.

    Where the rule's texts follow the law, enough of the engine's that are the same settle it; else they are
    judged by themselves.
    """
    rng = np.random.default_rng([bench.seed, 4])
    by_engine, by_rule = verified_by(subject.engine), expected_of(subject.engine)
    law = law_of_texts()
    ruled = watched(
        "texts", [law], [[decoded_texts(by_rule, rng.integers(2**62, size=RULE_TEXTS))]], alpha=alpha
    )
    needed = rows_needed(PAIRS_TV) if ruled.status is Status.PASSED else math.inf
    drawn = differing = 0

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        nonlocal drawn, differing
        end = time.perf_counter() + bench.budget
        while time.perf_counter() < end and (differing or drawn < needed):
            seeds = rng.integers(2**62, size=KEYED_REQUESTS)
            texts = decoded_texts(by_engine, seeds)
            drawn += len(texts)
            differing += int((texts != decoded_texts(by_rule, seeds)).sum())
            yield [texts]

    found = watched(
        f"{TOKENS} tokens over several calls, noise keyed by seed and position", [law], rounds(), alpha=alpha
    )
    if found.status is not Status.PASSED or differing or drawn < needed:
        return found
    detail = (
        f"all {drawn} texts of {TOKENS} tokens as the rule's, its noise keyed by seed and position, "
        f"which finds a total variation of {PAIRS_TV} but for a chance of {DEFAULT_MISS}; "
        f"the rule's {ruled.detail}"
    )
    return replace(found, detail=detail)


@CALLS.way(SystemSubject)
def _texts(subject: SystemSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge text over several calls, then sessions one after another, and many steps of one session."""
    factory = subject.factory
    toys = subject.toys(bench)
    return together(
        alpha,
        lambda rate: law_of_system_texts(
            factory,
            toys,
            tokens=SYSTEM_TOKENS,
            steps=2,
            what="the law of two calls",
            alpha=rate,
            seed=bench.seed,
        ),
        lambda rate: independent(sessions(factory(toys["flat"], bench.seed)), CHAINS, rate),
        lambda rate: _steps(factory(MEMORYLESS, bench.seed), rate),
    )


def _steps(system: System, alpha: float) -> CheckResult:
    """Judge whether steps of a session are independent, where no text ends and no context matters."""
    if system.stop_token is not None or system.max_tokens is not None:
        return passed("texts end, so that steps do depend on each other")

    def draw(design: Design) -> NDArray[np.int64]:
        requests = 2 * design.half
        _, steps = decoded(system, system.start(unseeded(requests)), requests, *design.sizes)
        return np.stack([step.tokens for step in steps], axis=1)

    return independent(draw, [STEPS], alpha)


@CALLS.way(EngineSubject)
def _longer_texts(subject: EngineSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge texts of several calls, and what a generation leaves behind for the next one."""
    cases = subject.cases(bench)
    try:
        found = enumerated_longer_texts(cases, subject.facts, bench, alpha)
    except NoEvidenceError as error:
        found = drawn_longer_texts(cases, bench, alpha)
        found = replace(found, notes=(f"calls: {error}",))
    if bench.findings is not None:
        bench.findings = _together(bench.findings, found)
    return found.joint


def _together(first: Findings, later: Findings) -> Findings:
    """Return findings of first texts that also say what was found of longer ones."""
    notes = tuple(note for note in later.notes if note not in first.notes)
    return replace(
        first, text=first.text or later.text, scope=first.scope + later.scope, notes=first.notes + notes
    )


@CALLS.way(ServerSubject, of_a_true_law=True)
def _long_texts(subject: ServerSubject, bench: Bench, alpha: float) -> CheckResult:
    """Judge long texts token by token, and whether tokens some way apart are independent."""
    served = subject.served
    if bench.is_plain_law_open:
        return CheckResult("", Status.INCONCLUSIVE, UNKNOWN_ROWS)
    texts = Texts(served.server, LONGER * served.plan.tokens, bench.seed, seeded=served.plan.seeded)
    uniforms = Uniforms(served.rows, DISTANCES, np.random.default_rng([bench.seed, 5]))
    # Four of ten tokens are the first of a pair at least, whatever the distance.
    needed = max(
        draws_needed_by_g(served.plan.coarse, np.full(TENTHS, 1 / TENTHS), alpha=split(alpha, 4)),
        5 * draws_needed_by_g(PAIRS_TV, uniforms.at(1)[1], alpha=split(alpha, 2 * DISTANCES)) // 2,
    )

    def draw(tokens: int) -> None:
        before = len(texts.found)
        texts.draw(-(-tokens // texts.length))
        uniforms.add(texts.found[before:])

    def marginal(rate: float) -> CheckResult:
        looks = looked_at(
            draw,
            uniforms.marginal,
            count=needed,
            seconds=SERVER_TIME * bench.budget,
            alpha=rate,
            progress=lambda done, of: served.server.progress("calls", done, of),
        )
        return looks.result(f"tokens 2 to {texts.length} of {len(texts.found)} texts", 2 * served.plan.coarse)

    def pairs(rate: float) -> CheckResult:
        fits = {
            distance: goodness_of_fit_by_g(counts, law, alpha=split(rate, DISTANCES), slack=slack)
            for distance in range(1, DISTANCES + 1)
            for counts, law, slack in [uniforms.at(distance)]
            if counts.any()
        }
        if not fits:
            return CheckResult("", Status.INCONCLUSIVE, "no text is long enough for pairs of tokens")
        distance = min(fits, key=lambda distance: fits[distance].p_value)
        fit, what = fits[distance], f"tokens {distance} apart, the worst of {len(fits)} distances"
        if not fit.passed:
            return failed(f"{what}: {fit}", alpha=rate)
        coarsest = max(fit.smallest_detectable_tv for fit in fits.values())
        status = Status.PASSED if coarsest <= 2 * PAIRS_TV else Status.INCONCLUSIVE
        return CheckResult("", status, f"{what}: {fit}; at any distance it finds {coarsest:.3g}", rate)

    return together(alpha, marginal, pairs)
