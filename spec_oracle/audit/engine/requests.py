"""Requests to an engine as experiments: their completions must be those of target-only decoding.

*Rounding.* Engines compute in float32, so that the distribution of each token may be off by a little, given
all that came before it (`spec_oracle.audit.engine.rounding`). Completions are then off by at most that for
each of their tokens: for laws P and Q of completions x_1..x_n,
TV(P, Q) <= sum over t of E_P TV(P(x_t | x_<t), Q(x_t | x_<t)), since exchanging the rows of one position
after the other moves the law by the mean distance of the rows of that position.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.cells import ENGINE_TV, crossed, outcomes
from spec_oracle.audit.engine.rounding import Rounding, rounding_of
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.engine.tracer import Asked, EngineRequest, asked_of, traced
from spec_oracle.audit.experiment import Experiment
from spec_oracle.audit.results import Cause, CheckResult, LawResult, WrongCompletion, remarked
from spec_oracle.audit.sampling import Effort, OutcomeCells
from spec_oracle.contracts import raising
from spec_oracle.contracts.engine import EngineCode
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.exact.completions import product

ENGINE_TV_WANTED: Final = 0.05  # TV that they should detect if the budget allows.
ENGINE_TV_MANY: Final = 0.03  # The same for engines that decode many requests at once.
# TV between traced and uninstrumented runs of an engine that uninstrumented samples should detect.
ENGINE_CONFIRMING_TV: Final = 0.1
ENGINE_CONFIRMING_SHARE: Final = 0.1  # Share of the budget that these samples may take.
ENGINE_TURNS: Final = 6  # Looks of the screening beyond the first one of every experiment.

WITH_SEEDS: Final = "requests with seeds"


class Requests:
    """Makes experiments of requests to the engines of a subject; ``name`` is that of its random numbers."""

    def __init__(self, subject: EngineSubject, context: Context, name: str) -> None:
        seed_all(context.seed)
        self.subject, self.context, self._turns = subject, context, itertools.count(1)
        self.rng = context.stream(f"engine/{name}")

    @cached_property
    def rounding(self) -> Rounding:
        """What counts as rounding."""
        return rounding_of(self.subject, self.context)

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
        **more: Any,
    ) -> Experiment:
        """Return the experiment of calls one after another; requests of a call are generated together.

        Several calls are traced on fresh copies of the engine, if it can be copied. Seeds are fresh ones, or
        ``neighbours`` s, s + 1, ...
        """
        code, every = case.code, [request for call in calls for request in call]
        asked = asked_of(code, calls, method, self.rng)
        traced_as = replace(asked, fresh=len(calls) > 1 and code.unused is not None)
        tokens = sum(request.tokens for request in every)
        turn, first = next(self._turns), every[0]
        joint = lambda: product([code.law(one.prompt, one.tokens) for one in every])  # noqa: E731
        wrong = lambda gap, tv: WrongCompletion(case.name, case.prompt, tokens, gap, tv)  # noqa: E731
        return Experiment(
            _label(case, calls, method, neighbours=neighbours),
            counted(tokens, "token"),
            partial(code.law, first.prompt, first.tokens) if len(every) == 1 else joint,
            partial(self._sampled, case, every, asked, neighbours=neighbours),
            partial(traced, traced_as, first_seed=0 if neighbours else turn),
            partial(self._cells, code, every),
            allowed=tokens * self.rounding.a_token,
            doubtful=tokens * self.rounding.unsure,
            shown=lambda one: f"completion {shown(one, ' and then ' if len(calls) > 1 else ' and ')}",
            tokens=max(request.tokens for request in every),
            wrong_completion=wrong if len(every) == len(calls) else None,
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

    def _cells(self, code: EngineCode, every: Sequence[EngineRequest]) -> OutcomeCells:
        if len(every) == 1:
            return outcomes(code, every[0].prompt, every[0].tokens, self.rng, by_id=True)
        return crossed([outcomes(code, one.prompt, one.tokens, self.rng) for one in every])

    def noted(self, result: LawResult, notes: Sequence[str] = ()) -> LawResult:
        """Return the result with what counts as rounding, and with ``notes`` and those on rounding."""
        remarks, line, do = result.remarks, str(self.rounding), result.remarks.do
        if result.cause is not None or self.rounding.is_assumed:
            notes = (*notes, line)
        if result.cause is Cause.UNDECIDED and self.rounding.doubt in result.detail:
            do = do or self.rounding.step
        every = (*dict.fromkeys((*remarks.notes, *notes)),)
        return replace(result, remarks=replace(remarks, scope=(*remarks.scope, line), notes=every, do=do))


def sampled_instead(
    requests: Requests, cases: Sequence[Case], tokens: Callable[[Case], int]
) -> list[Experiment]:
    """Return completions of so many tokens, without seeds and with, for engines that cannot be traced."""
    seeded = [case for case in cases if case.code.takes_seeds]
    return [
        *(requests.completion(case, tokens(case)) for case in cases),
        *(requests.completion(case, tokens(case), seeded=True) for case in seeded),
    ]


def tokens_of_a_call(context: Context, case: Case) -> int:
    """Return how many tokens to sample: a whole call if requests are decoded together, else a few."""
    if not case.code.has("start_many"):
        return min(context.inputs.tokens or effort.ENGINE_LEAST_TOKENS, effort.ENGINE_FIRST_TOKENS)
    with raising():
        whole = int(case.code.engine.draft_length) + 1
    return min(context.inputs.tokens or whole, whole)


def _label(case: Case, calls: Sequence[Sequence[EngineRequest]], method: str, *, neighbours: bool) -> str:
    """Return the words for some calls in messages."""
    if method == "generate_plain":
        return f"{case.label}, generate_plain"
    size, (*_, last) = max(len(call) for call in calls), calls[-1]
    batch = f", in a batch of {size}" if size > 1 else f", {len(calls)} in a row" if len(calls) > 1 else ""
    batch += ", and then alone" * (size > 1 and len(calls) > 1)
    seeds = ", seeds s and s + 1" if neighbours else ", with a seed" if last.seeded else ""
    return f"{case.label}{batch}{seeds}"


def counted(count: int, what: str) -> str:
    """Return a count with its noun, in the plural if needed."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def shown(sequence: tuple[Any, ...], between: str = " and then ") -> str:
    """Return a completion, or several, in a row unless other words are ``between`` them, for messages."""
    if sequence and isinstance(sequence[0], tuple):
        return between.join(map(shown, sequence))
    return ",".join(map(str, sequence)) or "(empty)"


def with_remarks_of(
    chosen: CheckResult, found: Sequence[CheckResult], more: tuple[str, ...] = ()
) -> CheckResult:
    """Return one of several results, with the samples and the remarks of all."""
    scope = tuple(line for result in found for line in result.remarks.scope)
    notes = tuple(dict.fromkeys(note for result in found for note in result.remarks.notes))
    measured = replace(chosen.measured, draws=sum(result.measured.draws for result in found))
    return replace(remarked(chosen, scope=(*scope, *more), notes=notes), measured=measured)
