"""Requests to an engine as experiments: their completions must be those of target-only decoding.

*Rounding.* Engines compute in float32, so that the distribution of each token may be off by a little, given
all that came before it (`spec_oracle.audit.engine.rounding`). Completions are then off by at most that for
each of their tokens: for laws P and Q of completions x_1..x_n,
TV(P, Q) <= sum over t of E_P TV(P(x_t | x_<t), Q(x_t | x_<t)), since exchanging the rows of one position
after the other moves the law by the mean distance of the rows of that position.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.rounding import Rounding, rounding_of
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.engine.tracer import Asked, traced
from spec_oracle.audit.experiment import Effort, Experiment, Listing, OutcomeCells, find, listed
from spec_oracle.audit.results import CheckResult, LawResult, WrongCompletion, remarked
from spec_oracle.contracts import ContractError
from spec_oracle.contracts.engine import EngineCode, as_list
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.exact import Gap
from spec_oracle.exact.completions import Ids, TokenOrder, product
from spec_oracle.statistics import DEFAULT_ALPHA, draws_needed_by_g

ENGINE_TV: Final = 0.1  # TV that samples must be able to detect before they may call an engine lossless.
ENGINE_TV_WANTED: Final = 0.05  # TV that they should detect if the budget allows.
ENGINE_TV_MANY: Final = 0.03  # The same for engines that decode many requests at once.
# TV between traced and uninstrumented runs of an engine that uninstrumented samples should detect.
ENGINE_CONFIRMING_TV: Final = 0.1
ENGINE_CONFIRMING_SHARE: Final = 0.1  # Share of the budget that these samples may take.
ENGINE_TURNS: Final = 6  # Looks of the screening beyond the first one of every experiment.

MOST_OUTCOMES = 300
BINS = 3
MOST_BINNED = 5
"""How many tokens of a completion have bins: so that there are fewer outcomes than `MOST_OUTCOMES`."""
FEW_IDS, ID_BINS, MOST_BINNED_WITH_IDS = 8, 27, 3
"""Ids beyond which tokens have bins by id, too; how many bins; how many places have bins by probability."""
RARER = 2
"""How many times as many samples as bins outcomes may take."""

WITH_SEEDS: Final = "requests with seeds"


class EngineRequest(NamedTuple):
    """A request for a completion of at most ``tokens`` tokens after a prompt, with a seed or without."""

    prompt: Ids
    tokens: int
    seeded: bool = False


@dataclass
class Requests:
    """Makes experiments of requests to the engines of a subject; ``name`` is that of its random numbers."""

    subject: EngineSubject
    context: Context
    name: str
    rng: np.random.Generator = field(init=False)
    rounding: Rounding = field(init=False)
    turns: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        seed_all(self.context.seed)
        self.rng = self.context.stream(f"engine/{self.name}")
        self.rounding = rounding_of(self.subject, self.context)

    def effort(self, cases: Sequence[Case] = ()) -> Effort:
        """Return the sampling effort for these engines: larger if they decode many requests at once."""
        many = bool(cases) and all(case.code.has("start_many") for case in cases)
        return Effort(
            ENGINE_TV,
            wanted=ENGINE_TV_MANY if many else ENGINE_TV_WANTED,
            look=effort.ENGINE_MANY if many else effort.ENGINE_ROUND,
            turns=ENGINE_TURNS,
            most=10 * effort.ENGINE_MANY,
            pilot=effort.ENGINE_PILOT,
            confirming=ENGINE_CONFIRMING_TV,
            confirming_share=ENGINE_CONFIRMING_SHARE,
            screens_all=False,
        )

    def in_addition(self, share: float, wanted: float = ENGINE_TV) -> Effort:
        """Return the effort for samples in addition to others, within a share of the budget."""
        return replace(self.effort(), tv=math.inf, wanted=wanted, share=share)

    def completion(self, case: Case, tokens: int, *, seeded: bool = False, **more: Any) -> Experiment:
        """Return the experiment of one completion."""
        more = {"group": WITH_SEEDS if seeded else "", **more}
        return self.calls(case, [[EngineRequest(case.prompt, tokens, seeded)]], **more)

    def calls(
        self,
        case: Case,
        calls: Sequence[Sequence[EngineRequest]],
        *,
        method: str = "generate",
        neighbours: bool = False,
        in_pairs: bool = False,
        **more: Any,
    ) -> Experiment:
        """Return the experiment of calls one after another; requests of a call are generated together.

        Several calls are traced on fresh copies of the engine, if it can be copied. Seeds are fresh ones, or
        ``neighbours`` s, s + 1, ... Of many requests the last one may be judged ``in_pairs`` with one of the
        others, each as often: such experiments are sampled.
        """
        code, every = case.code, [request for call in calls for request in call]
        asked = asked_of(code, calls, method, self.rng)
        traced_as = replace(asked, fresh=len(calls) > 1 and code.unused is not None)
        tokens = 2 * every[0].tokens if in_pairs else sum(request.tokens for request in every)
        self.turns += 1
        many = partial(self._sampled, case, every, asked, neighbours=neighbours)
        turn = 0 if neighbours else self.turns
        return Experiment(
            _label(case, calls, method, neighbours=neighbours),
            counted(tokens, "token"),
            partial(_expected, code, every),
            partial(self._beside_last, many, len(every)) if in_pairs else many,
            None if in_pairs else partial(traced, traced_as, first_seed=turn),
            partial(self._pairs if in_pairs else self._cells, code, every),
            tokens * self.rounding.a_token,
            tokens * self.rounding.unsure,
            shown=lambda one: f"completion {shown(one)}",
            tokens=max(request.tokens for request in every),
            wrong_completion=partial(_wrong, case, tokens) if len(every) == len(calls) else None,
            **more,
        )

    def _sampled(
        self, case: Case, every: Sequence[EngineRequest], asked: Asked, count: int, *, neighbours: bool
    ) -> list[Any]:
        """Return the outcomes of ``count`` uninstrumented runs, of one batch if the engine can do that."""
        code, one = case.code, every[0]
        if len(every) == 1 and code.has("start_many") and asked.method == "generate":
            fresh = self.rng.integers(2**31, size=count).tolist()
            with code.drafts.of(code.engine):
                return list(code.completions(one.prompt, one.tokens, fresh if one.seeded else [None] * count))
        next_to = lambda: itertools.count(int(self.rng.integers(2**30)))  # noqa: E731
        return asked.many(count, next_to if neighbours else None)

    def _beside_last(self, many: Callable[[int], list[Any]], size: int, count: int) -> list[Any]:
        """Return the completions of one request, chosen at random, and of the last request."""
        places = self.rng.integers(size - 1, size=count).tolist()
        return [(place, one[place], one[-1]) for place, one in zip(places, many(count), strict=True)]

    def _cells(self, code: EngineCode, every: Sequence[EngineRequest]) -> OutcomeCells:
        if len(every) == 1:
            return outcomes(code, every[0].prompt, every[0].tokens, self.rng, by_id=True)
        return crossed([outcomes(code, one.prompt, one.tokens, self.rng) for one in every])

    def _pairs(self, code: EngineCode, every: Sequence[EngineRequest]) -> OutcomeCells:
        """Return the cells of a request's place and completion, with the completion of the last request."""
        *others, last = (outcomes(code, one.prompt, one.tokens, self.rng) for one in every)
        kinds = [crossed([kind, last]) for kind in others]
        starts = np.cumsum([0, *(len(kind.law) for kind in kinds[:-1])])

        def of(found: Sequence[tuple[int, Ids, Ids]]) -> NDArray[np.int64]:
            cells = [starts[place] + kinds[place].of([tuple(pair)])[0] for place, *pair in found]
            return np.array(cells, np.int64)

        return OutcomeCells(np.concatenate([kind.law for kind in kinds]) / len(kinds), of)

    def find(
        self, experiments: Listing | Sequence[Experiment], context: Context, sizes: Effort, **more: Any
    ) -> LawResult:
        """Decide experiments; a deviation that may be rounding is left open."""
        return find(experiments, context, sizes, doubt=self.rounding.doubt, **more)

    def noted(self, result: LawResult, notes: Sequence[str] = ()) -> LawResult:
        """Return the result with what counts as rounding, and with ``notes`` and those on rounding."""
        remarks, line = result.remarks, str(self.rounding)
        if result.cause is not None:
            notes = (*notes, *self.rounding.notes)
        elif self.rounding.is_assumed:
            notes = (*notes, line)
        every = dict.fromkeys((*remarks.notes, *notes))
        return replace(result, remarks=replace(remarks, scope=(*remarks.scope, line), notes=(*every,)))


