"""Engines that hold a session: its text is appended to, or cut, in the middle of a round of speculation.

A round emits up to three tokens whatever is asked for; those that nobody asked for yet are pending. They were
sampled after a text without what the user appends, and may lie behind what the user cuts off.

Others keep what they computed of a text for the next request, whose prompt begins with it: the next turn of a
conversation. What is lost then is lost of long texts only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any

from lab.specimens.call_patterns import SteppingEngine
from lab.specimens.specimen import specimens_of
from lab.specimens.table_engine import TARGET, VOCAB, Row, Rows, TableEngine, Uniform, engine, peaked


@dataclass
class SessionEngine(TableEngine):
    """The token rule with a session; faulty engines replace ``append`` or ``rewind``.

    ``held`` are the tokens of the cache, of which the user has been shown the first ``shown``.
    """

    held: list[int] = field(default_factory=list, init=False)
    shown: int = field(default=0, init=False)

    def generate(
        self, prompt: Sequence[int] | None, max_new_tokens: int, seed: int | None = None
    ) -> list[int]:
        """Decode speculatively; without a prompt, go on with the text of the session."""
        self.drafted = self.accepted = 0
        uniform = self.source(seed)
        if prompt is not None:
            self.held, self.shown = [*prompt], len(prompt)
        first = self.shown
        while len(self.held) < first + max_new_tokens:
            drafts: list[int] = []
            for _ in range(self.draft_length):
                drafts.append(self.choose(self.draft([*self.held, *drafts]), uniform(), seed))
            self.held += self.verified([*self.held], drafts, uniform, seed)
        self.shown = first + max_new_tokens
        return self.held[first : self.shown]

    def append(self, tokens: Sequence[int]) -> None:
        """Add tokens to the text that was shown."""
        self.held = [*self.held[: self.shown], *tokens]
        self.shown = len(self.held)

    def rewind(self, length: int) -> None:
        """Cut the text to its first tokens."""
        self.held, self.shown = self.held[:length], length


class AppendsBehindPending(SessionEngine):
    """Appends to the cache, behind tokens that were never shown."""

    def append(self, tokens: Sequence[int]) -> None:
        """Add tokens to the cache."""
        self.held += tokens
        self.shown = len(self.held)


class RewindLeavesPending(SessionEngine):
    """Takes as many tokens out of the cache as are cut off the text: pending ones, in place of those."""

    def rewind(self, length: int) -> None:
        """Cut the text to its first tokens, and the cache by as many."""
        self.held = self.held[: len(self.held) - (self.shown - length)]
        self.shown = length


class NoPending(SessionEngine):
    """Throws pending tokens away at the end of each generation."""

    def generate(
        self, prompt: Sequence[int] | None, max_new_tokens: int, seed: int | None = None
    ) -> list[int]:
        """Decode speculatively; without a prompt, go on with the text of the session."""
        new = super().generate(prompt, max_new_tokens, seed)
        del self.held[self.shown :]
        return new


WINDOW = 24
"""Tokens that the cache of a conversation holds: more than the target reads."""


def of_five_tokens(context: Sequence[int]) -> Row:
    """Return a row that depends on the last five tokens."""
    return TARGET([sum(context[-5:]) % VOCAB, *context[-1:]])


Reused = Callable[[Sequence[int], int], Sequence[int]]
"""Returns what the cache has of a kept text, of which so many first tokens are those of the prompt."""


def _in_common(kept: Sequence[int], prompt: Sequence[int]) -> int:
    """Return with how many tokens of a kept text a prompt begins."""
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(kept, prompt, strict=False))])


def _last_ones(kept: Sequence[int], common: int) -> Sequence[int]:
    return kept[:common][-WINDOW:]


@dataclass
class ConversingEngine(TableEngine):
    """The token rule; begins with what it has ``reused`` of the text that it generated last."""

    target: Rows = of_five_tokens
    reused: Reused = _last_ones
    kept: list[int] = field(default_factory=list, init=False)
    cached: tuple[int, Sequence[int]] = field(default=(0, ()), init=False)
    """How many tokens of the prompt are not read again, and what the cache has of them."""

    def generate(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively, after what the cache has of the prompt."""
        common = _in_common(self.kept, prompt[:-1])
        self.cached = common, self.reused(self.kept, common)
        new = super().generate(prompt, max_new_tokens, seed)
        self.kept = [*prompt, *new]
        return new

    def verifying(self, context: Sequence[int]) -> Row:
        """Return the row of the target that verifies the token after a context."""
        common, held = self.cached
        return self.target([*held, *context[common:]])


