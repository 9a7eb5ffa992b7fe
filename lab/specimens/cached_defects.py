"""Defects of whole engines, planted into one with key-value caches, and controls that only look faulty.

Defects are here of which a cache, or the exact law of a text, shows more than the toy engine does.
"""

from dataclasses import replace
from functools import partial

from lab.specimens import cached_engine as parts
from lab.specimens.cached_engine import Options, Row, Tensor, draw, replacing, token_rule, trimmed
from lab.specimens.specimen import specimen, specimens_of

STOPPING = Options(stop_token=2)

cached = partial(specimen, prefix="cached-")

Drafts = list[int]
Rows = list[Row]

specimens_of("joint", "draft-law", engine=replacing("propose", Options(temperature=0.5)))(
    cached_reports_q_before_temperature=(
        "D8: The drafter reports its row without the temperature that it drew at",
        lambda row, raw: (draw(row), raw),
    )
)

# Positions, bonus, rollback (E).


specimens_of("calls", engine=replacing("forgotten"))(
    cached_rollback_one_too_far=(
        "E7: The cache loses an accepted token together with the rejected ones",
        lambda count: count + 1,
    ),
    cached_rejected_draft_in_cache=(
        "E7: The first rejected draft stays in the cache",
        lambda count: count - 1,
    ),
    cached_no_rollback=("E7: Rejected drafts stay in the cache", lambda count: 0),
)
specimens_of("calls", engine=replacing("unread"))(
    cached_stale_last_token=(
        "E9: The next call goes on after the last token of the text before",
        lambda after, before, kept: [*after[kept:-1], before[-1]],
    )
)

# Penalties, stop tokens (H).


@cached("H4", "joint", engine=replacing("target_rows", Options(penalty=1.5)))
def all_drafts_penalised(options: Options, logits: Tensor, text: list[int], drafts: Drafts) -> Rows:
    """Penalties count drafts that come later, and may yet be rejected."""
    return [options.row(logits[i], [*text, *drafts]) for i in range(len(drafts) + 1)]


def always_two(generation: object, left: int) -> int:
    """Draft two tokens whatever is wanted."""
    return 2


@cached("H8", "joint", engine=replacing("finish", STOPPING, length=always_two))
def cap_hides_stop(emitted: list[int], left: int, stop_token: int | None) -> list[int]:
    """Where the cap cuts a block, nobody looks for the stop token."""
    return emitted[:left] if len(emitted) >= left else trimmed(emitted, left, stop_token)


specimens_of("joint", engine=replacing("finish", length=always_two))(
    cached_budget_counted_in_calls=(
        "H9: The budget is looked at after a block only",
        lambda emitted, left, stop_token: trimmed(emitted, len(emitted), stop_token),
    )
)

# Controls.

specimens_of(engine=replacing("propose"))(
    cached_engine=("control: The engine with the token rule, as it should be", parts.sampled)
)
specimens_of(engine=replacing("finish", replace(STOPPING, temperature=0.7, penalty=1.0)))(
    cached_engine_with_options=("control: The engine with a temperature, a penalty and a stop token", trimmed)
)
specimens_of(engine=replacing("length", rule=None))(
    cached_adaptive_length=(
        "control: Drafts get longer and shorter with what was said so far",
        lambda generation, left: min(1 + sum(generation.text) % 2, left - 1),
    )
)
specimens_of(engine=replacing("goes_on", rule=None))(
    cached_stops_after_an_unlikely_draft=(
        "control: Nothing is drafted after a draft of low probability",
        lambda chance: chance > 0.3,
    )
)


@cached("N1", engine=replacing("verify", rule="sample_and_match"))
def sample_and_match(drafts: Drafts, q: Rows, p: Rows) -> tuple[Drafts, int]:
    """The target draws for itself, and drafts are accepted as far as they agree."""
    emitted: Drafts = []
    for i, token in enumerate(drafts):
        emitted.append(draw(p[i]))
        if emitted[-1] != token:
            return emitted, i
    return [*emitted, draw(p[-1])], len(drafts)


@cached("N10", engine=replacing("verify", rule=None))
def no_bonus(drafts: Drafts, q: Rows, p: Rows) -> tuple[Drafts, int]:
    """Nothing is added to a draft that was accepted whole."""
    emitted, accepted = token_rule(drafts, q, p)
    return (emitted[:-1] if drafts and accepted == len(drafts) else emitted), accepted
