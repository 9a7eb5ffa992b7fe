"""Engines that hold a session: its text is appended to, or cut, in the middle of a round of speculation.

A round emits up to three tokens whatever is asked for; those that nobody asked for yet are pending. They were
sampled after a text without what the user appends, and may lie behind what the user cuts off.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.specimens.specimen import specimens_of
from lab.specimens.table_engine import TableEngine, engine


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
specimens_of(engine=engine)(
    session=("control: A session that is appended to and cut in the middle of a round", SessionEngine),
    session_without_pending=("control: A session that keeps no pending tokens", NoPending),
)
