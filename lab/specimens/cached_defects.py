"""Defects of whole engines, planted into one with key-value caches, and controls that only look faulty."""

from dataclasses import replace
from functools import partial

from lab.specimens.cached_engine import (
    Options,
    Row,
    Tensor,
    draw,
    passes,
    processed,
    replacing,
    sampled,
    token_rule,
    trimmed,
)
from lab.specimens.specimen import specimen

COLD = Options(temperature=0.5)
NUCLEUS = Options(top_p=0.6)
PENALISED = Options(penalty=1.5)
STOPPING = Options(stop_token=2)

cached = partial(specimen, prefix="cached-")

Drafts = list[int]
Rows = list[Row]


# What the drafter reports (D).


@cached("D1", "joint", "draft-law", engine=replacing("propose"))
def top_2_draft_reports_raw_q(row: Row, raw: Row) -> tuple[int, Row]:
    """Draft from the two likeliest tokens, report the whole row."""
    return draw(row * (row > row.min())), row


@cached("D2", "joint", "draft-law", engine=replacing("propose"))
def greedy_draft_reports_soft_q(row: Row, raw: Row) -> tuple[int, Row]:
    """Draft the likeliest token, report the row it was the likeliest of."""
    return int(row.argmax()), row


@cached("D3", "calls", engine=replacing("verify"))
def q_of_the_first_draft(drafts: Drafts, q: Rows, p: Rows) -> tuple[Drafts, int]:
    """All drafts are tested against the first one's q."""
    return token_rule(drafts, q[:1] * len(drafts), p)


@cached("D8", "joint", "draft-law", engine=replacing("propose", COLD))
def reports_q_before_temperature(row: Row, raw: Row) -> tuple[int, Row]:
    """The drafter reports its row without the temperature that it drew at."""
    return draw(row), raw


@cached("D11", "length", engine=replacing("verify"))
def q_never_passed(drafts: Drafts, q: Rows, p: Rows) -> tuple[Drafts, int]:
    """Drafts are taken for certain: the law is right, fewer are accepted."""
    for i, token in enumerate(drafts):
        if not passes(p[i][token]):
            left = p[i].clone()
            left[token] = 0
            return [*drafts[:i], draw(left)], i
    return [*drafts, draw(p[-1])], len(drafts)


@cached("D13", "joint", "draft-law", engine=replacing("propose"))
def q_in_draft_vocabulary(row: Row, raw: Row) -> tuple[int, Row]:
    """The reported row is in the order of another vocabulary."""
    return draw(row), row.flip(0)


# Positions, bonus, rollback (E).


@cached("E1", "joint", engine=replacing("verify"))
def late_handler(drafts: Drafts, q: Rows, p: Rows) -> tuple[Drafts, int]:
    """On rejection the next row, conditioned on the rejected draft, is sampled."""
    emitted, accepted = token_rule(drafts, q, p)
    return (
        (emitted, accepted) if accepted == len(drafts) else ([*emitted[:-1], draw(p[accepted + 1])], accepted)
    )


@cached("E3", "joint", engine=replacing("verify"))
def bonus_of_the_row_before(drafts: Drafts, q: Rows, p: Rows) -> tuple[Drafts, int]:
    """The bonus is drawn from the row of the last draft."""
    return token_rule(drafts, q, [*p[:-1], p[-2:][0]])


@cached("E4", "calls", engine=replacing("verify"))
def residual_of_the_first_row(drafts: Drafts, q: Rows, p: Rows) -> tuple[Drafts, int]:
    """Corrections are drawn from the residual of the first draft."""
    emitted, accepted = token_rule(drafts, q, p)
    if 0 < accepted < len(drafts):
        left = (p[0] - q[0]).clamp(min=0)
        emitted[-1] = draw(left if left.sum() > 0 else p[0])
    return emitted, accepted


@cached("E6", "length", engine=replacing("forgotten_by_draft"))
def drafter_forgets_too_much(count: int) -> int:
    """The drafter's cache loses a token of the text with every call."""
    return count + 1


@cached("E7", "calls", engine=replacing("forgotten"))
def rollback_one_too_far(count: int) -> int:
    """The cache loses an accepted token together with the rejected ones."""
    return count + 1


@cached("E7", "calls", engine=replacing("forgotten"))
def rejected_draft_in_cache(count: int) -> int:
    """The first rejected draft stays in the cache."""
    return count - 1


