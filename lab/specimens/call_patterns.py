"""Engines that are wrong only after a pattern of accepted lengths, and right ones that look wrong there.

Hand-written ones on tables of rows that yield each call. Completions of three or four tokens hardly meet
the patterns.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, TypeAlias

from lab.specimens.specimen import specimens_of
from lab.specimens.table_engine import (
    DRAFT,
    TARGET,
    VOCAB,
    Row,
    Rows,
    TableEngine,
    Uniform,
    engine,
    inverted,
    rule_passes,
    table,
)

Past: TypeAlias = list[tuple[int, int]]
"""Tokens drafted and accepted by each call so far."""


@dataclass
class SteppingEngine(TableEngine):
    """The token rule, which yields each call; faulty engines replace a method."""

    stop_tokens: tuple[int, ...] = ()
    is_wrong: Callable[[Past], bool] = lambda past: False
    past: Past = field(default_factory=list, init=False)

    def generate(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively."""
        return [token for call in self.steps(prompt, max_new_tokens, seed) for token in call]

    def steps(
        self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None
    ) -> Iterator[list[int]]:
        """Decode speculatively; yield what each call emits."""
        self.drafted, self.accepted, self.past = 0, 0, []
        uniform, text = self.source(seed), list[int]()
        while len(text) < max_new_tokens and not self.is_over(text):
            context = [*prompt, *text]
            drafts = self.drafts(context, max_new_tokens - len(text) - 1, uniform, seed)
            emitted = self.finished(self.emitted(context, drafts, uniform, seed))[
                : max_new_tokens - len(text)
            ]
            self.past.append((len(drafts), len(emitted) - 1))
            text += emitted
            yield emitted

    def drafts(self, context: list[int], most: int, uniform: Uniform, seed: int | None) -> list[int]:
        """Return the drafts of a call."""
        found: list[int] = []
        for _ in range(min(self.draft_length, most)):
            found.append(self.choose(self.draft([*context, *found]), uniform(), seed))
        return found

    def emitted(self, context: list[int], drafts: list[int], uniform: Uniform, seed: int | None) -> list[int]:
        """Return what a call emits: wrongly, without a test of the drafts, after some patterns."""
        if self.is_wrong(self.past):
            self.drafted += len(drafts)
            return [*drafts, self.choose(self.target([*context, *drafts]), uniform(), seed)]
        return self.verified(context, drafts, uniform, seed)

    def finished(self, emitted: list[int]) -> list[int]:
        """Cut what follows a stop token."""
        ends = [place + 1 for place, token in enumerate(emitted) if token in self.stop_tokens]
        return emitted[: ends[0]] if ends else emitted

    def is_over(self, text: list[int]) -> bool:
        """Whether the last token is a stop token."""
        return bool(text) and text[-1] in self.stop_tokens


@dataclass
class SlightlyWrong(SteppingEngine):
    """Accepts a little too much after two calls that accepted all drafts: ``more`` times p/q."""

    more: float = 1.2

    def emitted(self, context: list[int], drafts: list[int], uniform: Uniform, seed: int | None) -> list[int]:
        """Return what a call emits."""
        full = (self.draft_length, self.draft_length)
        self.passes = self.passes_more if self.past[-2:] == [full, full] else rule_passes
        return self.verified(context, drafts, uniform, seed)

    def passes_more(self, uniform: Any, p: float, q: float, seed: int | None) -> bool:
        """Accept with a probability that is too large."""
        return rule_passes(uniform, self.more * p, q, seed)


class SometimesBare(SteppingEngine):
    """Drafts nothing where the last two tokens are equal."""

    def drafts(self, context: list[int], most: int, uniform: Uniform, seed: int | None) -> list[int]:
        """Return the drafts of a call."""
        return super().drafts(context, 0 if context[-2:-1] == context[-1:] else most, uniform, seed)


class StaleAfterBare(SometimesBare):
    """Reads a wrong token in place of the last one after a call without drafts."""

    def emitted(self, context: list[int], drafts: list[int], uniform: Uniform, seed: int | None) -> list[int]:
        """Return what a call emits."""
        stale = self.past[-1:] == [(0, 0)]
        return super().emitted([*context[:-1], 0] if stale else context, drafts, uniform, seed)


class LateStops(SteppingEngine):
    """Looks for a stop token at the end of a call only, behind a wholly accepted draft."""

    def finished(self, emitted: list[int]) -> list[int]:
        """Cut what follows a stop token."""
        return emitted if self.past[-1:] == [(2, 2)] else super().finished(emitted)


