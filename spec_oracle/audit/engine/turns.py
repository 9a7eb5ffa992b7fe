"""A further turn of a conversation: its prompt is the first one, the own completion, and a new token.

Engines keep what they computed of a conversation (prefix caches), and a token that ends a turn is easily lost
from it. What a turn begins with must not change it: the turn is held against the same request to a copy of
the engine that has generated nothing. Rows do not matter, since what is generated after such a prompt may
depend on where the prompt ends. Where that cannot be traced, the turn and the same request after another one
are sampled side by side: which of the two comes first, in some order of completions, must be a fair coin.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.engine.requests import ENGINE_TV_MANY, Requests, counted, shown
from spec_oracle.audit.engine.subject import Case
from spec_oracle.audit.engine.tracer import Asked, completions_of, traced
from spec_oracle.audit.experiment import Experiment, Ledger, TracedOutcome, find, indexed
from spec_oracle.audit.results import LawResult
from spec_oracle.contracts import SubjectRaisedError, raising
from spec_oracle.contracts.engine import as_list
from spec_oracle.exact.completions import Ids, is_ended, summed

ENGINE_TURNS_SHARE: Final = 0.1  # Share of the budget for further turns.
# Tokens of a first turn, at most, and completions of it: more of them where none ends earlier.
ENGINE_TURN_TOKENS: Final = 32
ENGINE_TURN_COMPLETIONS: Final = 30

TOKENS = effort.ENGINE_FIRST_TOKENS
GROUP: Final = "second turns"
_ORDERS: Final = 4
"""Orders of completions in which two turns are compared."""


def further_turns(requests: Requests, cases: Sequence[Case], rate: float) -> LawResult | None:
    """Judge a second turn after the first prompt of each engine; None where no engine takes one."""
    firsts = {case.name: case for case in reversed(cases)}.values()
    turns = [turn for case in firsts if (turn := Turn(requests, case)).is_taken()]
    if not turns:
        return None
    context = replace(requests.context, rate=rate)
    sizes = requests.effort(cases, ENGINE_TURNS_SHARE, tv=math.inf, wanted=ENGINE_TV_MANY, screens_all=True)
    return find(
        partial(_listed, turns),
        context,
        sizes,
        rest=sizes,
        instead=[turn.side_by_side() for turn in turns],
        ledger=Ledger(ENGINE_TURNS_SHARE * context.budget),
        doubt=requests.rounding.doubt,
    )


def _listed(turns: Sequence["Turn"], ledger: Ledger) -> Iterator[Experiment]:
    yield from (turn.side_by_side() if GROUP in ledger.untraced else turn.traced() for turn in turns)


@dataclass
class Turn:
    """A second turn of an engine."""

    requests: Requests
    case: Case

    @cached_property
    def news(self) -> Ids:
        """The token that begins the second turn: one that ends nothing."""
        code = self.case.code
        tokens = (*self.case.prompt[::-1], *range(code.vocab_size))
        return next(((one,) for one in tokens if not is_ended((one,), code.endings)), ())

    @cached_property
    def tokens(self) -> int:
        """Tokens of the first turn: as many as it takes until one may end, if these can be listed."""
        code, most = self.case.code, TOKENS
        while code.endings and code.vocab_size <= ENGINE_TURN_COMPLETIONS and most < ENGINE_TURN_TOKENS:
            law = code.law(self.case.prompt, most)
            if len(law) > ENGINE_TURN_COMPLETIONS or any(is_ended(one, code.endings) for one in law):
                break
            most += 1
        return most

    @property
    def label(self) -> str:
        """What a person reads."""
        return f"{self.case.label}, the next turn of its conversation"

    def after(self, first: Ids) -> Ids:
        """Return the prompt of the second turn."""
        return (*self.case.prompt, *first, *self.news)

    def is_taken(self) -> bool:
        """Whether the engine takes such a prompt; if not, a note says why."""
        try:
            self._both(self.case.code.engine, lambda: 0)
        except SubjectRaisedError as error:
            self.requests.notes.append(f"calls: no second turn of a conversation: {error}")
            return False
        return bool(self.news)

    def _generated(self, engine: Any, prompt: Ids, tokens: int) -> list[Any]:
        with raising():
            return as_list(engine.generate([*prompt], tokens))

    def _both(self, engine: Any, _: Callable[[], int]) -> list[list[Any]]:
        first = self._generated(engine, self.case.prompt, self.tokens)
        return [first, self._generated(engine, self.after(tuple(map(int, first))), TOKENS)]

    def _checked(self, found: list[list[Any]]) -> tuple[Ids, ...]:
        first, *others = found
        checked = self.case.code.checked
        return checked(first, self.tokens), *(checked(one, TOKENS) for one in others)

    def traced(self) -> Experiment:
        """Return the experiment of both turns, whose second one must be as if the first had not been."""
        requests, code = self.requests, self.case.code
        asked = Asked(code, self._both, self._checked, fresh=code.unused is not None)
        expected: dict[tuple[Ids, ...], float] = {}

        def trace(most_runs: int, end: float) -> TracedOutcome:
            expected.update(self._as_alone(most_runs, end))
            return replace(requests.traced(asked, 0, most_runs, end), many=None)

        tokens = self.tokens + TOKENS
        return Experiment(
            self.label,
            counted(tokens, "token"),
            lambda: expected,
            lambda count: [replace(asked, fresh=False).sampled(requests.rng) for _ in range(count)],
            trace,
            None,
            2 * tokens * requests.rounding.a_token,
            2 * tokens * requests.rounding.unsure,
            GROUP,
            shown=lambda one: f"completion {shown(one)}",
            tokens=self.tokens,
        )

    def _as_alone(self, most_runs: int, end: float) -> Mapping[tuple[Ids, ...], float]:
        """Return the law of both turns where each is a copy's only one."""
        code, is_fresh = self.case.code, self.case.code.unused is not None

        def law(prompt: Ids, tokens: int) -> Mapping[Ids, float]:
            alone = replace(completions_of(code, prompt, tokens), fresh=is_fresh)
            return traced(alone, most_runs, end).law

        return summed(
            ((first, second), mass * chance)
            for first, mass in law(self.case.prompt, self.tokens).items()
            for second, chance in law(self.after(first), TOKENS).items()
        )

    def side_by_side(self) -> Experiment:
        """Return the experiment of the turn and the same request after another one: which comes first."""
        code, rng = self.case.code, self.requests.rng
        orders = [rng.permutation(code.vocab_size) for _ in range(_ORDERS)]

        def three(engine: Any, seed: Callable[[], int]) -> list[list[Any]]:
            first, turn = self._both(engine, seed)
            self._generated(engine, self.case.prompt, 1)
            return [first, turn, self._generated(engine, self.after(tuple(map(int, first))), TOKENS)]

        def cell(found: tuple[Ids, ...]) -> int:
            number = int(rng.integers(_ORDERS))
            turn, alone = (tuple(orders[number][token] for token in one) for one in found[1:])
            return 2 * number + int(rng.integers(2) if turn == alone else turn < alone)

        asked, fair = Asked(code, three, self._checked), np.full(2 * _ORDERS, 0.5 / _ORDERS)
        return Experiment(
            f"{self.label}, beside the same request later",
            counted(self.tokens + TOKENS, "token"),
            dict,
            lambda count: [cell(asked.sampled(rng)) for _ in range(count)],
            binned=lambda: indexed(fair),
            group=GROUP,
        )