@cached("E7", "calls", engine=replacing("forgotten"))
def no_rollback(count: int) -> int:
    """Rejected drafts stay in the cache."""
    return 0


@cached("E8", "joint", engine=replacing("verify"))
def rejected_drafts_emitted(drafts: Drafts, q: Rows, p: Rows) -> tuple[Drafts, int]:
    """Rejected drafts are not removed from the text."""
    emitted, accepted = token_rule(drafts, q, p)
    return [*drafts, emitted[-1]], accepted


@cached("E9", "calls", engine=replacing("unread"))
def stale_last_token(after: list[int], before: list[int], kept: int) -> list[int]:
    """The next call goes on after the last token of the text before."""
    return [*after[kept:-1], before[-1]]


# Penalties, filters, stop tokens (H).


@cached("H1", "joint", engine=replacing("target_rows", NUCLEUS))
def filter_at_bonus_only(options: Options, logits: Tensor, text: list[int], drafts: Drafts) -> Rows:
    """Only the bonus is drawn from the filtered row."""
    plain = processed(replace(options, top_p=1.0), logits, text, drafts)
    return [*plain[:-1], processed(options, logits, text, drafts)[-1]]


@cached("H2", "joint", engine=replacing("target_rows", PENALISED))
def penalty_ignored(options: Options, logits: Tensor, text: list[int], drafts: Drafts) -> Rows:
    """Drafts are verified without the penalty."""
    return processed(replace(options, penalty=0.0), logits, text, drafts)


@cached("H3", "joint", engine=replacing("target_rows", PENALISED))
def last_token_penalised_twice(options: Options, logits: Tensor, text: list[int], drafts: Drafts) -> Rows:
    """From the second position on the last token counts twice."""
    twice = [[*text, *drafts[:i], *([text[-1]] if i else [])] for i in range(len(drafts) + 1)]
    return [options.row(logits[i], said) for i, said in enumerate(twice)]


@cached("H4", "joint", engine=replacing("target_rows", PENALISED))
def all_drafts_penalised(options: Options, logits: Tensor, text: list[int], drafts: Drafts) -> Rows:
    """Penalties count drafts that come later, and may yet be rejected."""
    return [options.row(logits[i], [*text, *drafts]) for i in range(len(drafts) + 1)]


@cached("H7", "calls", engine=replacing("finish", STOPPING))
def text_after_stop(emitted: list[int], left: int, stop_token: int | None) -> list[int]:
    """Only the last token of a block is compared with the stop token."""
    return emitted[:left]


def always_two(generation: object, left: int) -> int:
    """Draft two tokens whatever is wanted."""
    return 2


@cached("H8", "joint", engine=replacing("finish", STOPPING, length=always_two))
def cap_hides_stop(emitted: list[int], left: int, stop_token: int | None) -> list[int]:
    """Where the cap cuts a block, nobody looks for the stop token."""
    return emitted[:left] if len(emitted) >= left else trimmed(emitted, left, stop_token)


@cached("H9", "joint", engine=replacing("finish", length=always_two))
def budget_counted_in_calls(emitted: list[int], left: int, stop_token: int | None) -> list[int]:
    """The budget is looked at after a block only."""
    return trimmed(emitted, len(emitted), stop_token)


# Controls.


@cached("control", engine=replacing("propose"))
def engine(row: Row, raw: Row) -> tuple[int, Row]:
    """The engine with the token rule, as it should be."""
    return sampled(row, raw)


@cached("control", engine=replacing("finish", replace(STOPPING, temperature=0.7, penalty=1.0)))
def engine_with_options(emitted: list[int], left: int, stop_token: int | None) -> list[int]:
    """The engine with a temperature, a penalty and a stop token."""
    return trimmed(emitted, left, stop_token)


@cached("control", engine=replacing("length", rule=None))
def adaptive_length(generation: object, left: int) -> int:
    """Drafts get longer and shorter with what was said so far."""
    return min(1 + sum(generation.text) % 2, left - 1)  # type: ignore[attr-defined]


@cached("control", engine=replacing("goes_on", rule=None))
def stops_after_an_unlikely_draft(chance: float) -> bool:
    """Nothing is drafted after a draft of low probability."""
    return chance > 0.3


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
