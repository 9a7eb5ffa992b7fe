"""Random drafts of an instance, calls on them as experiments, and how many calls the budget allows."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import numpy as np

from spec_oracle import clock
from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import sampled_trees
from spec_oracle.audit.experiment import Experiment, numbered, sampled
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import LawResult, TooSlowError
from spec_oracle.audit.sampling import Effort
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import ContractError, Emissions, SamplerCode, SubjectRaisedError
from spec_oracle.exact.call import draft_table
from spec_oracle.exact.drafting import Drafting
from spec_oracle.statistics.streams import stream
from spec_oracle.toy import Instance
from verifiers import Drafts, Paths, Siblings
from verifiers.sampling import invert_cdf


def sampled_drafts(
    instance: Instance, batch: int, rng: np.random.Generator, drafting: Siblings = Siblings.INDEPENDENT
) -> Paths:
    """Sample the paths of ``batch`` requests from an instance, as float64 arrays."""
    table = draft_table(instance, drafting)
    return table.paths(table.sampled(batch, rng))


def extended_cells(
    instance: Instance, tokens: Integers, lengths: Integers, rng: np.random.Generator
) -> Integers:
    """Continue emissions by the target to L+1 tokens; return each completion's index among V^(L+1), int [B].

    ``tokens`` int [B, L+1], or fewer, of which the first ``lengths`` [B] count.
    """
    vocab, target, last = instance.vocab_size, instance.floats.target, tokens.shape[1] - 1
    index = np.zeros(len(tokens), dtype=np.int64)
    for position in range(instance.draft_length + 1):
        rows = target.rows(position)[index]
        drawn = invert_cdf(rows, rng.random(len(tokens)))
        index = index * vocab + np.where(position < lengths, tokens[:, min(position, last)], drawn)
    return index


def completion(instance: Instance, cell: int, tokens: int = 0) -> str:
    """Return what a person reads for the completion of L+1 tokens, or of so many, with this index."""
    shape = (instance.vocab_size,) * (tokens or instance.draft_length + 1)
    return f"completion {','.join(map(str, map(int, np.unravel_index(cell, shape))))}"


class Calls:
    """Calls of a sampler, or of a rule called as one, as experiments: completions of L+1 tokens.

    Drafts have a stream of their own, by ``name``: one shared with the code would couple drafts to its
    decisions, defect C1 of the catalogue in the harness. All calls share one generator, unless they are given
    another. ``lengths`` counts accepted lengths [L+1] by the name of an instance.
    """

    def __init__(self, code: SamplerCode, seed: int, name: str) -> None:
        self.code, self.seed, self.rng = code, seed, stream(seed, name)
        self.lengths: dict[str, Integers] = {}

    @cached_property
    def generator(self) -> object:
        """The generator of calls that are given no other."""
        return self.code.generator(self.seed)

    def on(self, name: str, instance: Instance, drafting: Drafting | None = None, **more: Any) -> Experiment:
        """Return the experiment of one call on an instance; ``more`` are other fields of it.

        ``drafting`` makes draft trees, None: the paths of the instance.
        """
        floats = instance.floats
        self.lengths[name] = np.zeros(instance.draft_length + 1, dtype=np.int64)
        many = partial(self.completions, floats, name=name, drafting=drafting)
        usual = {"shown": partial(completion, floats)}
        size = f"{instance.draft_length + 1} tokens"
        return numbered(f"instance {name!r}", size, _joint(instance), many, **{**usual, **more})

    def completions(
        self,
        instance: Instance,
        count: int,
        generator: object = None,
        *,
        name: str = "",
        drafting: Drafting | None = None,
    ) -> Integers:
        """Verify so many requests in one call; return their completions by index among V^(L+1), int [B]."""
        emissions = self.emissions(instance, count, drafting, generator)
        if name in self.lengths:
            width = len(self.lengths[name])
            self.lengths[name] += np.bincount(emissions.lengths - 1, minlength=width)
        return extended_cells(instance, emissions.tokens, emissions.lengths, self.rng)

    def emissions(
        self, instance: Instance, count: int, drafting: Drafting | None = None, generator: object = None
    ) -> Emissions:
        """Verify so many requests in one call."""
        drafts: Paths | Drafts
        if drafting is None:
            drafts = sampled_drafts(instance, count, self.rng)
        else:
            drafts = sampled_trees(instance, drafting, count, self.rng)
        return self.code(drafts, self.generator if generator is None else generator)


Cells: TypeAlias = Integers


def pair_of_completions(
    what: str, instances: tuple[Instance, Instance], many: Callable[[int], tuple[Cells, Cells]]
) -> Experiment:
    """Return the experiment of two completions that must be independent, one on each instance.

    ``many`` makes so many pairs, or a few more; it returns their completions by index, int [N] each.
    """
    laws = [_joint(instance) for instance in instances]
    width = len(laws[1])

    def paired(count: int) -> Cells:
        first, second = many(count)
        return first * width + second

    def shown(cell: int) -> str:
        both = zip(instances, divmod(cell, width), strict=True)
        return " and then ".join(completion(instance, one) for instance, one in both)

    return numbered(what, "2 completions", np.outer(*laws).reshape(-1), paired, shown=shown)


def _joint(instance: Instance) -> Floats:
    """Return the target's distribution of completions of L+1 tokens, [V^(L+1)]."""
    return instance.floats.target.joint(instance.draft_length + 1)