def _expected(code: EngineCode, every: Sequence[EngineRequest]) -> Mapping[Any, float]:
    """Return the distribution of these completions by target-only decoding."""
    laws = [code.law(one.prompt, one.tokens) for one in every]
    return laws[0] if len(laws) == 1 else product(laws)


def crossed(kinds: Sequence[OutcomeCells]) -> OutcomeCells:
    """Return the cells of tuples of independent outcomes, one of each kind."""
    law = reduce(lambda law, kind: np.outer(law, kind.law).reshape(-1), kinds, np.ones(1))
    sizes = [len(kind.law) for kind in kinds]

    def of(found: Sequence[Any]) -> NDArray[np.int64]:
        columns = [kind.of([one[number] for one in found]) for number, kind in enumerate(kinds)]
        return np.ravel_multi_index(columns, sizes)

    if not all(kind.outcomes for kind in kinds):
        return OutcomeCells(law, of)
    named = itertools.product(*([*kind.outcomes, None] for kind in kinds))
    return OutcomeCells(law, of, [None if None in some else some for some in named])


def asked_of(
    code: EngineCode, calls: Sequence[Sequence[EngineRequest]], method: str, rng: np.random.Generator
) -> Asked:
    """Return the call that makes these requests; its outcome is a completion, or a tuple of several."""

    def call(engine: Any, seed: Callable[[], int]) -> list[list[object]]:
        found: list[list[object]] = []
        for requests in calls:
            if len(requests) == 1:
                (one,) = requests
                keywords = {"seed": seed()} if one.seeded else {}
                found.append(as_list(getattr(engine, method)(list(one.prompt), one.tokens, **keywords)))
                continue
            seeds = [seed() if one.seeded else None for one in requests]
            prompts = [one.prompt for one in requests]
            found += generated_together(engine, prompts, requests[0].tokens, seeds)
        return found

    every = [request for requests in calls for request in requests]

    def label(found: list[list[Any]]) -> Any:
        checked = tuple(
            code.checked(one, request.tokens, method) for one, request in zip(found, every, strict=True)
        )
        return checked[0] if len(checked) == 1 else checked

    return Asked(code, call, label, rng, method=method)


