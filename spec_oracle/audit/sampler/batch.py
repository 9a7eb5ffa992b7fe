"""The check `batch`: a request's result ignores the others of its batch, their number and its own place.

Batches may mix requests where code takes that: drafts of different length, greedy and sampled requests. Code
shows it by optional keyword parameters: ``draft_lengths`` int [B], where request b has so many drafts (none
is allowed) and its other entries mean nothing, and ``is_greedy`` bool [B], where request b emits the most
likely tokens, the first of equally likely ones.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np

from spec_oracle.arrays import Integers, Numbers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.dependence import independent_calls
from spec_oracle.audit.draws import (
    affordable,
    at_looks,
    completion,
    extended_cells,
    require_affordable,
    sampled_drafts,
)
from spec_oracle.audit.experiment import first_failure, numbered
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, Pair, failed, not_asked, passed
from spec_oracle.audit.sampler.one_call import require_possible
from spec_oracle.audit.sampler.paired_with_rule import beside_rule
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import SamplerCode
from spec_oracle.contracts.sampler import parameters_of
from spec_oracle.statistics import homogeneity
from spec_oracle.toy import Instance
from verifiers import Paths

BATCH_REPEATS: Final = 600  # Calls of one request alone, and of it among others.
# Requests of batches that mix draft lengths, or greedy and sampled requests.
BATCH_MIXED_REQUESTS: Final = 3_000
BATCH_MIXED_ROUNDS: Final = 6  # Batches that they are in.

OPTIONS: Final = {"draft_lengths": "draft lengths", "is_greedy": "greedy and sampled requests"}
"""Optional parameters, and what is mixed in batches for them."""

KINDS: Final = 5
"""Requests of the batch that `_among_odd_requests` returns."""


def batch(subject: SamplerSubject, context: Context) -> CheckResult:
    """Judge whether requests are independent, and whether one has the law that it has alone.

    It is run alone and among odd requests, and in batches of mixed requests where the code takes them.
    """
    if {**subject.facts.only, **context.shapes.only}.get("batch") == (1,):
        return not_asked("declared to take one request at a time")
    code = subject.code
    options, pair = options_of(code), context.findings.pair
    if pair and not options and (found := _beside_rule(pair, subject, context)):
        return found
    requests = BATCH_REPEATS * (1 + KINDS) + BATCH_MIXED_REQUESTS
    require_affordable(subject, context, 2 * requests)
    payable = affordable(subject, context, effort.DEPENDENCE_SHARE)
    instance = panel(3, 3, subject.num_paths, context.seed)["flat"]
    parts: list[Callable[[float], CheckResult]] = [
        lambda rate: alone_and_among_others(subject, context, rate, instance=instance),
        lambda rate: independent_calls(subject, context, rate, calls=1, requests=payable),
    ]
    if subject.num_paths == 1 and options and not context.is_declared(subject):
        # It alone compares with the target: of a lossy sampler it must not hide the others.
        place = len(parts) if context.is_lossy(subject) else 0
        parts.insert(place, lambda rate: mixed_batches(subject, context, rate, instance=instance))
    return first_failure(context.rate, *parts)


def options_of(code: SamplerCode) -> tuple[str, ...]:
    """Return the optional parameters that the function has."""
    return tuple(name for name in OPTIONS if name in parameters_of(code.function))


def _beside_rule(pair: Pair, subject: SamplerSubject, context: Context) -> CheckResult | None:
    """Compare batches with a rule that knows nothing of other requests, where one emits the same."""
    rng, replayed = context.stream("sampler/batch/beside rule"), effort.BATCH_REPLAYED
    instance = panel(3, 3, subject.num_paths, context.seed)["flat"]

    def calls() -> Iterator[Paths]:
        yield from (sampled_drafts(instance, size, rng) for size in effort.BATCH_TURNS)
        for _ in range(replayed):
            odd = _among_odd_requests(sampled_drafts(instance, 1, rng))
            yield odd.take(rng.permutation(KINDS))

    rows = sum(effort.BATCH_TURNS) + replayed * KINDS
    what = f"batches of up to {max(effort.BATCH_TURNS)}, with greedy, one-hot and padded requests"
    return beside_rule(passed(what, draws=rows), pair, subject, context, calls())


@part
def alone_and_among_others(
    subject: CalledAsSampler, context: Context, rate: float, *, instance: Instance
) -> CheckResult:
    """Compare the completions of a request alone with those among odd ones, in a new order every time."""
    code = subject.code
    rng, generator = context.stream("sampler/batch/orders"), code.generator(context.seed)
    request, repeats = sampled_drafts(instance, 1, rng), BATCH_REPEATS
    odd = _among_odd_requests(request)
    orders = [rng.permutation(KINDS) for _ in range(repeats)]

    alone = [code(request, generator).tokens[0] for _ in orders]
    among = [code(odd.take(order), generator).tokens[order == 0][0] for order in orders]
    texts, number = np.unique([*alone, *among], axis=0, return_inverse=True)
    counts = [np.bincount(some, minlength=len(texts)) for some in np.split(number.reshape(-1), 2)]
    fit = homogeneity(*counts, alpha=rate)
    detail = (
        "a request has the same distribution among greedy, one-hot and padded requests as alone "
        f"({repeats} samples each)"
    )
    if not fit.passed:
        worst = int(abs(counts[0] - counts[1]).argmax())
        shares, text = (f"{100 * some[worst] / repeats:.1f} %" for some in counts), texts[worst]
        detail = (
            f"a request emits tokens {','.join(map(str, text[text >= 0]))} in {next(shares)} of {repeats} "
            f"calls alone, and in {next(shares)} among greedy, one-hot and padded requests"
        )
    scope, draws = (f"a request alone and among others: p-value {fit.p_value:.3g}",), repeats * (1 + KINDS)
    result = passed if fit.passed else failed
    return result(detail, alpha=rate, draws=draws, how=How.SAMPLED, scope=scope)


def _among_odd_requests(request: Paths) -> Paths:
    """Return the batch (request, greedy, one-hot draft, equal models, padding)."""
    copies = request.take(np.zeros(KINDS, dtype=np.int64))
    tokens, draft, target = copies.tokens, copies.draft_probs, copies.target_probs
    vocab = request.vocab_size
    target[1] = np.eye(vocab)[target[1].argmax(axis=-1)]
    tokens[2] = (tokens[2] + 1) % vocab
    draft[2] = np.eye(vocab)[tokens[2]]
    target[3] = np.roll(target[3], 1, axis=-1)
    draft[3] = target[3][:, :-1]
    tokens[3] = draft[3].argmax(axis=-1)
    tokens[4] = 0
    draft[4] = target[4][:, :-1] = target[4][:, -1:] = np.eye(vocab)[0]
    return Paths(tokens, draft, target)


@part
def mixed_batches(
    subject: CalledAsSampler, context: Context, rate: float, *, instance: Instance
) -> CheckResult:
    """Judge the texts of mixed batches: sampled ones by the target's law, greedy ones each.

    For functions with `options_of` only.
    """
    code, floats = subject.code, instance.floats
    names, rng = options_of(code), context.stream("sampler/batch/mixed")
    generator = code.generator(context.seed)

    def completions(count: int) -> Integers:
        drafts = sampled_drafts(floats, count, rng)
        chosen = _chosen(names, drafts, rng)
        emissions = code(drafts, generator, chosen)
        greedy = chosen.get("is_greedy", np.zeros(drafts.batch, dtype=bool))
        require_possible(code, drafts, emissions, chosen)
        return extended_cells(floats, emissions.tokens, emissions.lengths, rng)[~greedy]

    law, mixed = floats.target.joint(floats.draft_length + 1), " and ".join(OPTIONS[name] for name in names)
    what, holds = f"completions in batches that mix {mixed}", f"{floats.draft_length + 1} tokens"
    one = numbered(what, holds, law, completions, shown=partial(completion, instance))
    size = BATCH_MIXED_REQUESTS // BATCH_MIXED_ROUNDS
    return at_looks(one, context, rate, size, BATCH_MIXED_ROUNDS)


def _chosen(names: tuple[str, ...], drafts: Paths, rng: np.random.Generator) -> dict[str, Numbers]:
    chosen: dict[str, Numbers] = {}
    if "draft_lengths" in names:
        chosen["draft_lengths"] = rng.integers(drafts.draft_length + 1, size=drafts.batch)
        # What lies beyond a draft must not matter: other tokens, and rows that are laws but not its own.
        beyond = np.arange(drafts.draft_length) >= chosen["draft_lengths"][:, None]
        drafts.tokens[:, 0][beyond] = 0
        drafts.draft_probs[:, 0][beyond] = drafts.draft_probs[:, 0][beyond][:, ::-1]
    if "is_greedy" in names:
        chosen["is_greedy"] = rng.random(drafts.batch) < 1 / 3
    return chosen
