"""Engines with a recurrent target, whose state every token changes for good: what a call leaves in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from lab.specimens.call_patterns import SometimesBare
from lab.specimens.specimen import specimens_of
from lab.specimens.table_engine import DRAFT, VOCAB, Row, Rows, Uniform, engine, table

STATES = VOCAB * VOCAB
_ROWS = table(5)

Tokens: TypeAlias = list[int]


def state_of(context: Sequence[int]) -> tuple[int, int]:
    """Return the state that a text leads to; every token changes it for good."""
    state = 0
    for token in context:
        state = (2 * state + token + 1) % STATES
    return divmod(state, VOCAB)


def recurrent_row(context: Sequence[int]) -> Row:
    """Return the row of the state that a text leads to."""
    return _ROWS(state_of(context))


def near(context: Sequence[int]) -> Row:
    """Return a row of a drafter that is mostly right."""
    return [0.9 * p + 0.1 * q for p, q in zip(recurrent_row(context), DRAFT(context), strict=True)]


@dataclass
class RecurrentEngine(SometimesBare):
    """The token rule; ``keeps(drafted, emitted, drafts)`` is what the state has read when a call starts.

    That is, of the call before: given what that one drafted and emitted, and the drafts of the call itself.
    """

    target: Rows = recurrent_row
    keeps: Callable[[Tokens, Tokens, Tokens], Tokens] = lambda drafted, emitted, drafts: emitted
    seen: Tokens = field(default_factory=list, init=False)
    before: tuple[int, Tokens] = field(default=(0, []), init=False)
    """Length of the text at the call before, and what it drafted."""

    def emitted(self, context: Tokens, drafts: Tokens, uniform: Uniform, seed: int | None) -> Tokens:
        """Return what a call emits."""
        length, drafted = self.before if self.past else (0, [])
        kept = self.keeps(drafted, context[length:], drafts) if self.past else context
        self.seen = [*(self.seen if self.past else ()), *kept]
        self.before = len(context), drafts
        return super().emitted(context, drafts, uniform, seed)

    def verifying(self, context: Sequence[int]) -> Row:
        """Return the row of the target that verifies the token after a context."""
        return self.target([*self.seen, *context[self.before[0] :]])


def _keeping(keeps: Callable[[Tokens, Tokens, Tokens], Tokens]) -> Any:
    return engine(partial(RecurrentEngine, keeps=keeps))


def _six(keeps: Callable[[Tokens, Tokens, Tokens], Tokens]) -> Any:
    return engine(partial(RecurrentEngine, keeps=keeps, draft=near, draft_length=6))


specimens_of("calls", engine=_keeping)(
    recurrent_column_0=(
        "E13: A call without drafts reads the state of the first column, without what was accepted before",
        lambda drafted, emitted, drafts: emitted if drafts else emitted[-1:],
    ),
)
specimens_of("joint", engine=_keeping)(
    recurrent_keeps_rejected=(
        "E14: The state has read all drafts of a call, the rejected ones too",
        lambda drafted, emitted, drafts: [*drafted, *emitted[-1:]],
    ),
)
specimens_of("long-texts", engine=_six)(
    recurrent_keeps_four_drafts=(
        "E16: Of more than four accepted drafts the state reads four",
        lambda drafted, emitted, drafts: [*emitted[:-1][:4], *emitted[-1:]],
    ),
)
specimens_of(engine=_keeping)(
    recurrent_engine=("control: The state reads what was emitted", lambda drafted, emitted, drafts: emitted)
)
specimens_of(engine=_six)(
    recurrent_six_drafts=("control: The same, with six drafts", lambda drafted, emitted, drafts: emitted)
)