def generated_together(
    engine: Any, prompts: Sequence[Ids], tokens: int, seeds: Sequence[int | None]
) -> list[list[Any]]:
    """Return what an engine generates together; raises `ContractError` for what cannot be a batch."""
    returned = as_list(engine.generate_batch([list(prompt) for prompt in prompts], tokens, list(seeds)))
    if len(returned) != len(prompts):
        raise ContractError(f"generate_batch returned {len(returned)} completions for {len(prompts)} prompts")
    return [as_list(completion) for completion in returned]


def outcomes(
    code: EngineCode, prompt: Ids, tokens: int, rng: np.random.Generator, *, by_id: bool = False
) -> OutcomeCells:
    """Return a cell for every completion, or tokens in bins of equal probability.

    Bins where completions are too many, or so rare that they take many more samples of an engine that decodes
    one request at a time. Of long completions the tokens at `binned` places have bins. ``by_id``: of large
    vocabularies half of the completions have one token, at any place, in bins by id or by a hash of it.
    """
    is_mixed = by_id and code.vocab_size > FEW_IDS
    places = binned(tokens, MOST_BINNED_WITH_IDS if is_mixed else MOST_BINNED)
    by_rank = BINS ** len(places)
    masses = [np.full(by_rank, 1 / by_rank)]
    if is_mixed:
        masses = [masses[0] / 2, np.full(2 * ID_BINS, 0.25 / ID_BINS)]
    law = np.concatenate([*masses, [0.0]])
    if code.vocab_size**tokens <= MOST_OUTCOMES:
        each = listed(code.law(prompt, tokens))
        needed, for_bins = (draws_needed_by_g(ENGINE_TV, one, alpha=DEFAULT_ALPHA) for one in (each.law, law))
        if needed <= RARER * for_bins or code.has("start_many"):
            return each

    def cell(completion: Ids) -> int:
        inside = rng.random(tokens)
        if is_mixed and rng.random() < 0.5:
            number = int(rng.integers(2))
            bins = code.bins(prompt, completion, inside, ID_BINS, (TokenOrder.ID, TokenOrder.HASH)[number])
            return len(law) - 1 if bins is None else by_rank + number * ID_BINS + int(rng.choice(bins))
        bins = code.bins(prompt, completion, inside, BINS)
        return len(law) - 1 if bins is None else int(bins[places] @ BINS ** np.arange(len(places)))

    return OutcomeCells(law, lambda found: np.array([cell(one) for one in found], np.int64))


def binned(tokens: int, most: int = MOST_BINNED) -> list[int]:
    """Return the places of a completion whose tokens have bins: all, or a few from the first to the last.

    >>> binned(4), binned(48)
    ([0, 1, 2, 3], [0, 12, 24, 35, 47])
    """
    places: list[int] = np.linspace(0, tokens - 1, min(tokens, most)).round().astype(int).tolist()
    return places


def _wrong(case: Case, tokens: int, gap: Gap, distance: float) -> WrongCompletion:
    return WrongCompletion(case.name, case.prompt, tokens, gap, distance)


def _label(case: Case, calls: Sequence[Sequence[EngineRequest]], method: str, *, neighbours: bool) -> str:
    """Return the words for some calls in messages."""
    if method == "generate_plain":
        return f"{case.label}, generate_plain"
    size, (*_, last) = max(len(call) for call in calls), calls[-1]
    batch = f", in a batch of {size}" if size > 1 else f", {len(calls)} in a row" if len(calls) > 1 else ""
    seeds = ", seeds s and s + 1" if neighbours else ", with a seed" if last.seeded else ""
    return f"{case.label}{batch}{seeds}"


def counted(count: int, what: str) -> str:
    """Return a count with its noun, in the plural if needed."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def shown(sequence: tuple[Any, ...]) -> str:
    """Return a completion, or several in a row, for messages."""
    if sequence and isinstance(sequence[0], tuple):
        return " and then ".join(map(shown, sequence))
    return ",".join(map(str, sequence)) or "(empty)"


def with_remarks_of(
    chosen: CheckResult, found: Sequence[CheckResult], more: tuple[str, ...] = ()
) -> CheckResult:
    """Return one of several results, with the samples and the remarks of all."""
    scope = tuple(line for result in found for line in result.remarks.scope)
    notes = tuple(dict.fromkeys(note for result in found for note in result.remarks.notes))
    measured = replace(chosen.measured, draws=sum(result.measured.draws for result in found))
    return replace(remarked(chosen, scope=(*scope, *more), notes=notes), measured=measured)
