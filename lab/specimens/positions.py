"""Engines that lose their place: rollback, stop tokens, budgets and what is counted as accepted."""

from dataclasses import replace
from functools import partial

import numpy as np

from lab.specimens import toy_engine as toy
from lab.specimens.contexts import after_tokens
from lab.specimens.specimen import specimen, specimens_of
from lab.specimens.toy_engine import Call, Floats, Ints, Progress, along, follow_text, replacing, trimmed

# Rollback.


@specimen("E6", "length", declared="token", engine=replacing("advance"))
def bonus_not_in_drafter_cache(progress: Progress, drafts: Ints, emitted: Ints, vocab: int) -> Progress:
    """After a whole draft the drafter never sees the bonus."""
    right = follow_text(progress, drafts, emitted, vocab)
    whole = emitted[:, -1] >= 0
    return replace(right, draft=np.where(whole, after_tokens(progress.draft, drafts, vocab), right.draft))


@specimen("E7", "calls", declared="token", engine=replacing("advance"))
def rollback_one_too_far(progress: Progress, drafts: Ints, emitted: Ints, vocab: int) -> Progress:
    """The correction is missing from the target's cache."""
    kept = toy.accepted_prefix(drafts == emitted[:, :-1])
    accepted_only = np.where(np.arange(drafts.shape[1]) < kept[:, None], drafts, -1)
    right = follow_text(progress, drafts, emitted, vocab)
    return replace(right, target=after_tokens(progress.target, accepted_only, vocab))


# Emissions and what is reported of them.


@specimen("A12", "length", declared="token", engine=replacing("verify"))
def acceptances_counted_past_rejection(call: Call) -> tuple[Ints, Ints]:
    """The reported length counts drafts that pass after the first rejection."""
    passed = call.accept * along(call.draft, call.tokens) < along(call.target, call.tokens)
    return toy.token_rule(call)[0], passed.sum(axis=1)


@specimen("E8", "joint", declared="token", engine=replacing("verify"))
def rejected_drafts_emitted(call: Call) -> tuple[Ints, Ints]:
    """Rejected drafts are not removed from the text."""
    emitted, accepted = toy.token_rule(call)
    last = np.take_along_axis(emitted, accepted[:, None], axis=1)
    return np.concatenate([call.tokens, last], axis=1), accepted


@specimen("E2", "joint", declared="token", prefix="system-", engine=replacing("verify"))
def no_break(call: Call) -> tuple[Ints, Ints]:
    """The loop goes on after a mismatch."""
    passed = call.accept * along(call.draft, call.tokens) < along(call.target, call.tokens)
    drawn = toy.race(toy.residuals(call.target, call.draft), call.correct)
    kept = np.where(passed, call.tokens, drawn[:, :-1])
    return np.concatenate([kept, drawn[:, -1:]], axis=1), np.full(len(kept), kept.shape[1])


@specimen("E1", "joint", declared="token", prefix="system-", engine=replacing("verify"))
def late_handler(call: Call) -> tuple[Ints, Ints]:
    """On rejection the next row, conditioned on the rejected draft, is sampled."""
    _, accepted = toy.token_rule(call)
    request, length = np.arange(len(accepted)), call.tokens.shape[1]
    row = np.minimum(accepted + 1, length)
    drawn = toy.race(call.target[request, row], call.correct[request, row])
    return toy.emission(call.tokens, accepted, drawn), accepted


@specimen("E10", "length", declared="token", engine=replacing("propose"))
def drafter_sees_padding(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """Padding spoils the drafter; the law stays right."""
    flat = np.full(rows.shape, 1 / rows.shape[1])
    return toy.race(flat, uniforms), flat


# Stop tokens and budgets: (emitted, accepted, tokens before, limits) -> (emitted, accepted).

finishing = partial(specimens_of, declared="token", engine=replacing("finish", stop_token=0))
finishing("calls")(
    text_after_stop=(
        "H7: Only the last token of a block is compared with the stop token",
        lambda emitted, taken, before, limits: trimmed(
            emitted, taken, before, replace(limits, stop_token=None)
        ),
    ),
    budget_counted_in_calls=(
        "H9: The token budget is not applied within a block",
        lambda emitted, taken, before, limits: trimmed(
            emitted, taken, before, replace(limits, max_tokens=10**9)
        ),
    ),
)
finishing("length")(
    metric_counts_past_stop=(
        "H10: The reported length counts drafts after the stop token",
        lambda emitted, taken, *where: (trimmed(emitted, taken, *where)[0], taken),
    )
)
