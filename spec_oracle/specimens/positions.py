"""Systems that lose their place: rollback, stop tokens, budgets and what is counted as accepted."""

import numpy as np

from spec_oracle.specimens.drafting import Build, entry
from spec_oracle.specimens.specimen import Specimen
from spec_oracle.specimens.toy_system import (
    Advance,
    Call,
    Finish,
    Floats,
    Ints,
    Limits,
    Progress,
    ToySystem,
    accepted_prefix,
    along,
    emission,
    follow_text,
    race,
    residuals,
    token_rule,
    toy_system,
    trimmed,
)
from spec_oracle.toy import Instance
from spec_oracle.toy.contexts import after_tokens

STOPPING = Limits(stop_token=0, max_tokens=4)


def _advancing(advance: Advance) -> Build:
    return lambda instance, entropy: toy_system(instance, entropy, advance=advance)


def _finishing(finish: Finish, limits: Limits = STOPPING) -> Build:
    return lambda instance, entropy: toy_system(instance, entropy, finish=finish, limits=limits)


def _accepted_only(drafts: Ints, emitted: Ints) -> Ints:
    """Return the accepted prefix, int [B, L], padded with -1: drafts that the text agrees with."""
    kept = accepted_prefix(drafts == emitted[:, :-1])
    return np.where(np.arange(drafts.shape[1]) < kept[:, None], drafts, -1)


# Rollback.


def _bonus_not_cached(progress: Progress, drafts: Ints, emitted: Ints, vocab: int) -> Progress:
    right = follow_text(progress, drafts, emitted, vocab)
    whole = emitted[:, -1] >= 0
    return Progress(right.target, np.where(whole, after_tokens(progress.draft, drafts, vocab), right.draft))


def _correction_not_kept(progress: Progress, drafts: Ints, emitted: Ints, vocab: int) -> Progress:
    right = follow_text(progress, drafts, emitted, vocab)
    return Progress(after_tokens(progress.target, _accepted_only(drafts, emitted), vocab), right.draft)


def _rejected_draft_stays(progress: Progress, drafts: Ints, emitted: Ints, vocab: int) -> Progress:
    right = follow_text(progress, drafts, emitted, vocab)
    stale = np.where(emitted[:, :-1] >= 0, drafts, -1)
    seen = after_tokens(after_tokens(progress.target, stale, vocab), emitted[:, -1:], vocab)
    return Progress(seen, right.draft)


def _rejected_drafts_counted(progress: Progress, drafts: Ints, emitted: Ints, vocab: int) -> Progress:
    right = follow_text(progress, drafts, emitted, vocab)
    rejected = emitted[:, -1] < 0
    return Progress(
        np.where(rejected, after_tokens(progress.target, drafts, vocab), right.target), right.draft
    )


# Emissions and what is reported of them.


def _counts_past_rejection(call: Call) -> tuple[Ints, Ints]:
    emitted, _ = token_rule(call)
    return emitted, (call.accept * along(call.draft, call.tokens) < along(call.target, call.tokens)).sum(
        axis=1
    )


def _rejected_not_removed(call: Call) -> tuple[Ints, Ints]:
    emitted, accepted = token_rule(call)
    last = np.take_along_axis(emitted, accepted[:, None], axis=1)
    return np.concatenate([call.tokens, last], axis=1), accepted


def _no_break(call: Call) -> tuple[Ints, Ints]:
    passed = call.accept * along(call.draft, call.tokens) < along(call.target, call.tokens)
    drawn = race(residuals(call.target, call.draft), call.correct)
    kept = np.where(passed, call.tokens, drawn[:, :-1])
    return np.concatenate([kept, drawn[:, -1:]], axis=1), np.full(len(kept), kept.shape[1])


def _late_handler(call: Call) -> tuple[Ints, Ints]:
    _, accepted = token_rule(call)
    request, length = np.arange(len(accepted)), call.tokens.shape[1]
    row = np.minimum(accepted + 1, length)
    return emission(
        call.tokens, accepted, race(call.target[request, row], call.correct[request, row])
    ), accepted


