"""The check `scale` of rules: large vocabularies and low precision keep the distribution and every id.

Rules for paths are called as samplers. At a large vocabulary two ids far apart are drafted, so that all draft
trees can be run; the target also has thousands of other tokens. Its probabilities are powers of two, exact in
every number type. The distribution is found by enumeration; where the rule looks at a sampled id, few ids
represent the others.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import FLOAT32_ROUNDING
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import (
    CheckResult,
    How,
    Status,
    failed,
    inconclusive,
    not_asked,
    passed,
    remarked,
)
from spec_oracle.audit.rule.draftings import DEPTH, one_of_each
from spec_oracle.audit.rule.subject import RuleSubject, verdicts
from spec_oracle.audit.sampler import scale as large
from spec_oracle.audit.sampler.scale import DTYPES
from spec_oracle.contracts import SubjectRaisedError
from spec_oracle.exact import DecisionError, VerdictError, emission_law
from spec_oracle.exact.conditional import conditional_laws
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.threads import raising
from spec_oracle.toy import Instance
from verifiers import ROOT, Drafts, traits_of

VOCABULARIES: Final = (32_000, 151_936)
"""Of Llama 2 and Qwen 2.5."""

_EDGES: Final = (0, 127, 128, 255, 256, 257, 2048, 2049, 32767, 32768, 65535, 65536, 65537)
"""Ids at which narrower types of numbers end or have gaps; the last id of the vocabulary is tried, too."""

_DRAFT: Final = (3 / 4, 1 / 4)
_TARGET: Final = (1 / 4, 0.0)
"""Probabilities of the drafted ids; `_OTHERS` ids share half of the target, the last id has the rest."""

_OTHERS: Final = 4096


def scale(subject: RuleSubject, context: Context) -> CheckResult:
    """Judge every id of a mid-size vocabulary, large offsets and rows, and low precision; then trees."""
    largest = traits_of(subject.rule).largest_vocab_size
    reason = f"made for vocabularies of at most {largest} tokens" if largest else subject.never_called_alone
    if reason:
        return not_asked(reason)
    as_sampler = large.scale(subject, context)
    if as_sampler.status is not Status.PASSED or not subject.on_trees:
        return as_sampler
    on_trees = _on_trees(subject, context)
    if on_trees.status is not Status.PASSED:
        return on_trees
    notes = dict.fromkeys((*as_sampler.remarks.notes, *on_trees.remarks.notes))
    found = replace(as_sampler, detail=f"{as_sampler.detail}; on trees {on_trees.detail}")
    return remarked(found, notes=tuple(notes))


def _on_trees(subject: RuleSubject, context: Context) -> CheckResult:
    """Judge ids and the output distribution at large vocabularies, and toys in every number type."""
    for least, vocab_size in pairwise((0, *VOCABULARIES)):
        tried = [token for token in _EDGES if least <= token < vocab_size]
        if wrong := _wrong_id(subject, vocab_size, np.array([*tried, vocab_size - 1])):
            return failed(wrong, how=How.REPLAYED)
    toy = panel(3, DEPTH, 1, context.seed)["flat"]
    kept, refused, notes = list[str](), list[str](), list[str]()
    for dtype in ("float64", *DTYPES[subject.array]):
        try:
            says, gap = _wrong_in(subject, toy, dtype)
        except SubjectRaisedError as error:
            refused.append(f"; {dtype} refused ({error})")
            continue
        except NotTracedError as error:
            if dtype in context.shapes.dtypes:
                return inconclusive(f"{dtype}: could not find the output distribution: {error}")
            says, gap = str(error), 0.0
        if not says:
            kept.append(dtype)
        elif dtype in context.shapes.dtypes:
            return failed(f"{dtype}: {says}", how=How.PROVEN, total_variation=gap)
        else:
            notes.append(f"not for {dtype} rows: {says}")
    sizes = " and ".join(f"{size:,}" for size in VOCABULARIES)
    detail = f"ids kept at V = {sizes}; distribution kept in {', '.join(kept)}{''.join(refused)}"
    return passed(detail, how=How.REPRESENTED, notes=tuple(notes))


def _wrong_id(subject: RuleSubject, vocab_size: int, ids: Integers) -> str:
    """Emit ids of probability 1: after a draft of probability 0, and after one of probability 1."""
    drafted = np.roll(ids, 1)
    tokens = np.concatenate([drafted, drafted])[:, None]
    certain = np.zeros((len(tokens), 2, vocab_size))
    draft, target, request = certain, certain.copy(), np.arange(len(tokens))
    draft[request, :, tokens[:, 0]] = 1
    target[request, 1, np.concatenate([ids, ids])] = 1
    target[request, 0, np.concatenate([ids, drafted])] = 1
    drafts = Drafts.of_tree(tokens, np.full(tokens.shape, ROOT), draft, target)
    found = verdicts(subject, drafts, np.full((len(tokens), 64), 0.5))
    wanted = np.stack([np.where(request < len(ids), ROOT, 0), np.concatenate([ids, ids])], axis=1)
    wrong = (found != wanted).any(axis=1)
    if not wrong.any():
        return ""
    place, token = found[wrong][0].tolist()
    where = f"request {wrong.argmax()}, V = {vocab_size:,}"
    return f"token {token} after place {place}, where {wanted[wrong][0, 1]} has probability 1 ({where})"


def _wrong_in(subject: RuleSubject, toy: Instance, dtype: str) -> tuple[str, float]:
    """Return what is wrong in one number type, "" if nothing is, and the total variation."""
    try:
        for where, gap in _gaps(subject, toy, dtype):
            if gap > max(subject.facts.tolerance, FLOAT32_ROUNDING):
                return f"total variation {gap:.3g} of {where}", gap
    except (DecisionError, VerdictError) as error:
        return str(error), 0.0
    return "", 0.0


def _gaps(subject: RuleSubject, toy: Instance, dtype: str) -> Iterator[tuple[str, float]]:
    """Yield total variations in one number type, with what is wrong by that much: toys, then large ones."""
    if dtype not in ("float64", "float32"):  # in which joint and shapes find the distribution on toys
        for kind, drafting in one_of_each(subject.on_trees, DEPTH).items():
            with raising():
                law = emission_law(
                    subject.rule, toy, drafting=drafting, array=subject.array, dtype=dtype, merged=False
                )
            yield f"one call on a toy instance, {kind}", float(law.total_variation)
    vocab_size = VOCABULARIES[dtype == "float32"]
    yield f"one call at V = {vocab_size:,}", _gap_at(subject, vocab_size, dtype)


def _gap_at(subject: RuleSubject, vocab_size: int, dtype: str) -> float:
    """Return the total variation of the first two tokens at a large vocabulary."""
    drafting = next(iter(one_of_each(subject.on_trees, 1).values()))
    trees = drafting.law(Instance.context_free([0.5, 0.5], _DRAFT, draft_length=1).floats)
    ids = np.array([vocab_size - 2, 5])
    target, draft = np.zeros(vocab_size), np.zeros(vocab_size)
    target[6 + np.arange(_OTHERS) * ((vocab_size - 8) // _OTHERS)] = 0.5 / _OTHERS
    target[ids], draft[ids] = _TARGET, _DRAFT
    target[-1] = 1 - target.sum()
    following = np.stack([target, *(np.roll(target, step) for step in range(1, len(ids) + 1))])
    rows = np.stack([draft, *(0 * draft for _ in ids)])[trees.nodes], following[trees.nodes]
    with raising():
        drafts = Drafts.of_tree(ids[trees.tokens], trees.parents, *rows)
        laws = conditional_laws(subject.rule, drafts, array=subject.array, dtype=dtype)
    first, after = np.zeros(vocab_size), np.zeros((len(ids), vocab_size))
    for mass, law in zip(trees.probability, laws, strict=True):
        for prefix, masses in law.leaves.items():
            into = after[[*ids].index(prefix[0])] if prefix else first
            into += mass * masses
    # A call that emits one token goes on with the target's row.
    second = after + (first[ids] - target[ids])[:, None] * following[1:]
    first[ids] = target[ids]
    return float(abs(first - target).sum() + abs(second).sum()) / 2