class DraftsAhead(SteppingEngine):
    """Draws the drafts of the next call at the end of each one."""

    ahead: tuple[int, ...] | None = None

    def drafts(self, context: list[int], most: int, uniform: Uniform, seed: int | None) -> list[int]:
        """Return the drafts of a call."""
        found = super().drafts(context, most, uniform, seed) if self.ahead is None else [*self.ahead][:most]
        self.ahead = None
        return found

    def steps(
        self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None
    ) -> Iterator[list[int]]:
        """Decode speculatively; yield what each call emits."""
        self.ahead, text = None, [*prompt]
        for emitted in super().steps(prompt, max_new_tokens, seed):
            text += emitted
            self.ahead = tuple(super().drafts(text, self.draft_length, random.random, seed))
            yield emitted


@dataclass
class DraftsAtFirst(SteppingEngine):
    """Draws the drafts of several calls before the first one: the drafter looks at no text."""

    drawn_at_first: int = 4

    def steps(
        self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None
    ) -> Iterator[list[int]]:
        """Decode speculatively; yield what each call emits."""
        uniform = self.source(seed)
        self.all = [inverted(self.draft(()), uniform(), seed) for _ in range(self.drawn_at_first)]
        yield from super().steps(prompt, max_new_tokens, None)

    def drafts(self, context: list[int], most: int, uniform: Uniform, seed: int | None) -> list[int]:
        """Return the drafts of a call."""
        del context, uniform, seed
        found, self.all = self.all[: min(self.draft_length, most)], self.all[self.draft_length :]
        return found


class CarriesOver(SteppingEngine):
    """Accepts both drafts or none, by the probabilities of blocks of two tokens.

    In place of a rejected block it draws one from the residual of blocks: the first token now, the second
    from what is left of the residual, in a call of its own.
    """

    def steps(
        self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None
    ) -> Iterator[list[int]]:
        """Decode speculatively; yield what each call emits."""
        self.drafted, self.accepted = 0, 0
        uniform, text = self.source(seed), list[int]()
        while len(text) < max_new_tokens:
            context = [*prompt, *text]
            drafts = self.drafts(context, 2, uniform, seed)
            left = self.residual(context)
            self.drafted += 2
            p, q = (self.of_block(rows, context, *drafts) for rows in (self.target, self.draft))
            if uniform() * q < p:
                calls = [drafts]
                self.accepted += 2
            else:
                first = self.choose([sum(left[one]) for one in range(VOCAB)], uniform(), seed)
                calls = [[first], [self.choose(left[first], uniform() * sum(left[first]), seed)]]
            for emitted in calls:
                kept = emitted[: max_new_tokens - len(text)]
                text += kept
                yield kept

    def residual(self, context: list[int]) -> list[Row]:
        """Return the residual of blocks, by first and second token."""
        blocks = {
            block: self.of_block(self.target, context, *block) - self.of_block(self.draft, context, *block)
            for block in product(range(VOCAB), repeat=2)
        }
        total = sum(max(mass, 0.0) for mass in blocks.values())
        return [[max(blocks[one, two], 0.0) / total for two in range(VOCAB)] for one in range(VOCAB)]

    @staticmethod
    def of_block(rows: Rows, context: list[int], one: int, two: int) -> float:
        """Return the probability of two tokens."""
        return rows(context)[one] * rows([*context, one])[two]


class StopsAtSequence(SteppingEngine):
    """Ends a completion at the tokens 1, 0, looked for in the last tokens, as many as ``window``."""

    stop_sequences = ((1, 0),)
    window = 5
    prompt = 0
    text: tuple[int, ...] = ()

    def emitted(self, context: list[int], drafts: list[int], uniform: Uniform, seed: int | None) -> list[int]:
        """Return what a call emits."""
        self.text = () if not self.past else tuple(context[self.prompt :])
        if not self.past:
            self.prompt = len(context)
        return super().emitted(context, drafts, uniform, seed)

    def finished(self, emitted: list[int]) -> list[int]:
        """Cut what follows the stop sequence."""
        text = [*self.text, *emitted]
        first = max(len(text) - self.window, 0)
        for end in range(first + 2, len(text) + 1):
            if end > len(self.text) and text[end - 2 : end] == [1, 0]:
                return emitted[: end - len(self.text)]
        return emitted

    def is_over(self, text: list[int]) -> bool:
        """Whether the completion ends with the stop sequence."""
        return text[-2:] == [1, 0]


class ShortWindow(StopsAtSequence):
    """Looks for the stop sequence in the last two tokens, though a block has three."""

    window = 2


class BonusUnmasked(SteppingEngine):
    """A grammar forbids to repeat a token; what follows an accepted draft is drawn without it."""

    bonus_at = -1

    def emitted(self, context: list[int], drafts: list[int], uniform: Uniform, seed: int | None) -> list[int]:
        """Return what a call emits."""
        self.bonus_at = len(context) + len(drafts) if drafts else -1
        return super().emitted(context, drafts, uniform, seed)

    def verifying(self, context: Sequence[int]) -> Row:
        """Return the row of the target that verifies the token after a context."""
        return TARGET(context) if len(context) == self.bonus_at else self.target(context)


