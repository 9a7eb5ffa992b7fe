"""The check `scale` of rules: large vocabularies and low precision keep the distribution and every id.

One token is drafted, in every way in which the rule may find its drafts. First each id is certain, whether
the draft is refused or accepted. Then, at a large vocabulary, two ids far apart are drafted, so that all
drafts can be run; the target also has thousands of other tokens. Its probabilities are powers of two, exact in
every number type. The distribution is found by enumeration; where the rule looks at a sampled id, few ids
represent the others.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import FLOAT32_ROUNDING
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, Status, failed, inconclusive, not_asked, passed
from spec_oracle.audit.rule.draftings import DEPTH, in_own_arrays
from spec_oracle.audit.rule.subject import RuleSubject, verdicts
from spec_oracle.audit.sampler.scale import DTYPES
from spec_oracle.exact import DecisionError, VerdictError, emission_law
from spec_oracle.exact.conditional import ConditionalLaw, conditional_laws
from spec_oracle.exact.drafting import DraftLaw
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.threads import raising
from spec_oracle.toy import Instance
from verifiers import ROOT, Drafts, traits_of
from verifiers.rows import TableRows

EVERY_ID: Final = 257
"""Up to so many tokens every id is tried."""

VOCABULARIES: Final = (32_000, 151_936)
"""Of Llama 2 and Qwen 2.5."""

_EDGES: Final = (0, 127, 128, 255, 256, 257, 2048, 2049, 32767, 32768, 65535, 65536, 65537)
"""Ids at which narrower types of numbers end or have gaps; the last id of the vocabulary is tried, too."""

_DRAFT: Final = (3 / 4, 1 / 4)
_TARGET: Final = (1 / 4, 0.0)
"""Probabilities of the drafted ids; other ids share half of the target, the last id has the rest."""

_OTHERS: Final = (4096, 2)
"""How many share it; few where a rule that draws more than it needs has too many outcomes otherwise."""


def scale(subject: RuleSubject, context: Context) -> CheckResult:
    """Judge ids and the output distribution at large vocabularies, and toys in every number type."""
    largest = traits_of(subject.rule).largest_vocab_size
    reason = f"made for vocabularies of at most {largest} tokens" if largest else subject.never_called_alone
    if reason:
        return not_asked(reason)
    for vocab_size in (EVERY_ID, *VOCABULARIES):
        found = ids_kept(subject, context, context.rate, vocab_size=vocab_size)
        if found.status is not Status.PASSED:
            return found
    kept, refused, notes = list[str](), list[str](), list[str]()
    for dtype in ("float64", *DTYPES[subject.array]):
        is_counted, vocab_size = dtype in context.shapes.dtypes, VOCABULARIES[dtype == "float32"]
        try:
            found = kept_in(subject, context, context.rate, dtype=dtype, vocab_size=vocab_size)
        except NotTracedError as error:
            found = failed(f"{dtype}: could not find the output distribution: {error}")
            if is_counted:
                return inconclusive(found.detail)
        if found.status is Status.PASSED:
            kept.append(dtype)
        elif found.status is Status.INCONCLUSIVE:
            refused.append(f"; {dtype} refused ({found.detail})")
        elif is_counted:
            return found
        else:
            notes.append(f"not for {dtype} rows: {found.detail.removeprefix(f'{dtype}: ')}")
    sizes = " and ".join(f"{size:,}" for size in VOCABULARIES)
    detail = f"ids kept at V = {sizes}; distribution kept in {', '.join(kept)}{''.join(refused)}"
    return passed(detail, how=How.REPRESENTED, notes=tuple(notes))


@part
def ids_kept(subject: RuleSubject, context: Context, rate: float, *, vocab_size: int) -> CheckResult:
    """Emit ids of probability 1: after a draft of probability 0, and after one of probability 1."""
    del context, rate
    some = range(vocab_size) if vocab_size <= EVERY_ID else (*_EDGES, vocab_size - 1)
    ids = np.array([one for one in some if one < vocab_size])
    first, last = np.concatenate([ids, np.roll(ids, 1)]), np.concatenate([ids, ids])
    for kind, drafting in _draftings(subject, (1.0, 0.0)).items():
        drafts = _certain(drafting, ids, vocab_size)
        place, token = verdicts(subject, drafts, np.full((drafts.batch, 64), 0.5)).T
        accepted = drafts.tokens[np.arange(drafts.batch), np.maximum(place, 0)]
        for emitted, wanted in (
            (np.where(place == ROOT, token, accepted), first),
            (np.where(place == ROOT, last, token), last),
        ):
            if (wrong := emitted != wanted).any():
                request = int(wrong.argmax())
                says = f"token {emitted[request]} was emitted by request {request}"
                where = f"where {wanted[request]} has probability 1 (V = {vocab_size:,}, {kind})"
                return failed(f"{says} {where}", how=How.REPLAYED)
    return passed(f"ids kept at V = {vocab_size:,}", how=How.REPLAYED)


@part
def kept_in(
    subject: RuleSubject, context: Context, rate: float, *, dtype: str, vocab_size: int
) -> CheckResult:
    """Find the output distribution in one number type: on a toy instance, then at a large vocabulary.

    In float64 and float32 `joint` and `shapes` find it on toys.
    """
    del rate
    toy = panel(3, DEPTH, subject.num_paths, context.seed)["flat"]
    kinds = {} if dtype in {"float64", "float32"} else subject.one_of_each(toy)
    how = {"array": subject.array, "dtype": dtype}
    gaps = dict[str, float]()
    try:
        with raising():
            for kind, drafting in kinds.items():
                law = emission_law(subject.rule, toy, drafting=drafting, merged=False, **how)
                gaps[f"one call on a toy instance, {kind}"] = float(law.total_variation)
            for kind, drafting in _draftings(subject, _DRAFT).items():
                where = f"one call at V = {vocab_size:,}, {kind}"
                gaps[where] = _gap_at(subject, vocab_size, drafting, how)
    except (DecisionError, VerdictError) as error:
        return failed(f"{dtype}: {error}", how=How.PROVEN)
    where, gap = max(gaps.items(), key=lambda item: item[1])
    say = failed if gap > max(subject.facts.tolerance, FLOAT32_ROUNDING) else passed
    return say(f"{dtype}: total variation {gap:.3g} of {where}", how=How.REPRESENTED, total_variation=gap)


def _draftings(subject: RuleSubject, draft: tuple[float, float]) -> Mapping[str, DraftLaw]:
    """Return the drafts of one token on a toy instance of two tokens, by kind: those that differ."""
    toy = Instance.context_free([0.5, 0.5], draft, draft_length=1, num_paths=subject.num_paths)
    laws = {kind: drafting.law(toy.floats) for kind, drafting in subject.one_of_each(toy).items()}
    differing = {(law.tokens.tobytes(), law.probability.tobytes()): kind for kind, law in reversed(laws.items())}
    return {kind: laws[kind] for kind in reversed(differing.values())}


def _certain(trees: DraftLaw, ids: Integers, vocab_size: int) -> Drafts:
    """Return requests with the id before each of ``ids`` as draft, which the target refuses, then accepts.

    After it, each of ``ids`` is certain.
    """
    count, places = len(ids), trees.tokens.shape[1]
    table = np.zeros((count + 1, vocab_size))  # the last row is of nothing
    table[np.arange(count), ids] = 1
    wanted, before = np.tile(np.arange(count), 2), np.tile(np.roll(np.arange(count), 1), 2)
    drafted = np.stack([ids[before], np.roll(ids[before], 1)], axis=1)
    target = np.repeat(wanted[:, None], places + 1, axis=1)
    target[count:, 0] = before[count:]
    draft = np.full(target.shape, count)
    draft[:, 0] = before
    rows = TableRows(table, draft), TableRows(table, target)
    parents = np.repeat(trees.parents[:1], 2 * count, axis=0)
    return Drafts(drafted[:, trees.tokens[0]], parents, *rows, trees.num_paths, trees.depth, trees.fan_out)


def _gap_at(subject: RuleSubject, vocab_size: int, trees: DraftLaw, how: Mapping[str, str]) -> float:
    """Return the total variation of the first two tokens at a large vocabulary."""
    ids = np.array([vocab_size - 2, 5])
    for others in _OTHERS:
        target, draft = np.zeros(vocab_size), np.zeros(vocab_size)
        target[6 + np.arange(others) * ((vocab_size - 8) // others)] = 0.5 / others
        target[ids], draft[ids] = _TARGET, _DRAFT
        target[-1] = 1 - target.sum()
        following = np.stack([target, *(np.roll(target, step) for step in range(1, len(ids) + 1))])
        tables = np.stack([draft, *(0 * draft for _ in ids)]), following
        rows = (TableRows(table, trees.nodes) for table in tables)
        size = (trees.num_paths, trees.depth, trees.fan_out)
        drafts = in_own_arrays(Drafts(ids[trees.tokens], trees.parents, *rows, *size))
        try:
            laws = conditional_laws(subject.rule, drafts, **how)
        except NotTracedError:
            if others == _OTHERS[-1]:
                raise
            continue
        break
    return _gap(zip(trees.probability, laws, strict=True), ids, following)


def _gap(laws: Iterable[tuple[float, ConditionalLaw]], ids: Integers, rows: Floats) -> float:
    """Return the total variation of the first two tokens; ``laws`` come with the probability of their drafts."""
    first, after, target = np.zeros(rows.shape[1]), np.zeros((len(ids), rows.shape[1])), rows[0]
    for mass, law in laws:
        for prefix, masses in law.leaves.items():
            into = after[[*ids].index(prefix[0])] if prefix else first
            into += mass * masses
    # A call that emits one token goes on with the target's row.
    second = after + (first[ids] - target[ids])[:, None] * rows[1:]
    first[ids] = target[ids]
    return float(abs(first - target).sum() + abs(second).sum()) / 2