def _draft_padded(instance: Instance, entropy: int) -> ToySystem:
    def propose(rows: Floats, uniforms: Floats) -> tuple[Ints, Floats]:
        flat = np.full(rows.shape, 1 / rows.shape[1])
        return race(flat, uniforms), flat

    return toy_system(instance, entropy, propose=propose)


# Stop tokens and budgets.


def _stop_as_last_token_only(
    emitted: Ints, accepted: Ints, before: Ints, limits: Limits
) -> tuple[Ints, Ints]:
    return trimmed(emitted, accepted, before, Limits(max_tokens=limits.max_tokens))


def _cap_hides_stop(emitted: Ints, accepted: Ints, before: Ints, limits: Limits) -> tuple[Ints, Ints]:
    cap = Limits(max_tokens=limits.max_tokens)
    by_cap = trimmed(emitted, accepted, before, cap)
    capped = (emitted != by_cap[0]).any(axis=1)
    right = trimmed(emitted, accepted, before, limits)
    return np.where(capped[:, None], by_cap[0], right[0]), np.where(capped, by_cap[1], right[1])


def _budget_in_calls(emitted: Ints, accepted: Ints, before: Ints, limits: Limits) -> tuple[Ints, Ints]:
    return trimmed(emitted, accepted, before, Limits(stop_token=limits.stop_token))


def _metric_before_trimming(emitted: Ints, accepted: Ints, before: Ints, limits: Limits) -> tuple[Ints, Ints]:
    return trimmed(emitted, accepted, before, limits)[0], accepted


_ALL: tuple[tuple[str, str, str, tuple[str, ...], Build], ...] = (
    (
        "A12",
        "acceptances-counted-past-rejection",
        "the reported length counts drafts that pass after the first rejection",
        ("length",),
        lambda instance, entropy: toy_system(instance, entropy, verify=_counts_past_rejection),
    ),
    (
        "E1",
        "system-late-handler",
        "on rejection the next row, conditioned on the rejected draft, is sampled",
        ("joint",),
        lambda instance, entropy: toy_system(instance, entropy, verify=_late_handler),
    ),
    (
        "E2",
        "system-no-break",
        "the loop goes on after a mismatch",
        ("joint",),
        lambda instance, entropy: toy_system(instance, entropy, verify=_no_break),
    ),
    (
        "E6",
        "bonus-not-in-drafter-cache",
        "after a whole draft the drafter never sees the bonus",
        ("length",),
        _advancing(_bonus_not_cached),
    ),
    (
        "E7",
        "rollback-one-too-far",
        "the correction is missing from the target's cache",
        ("calls",),
        _advancing(_correction_not_kept),
    ),
    (
        "E8",
        "rejected-drafts-emitted",
        "rejected drafts are not removed from the text",
        ("joint",),
        lambda instance, entropy: toy_system(instance, entropy, verify=_rejected_not_removed),
    ),
    (
        "E9",
        "stale-last-token",
        "the next call conditions on the rejected draft",
        ("calls",),
        _advancing(_rejected_draft_stays),
    ),
    (
        "E10",
        "drafter-sees-padding",
        "padding spoils the drafter; the law stays right",
        ("length",),
        _draft_padded,
    ),
    (
        "H4",
        "rejected-drafts-in-history",
        "rejected drafts stay in the history that penalties read",
        ("calls",),
        _advancing(_rejected_drafts_counted),
    ),
    (
        "H7",
        "text-after-stop",
        "only the last token of a block is compared with the stop token",
        ("calls",),
        _finishing(_stop_as_last_token_only),
    ),
    (
        "H8",
        "cap-hides-stop",
        "the length cap is tested before the stop token",
        ("calls",),
        _finishing(_cap_hides_stop),
    ),
    (
        "H9",
        "budget-counted-in-calls",
        "the token budget is not applied within a block",
        ("calls",),
        _finishing(_budget_in_calls),
    ),
    (
        "H10",
        "metric-counts-past-stop",
        "the reported length counts drafts after the stop token",
        ("length",),
        _finishing(_metric_before_trimming),
    ),
)

POSITIONS: tuple[Specimen, ...] = tuple(entry(*fields) for fields in _ALL)