def _without_repeats(rows: Rows, context: Sequence[int]) -> Row:
    """Return the row under a grammar that forbids to repeat a token."""
    row = [0.0 if token == context[-1] else mass for token, mass in enumerate(rows(context))]
    return [mass / sum(row) for mass in row]


without_repeats = partial(_without_repeats, TARGET)


class ForbiddenDropped(SteppingEngine):
    """Drops the first draft that a grammar forbids, and what follows it, before verification.

    The next token comes from p then, though the token rule, which rejects such a draft, draws it from the
    residual r. Where a forbidden draft has the probability Q, that is off by Q times the distance of p and r.
    """

    def drafts(self, context: list[int], most: int, uniform: Uniform, seed: int | None) -> list[int]:
        """Return the drafts of a call."""
        found = super().drafts(context, most, uniform, seed)
        before = [*context[-1:], *found]
        repeats = [place for place, token in enumerate(found) if token == before[place]]
        return found[: repeats[0]] if repeats else found


def likeliest(context: Sequence[int]) -> Row:
    """Return the row of a drafter that is sure of its likeliest token."""
    row = DRAFT(context)
    return [float(token == row.index(max(row))) for token in range(VOCAB)]


SHARP = table(1, 2.0)
"""Rows with likelier tokens, so that whole drafts in a row are not rare."""


def near(context: Sequence[int]) -> Row:
    """Return a row of a drafter that is mostly right."""
    return [0.8 * p + 0.2 * q for p, q in zip(SHARP(context), DRAFT(context), strict=True)]


def _mostly_drafts(context: Sequence[int]) -> Row:
    """Return a row of a target that is near to a drafter that looks at no text."""
    return [0.97 * q + 0.03 * p for p, q in zip(TARGET(context), DRAFT(()), strict=True)]


def _stepping(part: Callable[[Past], bool]) -> Any:
    return engine(partial(SteppingEngine, is_wrong=part))


specimens_of("calls", engine=_stepping)(
    pattern_two_full=(
        "E12: Two calls that accepted all drafts, and the next one does not test its own",
        lambda past: past[-2:] == [(2, 2), (2, 2)],
    ),
)
specimens_of("calls", engine=engine)(
    pattern_call_without_drafts=(
        "E9: After a call without drafts the next one goes on after another last token",
        StaleAfterBare,
    ),
    pattern_stop_inside_a_block=(
        "H7: Behind a wholly accepted draft only the last token of a call is compared with the stop token",
        partial(LateStops, stop_tokens=(2,)),
    ),
)
specimens_of("calls", engine=engine)(
    pattern_short_stop_window=(
        "H11: A stop sequence of two tokens is looked for in the last two tokens of a block of three",
        ShortWindow,
    ),
)
specimens_of("joint", engine=engine)(
    pattern_bonus_unmasked=(
        "H6: A grammar is not asked about the token behind an accepted draft",
        partial(BonusUnmasked, target=without_repeats),
    ),
    pattern_forbidden_draft_dropped=(
        "H12: A sampled draft that the grammar forbids is dropped, and the next token comes from the target",
        partial(ForbiddenDropped, target=without_repeats),
    ),
)
specimens_of(engine=engine)(
    pattern_stop_sequence=("control: Ends at a stop sequence", StopsAtSequence),
    pattern_grammar=(
        "control: A grammar, also behind drafts",
        partial(SteppingEngine, target=without_repeats),
    ),
    pattern_grammar_masks_drafts=(
        "control: A grammar that masks the drafter's rows, too",
        partial(SteppingEngine, target=without_repeats, draft=partial(_without_repeats, DRAFT)),
    ),
    pattern_certain_drafts_dropped=(
        "control: A grammar drops drafts that are certain: their residual is the target",
        partial(ForbiddenDropped, target=without_repeats, draft=likeliest),
    ),
    pattern_yields_calls=("control: Yields each call", SteppingEngine),
    pattern_stops=("control: Yields each call, with a stop token", partial(SteppingEngine, stop_tokens=(2,))),
    pattern_without_drafts=("control: Drafts nothing where the last two tokens are equal", SometimesBare),
    pattern_drafts_ahead=(
        "control: Draws the drafts of the next call at the end of each one",
        partial(DraftsAhead, draft_length=1),
    ),
    pattern_drafts_at_first=(
        "control: Draws the drafts of two calls before the first one",
        partial(DraftsAtFirst, draft=lambda context: DRAFT(())),
    ),
    pattern_drafts_three_calls_ahead=(
        "control: Draws the drafts of three calls before the first one; they are likely",
        partial(
            DraftsAtFirst,
            target=_mostly_drafts,
            draft=lambda context: DRAFT(()),
            draft_length=1,
            drawn_at_first=3,
        ),
    ),
    pattern_carries_over=("control: After a rejected block of two, two tokens of the residual", CarriesOver),
)