def at_looks(one: Experiment, context: Context, rate: float, size: int, rounds: int) -> LawResult:
    """Judge samples of one experiment by screening alone: at ``rounds`` looks, ``size`` samples at each."""
    return sampled([one], replace(context, rate=rate), Effort(math.inf, size, turns=rounds - 1))


PLAIN_BATCHES: Final = (8, 1)
"""Requests of plain calls."""


def plain_verification(code: SamplerCode, drafting: Siblings, num_paths: int, seed: int) -> None:
    """Verify one batch and one request, on rows without zeros; errors are those of the contract."""
    toy, rng = panel(3, 3, num_paths, seed)["flat"], stream(seed, "first-call")
    generator = code.generator(seed)
    for batch in PLAIN_BATCHES:
        code(sampled_drafts(toy, batch, rng, drafting), generator)


PACE_REQUESTS: Final = 16  # Requests of a call that measures how fast a sampler is.
PACE_CALLS: Final = 8  # Such calls at most; the fastest counts, since other programs slow some down.
PACE_SECONDS: Final = 0.1  # Time after which no further one begins.


def pace(subject: CalledAsSampler, context: Context) -> float:
    """Return verified requests per second of the fastest of some calls: the first may compile.

    Infinite where the subject raises: the checks will say so better. It is measured once a subject and seed.
    """
    known: dict[int, float] = vars(subject).setdefault("_pace", {})
    if context.seed not in known:
        calls = Calls(subject.code, context.seed, "sampler/pace")
        instance = panel(3, 3, subject.num_paths, context.seed)["flat"]
        took: list[float] = []
        try:
            calls.completions(instance.floats, PACE_REQUESTS)
            while not took or (len(took) < PACE_CALLS and sum(took) < PACE_SECONDS):
                started = clock.now()
                calls.completions(instance.floats, PACE_REQUESTS)
                took.append(clock.now() - started)
            known[context.seed] = PACE_REQUESTS / max(min(took), 1e-9)
        except (ContractError, SubjectRaisedError):
            known[context.seed] = float("inf")
    return known[context.seed]


def affordable(subject: CalledAsSampler, context: Context, share: float = 1.0) -> float:
    """Return how many requests a share of the budget allows."""
    return share * context.budget * pace(subject, context)


def require_affordable(subject: CalledAsSampler, context: Context, least: int) -> None:
    """Raise `TooSlowError` where the budget does not allow so many requests."""
    if least > affordable(subject, context):
        raise too_slow(subject, context, least)


def too_slow(subject: CalledAsSampler, context: Context, least: int, share: float = 1.0) -> TooSlowError:
    """Return the error of a check that takes more requests than its ``share`` of the budget allows."""
    rate = pace(subject, context)
    seconds = least / rate
    budget = 10 * math.ceil(1.5 * seconds / share / 10)  # half as much again is allowed for
    says = f"takes {least:,} requests, about {seconds:,.1f} s at {rate:,.0f} a second; raise --budget"
    return TooSlowError(says, f"--budget {budget}")
