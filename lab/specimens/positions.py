"""Engines that lose their place: rollback, stop tokens, budgets and what is counted as accepted."""

from dataclasses import replace
from functools import partial

import numpy as np

from lab.specimens.contexts import after_tokens
from lab.specimens.specimen import specimen
from lab.specimens.toy_engine import (
    Call,
    Floats,
    Ints,
    Limits,
    Progress,
    accepted_prefix,
    along,
    emission,
    follow_text,
    race,
    replacing,
    residuals,
    token_rule,
    trimmed,
)

# Rollback.


@specimen("E6", "length", rule="token", engine=replacing("advance"))
def bonus_not_in_drafter_cache(progress: Progress, drafts: Ints, emitted: Ints, vocab: int) -> Progress:
    """After a whole draft the drafter never sees the bonus."""
    right = follow_text(progress, drafts, emitted, vocab)
    whole = emitted[:, -1] >= 0
    return replace(right, draft=np.where(whole, after_tokens(progress.draft, drafts, vocab), right.draft))


@specimen("E7", "calls", rule="token", engine=replacing("advance"))
def rollback_one_too_far(progress: Progress, drafts: Ints, emitted: Ints, vocab: int) -> Progress:
    """The correction is missing from the target's cache."""
    kept = accepted_prefix(drafts == emitted[:, :-1])
    accepted_only = np.where(np.arange(drafts.shape[1]) < kept[:, None], drafts, -1)
    right = follow_text(progress, drafts, emitted, vocab)
    return replace(right, target=after_tokens(progress.target, accepted_only, vocab))


@specimen("E9", "calls", rule="token", engine=replacing("advance"))
def stale_last_token(progress: Progress, drafts: Ints, emitted: Ints, vocab: int) -> Progress:
    """The next call conditions on the rejected draft."""
    stale = np.where(emitted[:, :-1] >= 0, drafts, -1)
    seen = after_tokens(after_tokens(progress.target, stale, vocab), emitted[:, -1:], vocab)
    return replace(follow_text(progress, drafts, emitted, vocab), target=seen)


@specimen("H4", "calls", rule="token", engine=replacing("advance"))
def rejected_drafts_in_history(progress: Progress, drafts: Ints, emitted: Ints, vocab: int) -> Progress:
    """Rejected drafts stay in the history that penalties read."""
    right = follow_text(progress, drafts, emitted, vocab)
    rejected = emitted[:, -1] < 0
    return replace(
        right, target=np.where(rejected, after_tokens(progress.target, drafts, vocab), right.target)
    )


# Emissions and what is reported of them.


@specimen("A12", "length", rule="token", engine=replacing("verify"))
def acceptances_counted_past_rejection(call: Call) -> tuple[Ints, Ints]:
    """The reported length counts drafts that pass after the first rejection."""
    passed = call.accept * along(call.draft, call.tokens) < along(call.target, call.tokens)
    return token_rule(call)[0], passed.sum(axis=1)


@specimen("E8", "joint", rule="token", engine=replacing("verify"))
def rejected_drafts_emitted(call: Call) -> tuple[Ints, Ints]:
    """Rejected drafts are not removed from the text."""
    emitted, accepted = token_rule(call)
    last = np.take_along_axis(emitted, accepted[:, None], axis=1)
    return np.concatenate([call.tokens, last], axis=1), accepted


@specimen("E2", "joint", rule="token", prefix="system-", engine=replacing("verify"))
def no_break(call: Call) -> tuple[Ints, Ints]:
    """The loop goes on after a mismatch."""
    passed = call.accept * along(call.draft, call.tokens) < along(call.target, call.tokens)
    drawn = race(residuals(call.target, call.draft), call.correct)
    kept = np.where(passed, call.tokens, drawn[:, :-1])
    return np.concatenate([kept, drawn[:, -1:]], axis=1), np.full(len(kept), kept.shape[1])


@specimen("E1", "joint", rule="token", prefix="system-", engine=replacing("verify"))
def late_handler(call: Call) -> tuple[Ints, Ints]:
    """On rejection the next row, conditioned on the rejected draft, is sampled."""
    _, accepted = token_rule(call)
    request, length = np.arange(len(accepted)), call.tokens.shape[1]
    row = np.minimum(accepted + 1, length)
    drawn = race(call.target[request, row], call.correct[request, row])
    return emission(call.tokens, accepted, drawn), accepted


@specimen("E10", "length", rule="token", engine=replacing("propose"))
def drafter_sees_padding(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
    """Padding spoils the drafter; the law stays right."""
    flat = np.full(rows.shape, 1 / rows.shape[1])
    return race(flat, uniforms), flat


# Stop tokens and budgets.

finishing = partial(specimen, rule="token", engine=replacing("finish", stop_token=0))


@finishing("H7", "calls")
def text_after_stop(emitted: Ints, accepted: Ints, before: Ints, limits: Limits) -> tuple[Ints, Ints]:
    """Only the last token of a block is compared with the stop token."""
    return trimmed(emitted, accepted, before, replace(limits, stop_token=None))


@finishing("H8", "calls")
def cap_hides_stop(emitted: Ints, accepted: Ints, before: Ints, limits: Limits) -> tuple[Ints, Ints]:
    """The length cap is tested before the stop token."""
    by_cap = trimmed(emitted, accepted, before, replace(limits, stop_token=None))
    capped = (emitted != by_cap[0]).any(axis=1)
    right = trimmed(emitted, accepted, before, limits)
    return np.where(capped[:, None], by_cap[0], right[0]), np.where(capped, by_cap[1], right[1])


@finishing("H9", "calls")
def budget_counted_in_calls(emitted: Ints, accepted: Ints, before: Ints, limits: Limits) -> tuple[Ints, Ints]:
    """The token budget is not applied within a block."""
    return trimmed(emitted, accepted, before, replace(limits, max_tokens=10**9))


@finishing("H10", "length")
def metric_counts_past_stop(emitted: Ints, accepted: Ints, before: Ints, limits: Limits) -> tuple[Ints, Ints]:
    """The reported length counts drafts after the stop token."""
    return trimmed(emitted, accepted, before, limits)[0], accepted