def _ring_from_its_first_place(kept: Sequence[int], common: int) -> Sequence[int]:
    """Read the ring of the last tokens from its first place, wherever the oldest token is."""
    ring, start = _last_ones(kept, common), common % WINDOW
    return ring if common < WINDOW else [*ring[WINDOW - start :], *ring[: WINDOW - start]]


def _never_cut_when_long(kept: Sequence[int], common: int) -> Sequence[int]:
    """Take nothing out of the cache where it has more than 48 tokens of the prompt."""
    return kept if common > 2 * WINDOW else kept[:common]


@dataclass
class BatchingEngine(ConversingEngine):
    """Keeps the text of the last request of a batch, and ``unseen`` tokens that were accepted behind its end.

    In a batch the rows beyond ``block`` tokens of a text are those of another text.
    """

    unseen: Sequence[int] = ()
    block: int | None = None
    left: Sequence[int] = field(default=(), init=False)
    in_batch: bool = field(default=False, init=False)

    def generate(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively, after what the cache has of the prompt."""
        self.kept, self.left = [*self.kept, *self.left], ()
        return super().generate(prompt, max_new_tokens, seed)

    def generate_batch(
        self, prompts: Sequence[Any], max_new_tokens: int, seeds: Sequence[int | None]
    ) -> list[list[int]]:
        """Decode several requests, one after the other."""
        self.in_batch = True
        texts = [self.generate(one, max_new_tokens, seed) for one, seed in zip(prompts, seeds, strict=True)]
        self.in_batch, self.left = False, self.unseen
        return texts

    def verifying(self, context: Sequence[int]) -> Row:
        """Return the row of the target that verifies the token after a context."""
        common, held = self.cached
        is_beyond = self.in_batch and self.block is not None and len(context) > self.block
        return self.target([*held, *context[common:-1], *([0] * is_beyond), *context[-1:]])


def _never_cut_behind_the_text(kept: Sequence[int], common: int) -> Sequence[int]:
    """Take nothing out of the cache where it has no more than a token behind the text."""
    return kept if len(kept) == common + 1 else kept[:common]


def _conversing(reused: Reused) -> Any:
    return engine(partial(ConversingEngine, reused=reused))


@dataclass
class StreamingEngine(SteppingEngine):
    """Keeps its cache for the next prompt; cuts it before it yields a call, or when it is asked for more."""

    target: Rows = of_five_tokens
    cuts_late: bool = False
    kept: list[int] = field(default_factory=list, init=False)
    cache: list[int] = field(default_factory=list, init=False)

    def steps(
        self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None
    ) -> Iterator[list[int]]:
        """Decode speculatively, after what the cache has of the prompt; yield what each call emits."""
        common = _in_common(self.kept, prompt)
        self.cache, self.kept = [*self.cache[:common], *prompt[common:]], [*prompt]
        for emitted in super().steps(self.cache, max_new_tokens, seed):
            read, right = self.cache, [*self.cache[: len(self.kept)], *emitted]
            self.kept += emitted
            self.cache = read if self.cuts_late else right
            yield emitted
            self.cache = right

    def emitted(self, context: list[int], drafts: list[int], uniform: Uniform, seed: int | None) -> list[int]:
        """Return what a call emits; the cache then has all drafts."""
        self.cache = [*context, *drafts]
        return super().emitted(context, drafts, uniform, seed)


CHUNK = 8
"""Tokens of a prompt that are read at once."""


def peaked_by_five_tokens(context: Sequence[int]) -> Row:
    """Return a row with one token of a probability of 0.8, chosen by the last five tokens."""
    return peaked([sum(context[-5:])], 0.8)


@dataclass
class ChunkedEngine(TableEngine):
    """The token rule, by a state that has read the prompt in chunks; also without speculation."""

    target: Rows = peaked_by_five_tokens
    keeps_drafts: bool = False
    stale: tuple[int, list[int]] = field(default=(0, []), init=False)
    """Where in its text the state has read drafts that are not there, and which."""

    def generate(self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None) -> list[int]:
        """Decode speculatively after a prompt."""
        read = len(prompt) > CHUNK and self.keeps_drafts
        self.stale = len(prompt), [1] * read
        return super().generate(prompt, max_new_tokens, seed)

    def generate_plain(
        self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None
    ) -> list[int]:
        """Decode without speculation."""
        uniform, text = self.source(seed), list[int]()
        for _ in range(max_new_tokens):
            text.append(self.choose(self.target([*prompt, *text]), uniform(), seed))
        return text

    def verifying(self, context: Sequence[int]) -> Row:
        """Return the row of the target that verifies the token after a context."""
        place, drafts = self.stale
        return self.target([*context[:place], *drafts, *context[place:]])


def _chunked(keeps_drafts: bool) -> Any:  # noqa: FBT001
    return engine(partial(ChunkedEngine, keeps_drafts=keeps_drafts))


specimens_of("long-texts", engine=_chunked)(
    conversation_chunk_of_a_prompt_keeps_drafts=(
        "E20: Drafts that are run with the last chunk of a long prompt stay in the state",
        True,
    ),
)
specimens_of(engine=_chunked)(
    conversation_prompts_in_chunks=("control: A state that reads prompts in chunks", False),
)
specimens_of("long-texts", engine=_conversing)(
    conversation_ring_read_from_its_first_place=(
        "E19: Once the ring of a kept text is full, the next turn reads it from its first place",
        _ring_from_its_first_place,
    ),
    conversation_long_text_is_not_cut=(
        "E19: Where the user goes back in a long conversation, what was taken back stays in the cache",
        _never_cut_when_long,
    ),
)
specimens_of(engine=_conversing)(
    conversation_keeps_its_last_tokens=("control: A conversation of which a window is kept", _last_ones),
)
specimens_of("calls", engine=engine)(
    session_appends_behind_pending=(
        "E18: Appended tokens come behind tokens of a round that were never shown",
        AppendsBehindPending,
    ),
    session_rewind_leaves_pending=(
        "E18: A rewind leaves tokens of a round in the cache that were never shown",
        RewindLeavesPending,
    ),
)
specimens_of("calls", engine=engine)(
    stream_left_before_the_cut=(
        "E21: A stream is left after a call, and the drafts that it refused stay in the cache",
        partial(StreamingEngine, cuts_late=True),
    ),
)
specimens_of(engine=engine)(
    stream_left=("control: A stream that is cut before its tokens are handed on", StreamingEngine),
    session=("control: A session that is appended to and cut in the middle of a round", SessionEngine),
    session_without_pending=("control: A session that keeps no pending tokens", NoPending),
)
specimens_of("batch", engine=engine)(
    batch_ends_a_block=(
        "E22: In a batch every request goes on from another text once it has 64 tokens",
        partial(BatchingEngine, block=64),
    ),
    batch_keeps_what_was_not_emitted=(
        "E22: A token that was accepted and not emitted stays in the cache of a request of a batch",
        partial(BatchingEngine, unseen=(1,), reused=_never_cut_behind_the_text),
    ),
)
specimens_of(engine=engine)(
    batch_of_conversations=("control: Keeps the text of the last request of a batch", BatchingEngine),
)
