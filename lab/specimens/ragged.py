"""Engines whose requests, decoded together, accept different numbers of drafts; what is out of step then."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lab.specimens.recurrent import state_of
from lab.specimens.specimen import specimens_of
from lab.specimens.table_engine import Row, Rows, TableEngine, engine, table

_BY_PLACE = [table(11 + place) for place in range(3)]


def by_place(context: Sequence[int], place: int | None = None) -> Row:
    """Return the row after a text, another one after any token that is not in it, and at other places."""
    return _BY_PLACE[(len(context) if place is None else place) % 3](state_of(context))


@dataclass
class RaggedEngine(TableEngine):
    """The token rule for a batch; ``seen(ahead, behind)`` is what a request has before it after some calls.

    Given how many tokens it is ahead of the last one of its batch, and behind the first one: how many places
    it is shifted by, how many holes its text has before the last token, and how many tokens it lost there.
    """

    target: Rows = by_place
    seen: Callable[[int, int], tuple[int, int, int]] = lambda ahead, behind: (0, 0, 0)
    off: tuple[int, int, int] = (0, 0, 0)
    start: int = 0
    limits_per_request: bool = False
    keeps_refused: bool = False  # A state keeps its refused drafts where others of the batch drafted more.

    def verifying(self, context: Sequence[int]) -> Row:
        """Return the row of the target that verifies the token after a context."""
        shift, holes, lost = self.off
        last = max(self.start - 1, 0)
        read = [*context[: max(last - lost, 0)], *[0] * holes, *context[last:]]
        return by_place(read, len(context) + shift)

    def generate_batch(
        self, prompts: Sequence[Any], max_new_tokens: Any, seeds: Sequence[int | None]
    ) -> list[list[int]]:
        """Decode several requests together, a call of each at a time."""
        limits = max_new_tokens if self.limits_per_request else [max_new_tokens] * len(prompts)
        uniforms = [self.source(seed) for seed in seeds]
        texts, kept = [list[int]() for _ in prompts], [0] * len(prompts)
        while open_ := [number for number, text in enumerate(texts) if len(text) < limits[number]]:
            lengths = [len(text) for text in texts]
            rests = {number: limits[number] - lengths[number] for number in open_}
            depths = {number: min(self.draft_length, rest - 1) for number, rest in rests.items()}
            for number in open_:
                text, (least, most) = texts[number], (min(lengths), max(lengths))
                context, drafts = [*prompts[number], *text], list[int]()
                shift, holes, lost = self.seen(len(text) - least, most - len(text))
                self.off = (shift, holes + kept[number], lost)
                self.start = len(context)
                for _ in range(depths[number]):
                    row = self.draft([*context, *drafts])
                    drafts.append(self.choose(row, uniforms[number](), seeds[number]))
                emitted = self.verified(context, drafts, uniforms[number], seeds[number])
                if self.keeps_refused and len(drafts) < max(depths.values()):
                    kept[number] = len(drafts) + 1 - len(emitted)
                text += emitted
        self.off = (0, 0, 0)
        return texts


def _ragged(seen: Callable[[int, int], tuple[int, int, int]]) -> Any:
    return engine(partial(RaggedEngine, seen=seen))


specimens_of("batch", engine=_ragged)(
    ragged_position_ids=(
        "E15: Position ids go on from the longest text of the batch",
        lambda ahead, behind: (behind, 0, 0),
    ),
    ragged_mask=(
        "E15: The mask lets a request see the padding between its tokens",
        lambda ahead, behind: (0, behind, 0),
    ),
    ragged_cache=(
        "E15: All caches are cut back to the least that a request of the batch accepted",
        lambda ahead, behind: (0, 0, ahead),
    ),
)
specimens_of("batch", engine=engine)(
    refused_kept_beside_longer_drafts=(
        "E15: The state is kept after as many tokens as the longest draft of the batch has",
        partial(RaggedEngine, limits_per_request=True, keeps_refused=True),
    ),
)
specimens_of(engine=engine)(
    batch_of_unlike_limits=(
        "control: Each request has its own limit and its own draft length",
        partial(RaggedEngine, limits_per_request=True),
    ),
)
specimens_of(engine=_ragged)(
    ragged_batch=("control: Each request has its own place", lambda ahead, behind: (0, 0, 0))
)
