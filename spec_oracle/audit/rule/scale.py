"""The check `scale` of rules: large vocabularies and low precision keep the distribution and every id.

One token is drafted, in every way in which the rule may find its drafts, and each id is certain, whether the
draft is refused or accepted. The output distribution in each number type is found by enumeration: on a toy
instance, and at a large vocabulary.
"""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import FLOAT32_ROUNDING
from spec_oracle.audit.draftings import DEPTH, ToyDrafts
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, Status, failed, inconclusive, not_asked, passed
from spec_oracle.audit.rule.joint import enumerated
from spec_oracle.audit.rule.shapes import enumerated_shape
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.sampler.scale import DTYPES
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.contracts import SubjectRaisedError
from spec_oracle.exact import DecisionError, EmissionLaw, VerdictError
from spec_oracle.exact.conditional import conditional_laws
from spec_oracle.exact.drafting import DraftLaw
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.threads import raising
from spec_oracle.toy import Instance
from verifiers import Drafts, traits_of
from verifiers.rows import TableRows

EVERY_ID: Final = 257
"""Up to so many tokens every id is tried."""

VOCABULARIES: Final = (32_000, 151_936)
"""Of Llama 2 and Qwen 2.5."""

_EDGES: Final = (0, 127, 128, 255, 256, 257, 2048, 2049, 32768, 65536)
"""Ids at which narrower types of numbers end or have gaps; the last id of the vocabulary is tried, too."""

_TURNS: Final = 8
"""Times that rows with few possible tokens are tried at a large vocabulary."""


def scale(subject: RuleSubject, context: Context) -> CheckResult:
    """Judge ids at large vocabularies, and the output distribution in every number type."""
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
        try:
            found = _kept_in(subject, context, dtype)
        except SubjectRaisedError as error:
            found = inconclusive(str(error))
        except (DecisionError, VerdictError) as error:
            found = failed(str(error), how=How.PROVEN)
        except NotTracedError as error:
            says = f"could not find the output distribution: {error}"
            if dtype in context.shapes.dtypes:
                return inconclusive(f"{dtype}: {says}")
            found = failed(says)
        if found.status is Status.PASSED:
            kept.append(dtype)
        elif found.status is Status.INCONCLUSIVE:
            refused.append(f"; {dtype} refused ({found.detail})")
        elif dtype in context.shapes.dtypes:
            return found
        else:
            notes.append(f"not for {dtype} rows: {found.detail}")
    sizes = " and ".join(f"{size:,}" for size in VOCABULARIES)
    detail = f"ids kept at V = {sizes}; distribution kept in {', '.join(kept)}{''.join(refused)}"
    return passed(detail, how=How.REPRESENTED, notes=tuple(notes))


def _kept_in(subject: RuleSubject, context: Context, dtype: str) -> CheckResult:
    """Find the output distribution in one number type; raises `NotTracedError` where it cannot be found."""
    toy = panel(3, DEPTH, subject.num_paths, context.seed)["flat"]
    cases = [
        ToyDrafts("flat", "flat", kind, toy, drafting, dtype)
        for kind, drafting in subject.one_of_each(toy).items()
    ]
    for case, law in enumerated(subject, replace(context, exact=False), cases, math.inf):
        if not isinstance(law, EmissionLaw):
            return failed(f"{case}: {law}", how=How.PROVEN)
        tv = float(law.total_variation)
        if tv > max(subject.facts.tolerance, FLOAT32_ROUNDING):
            says = f"total variation {tv:.3g} of one call on a toy instance, {case}"
            return failed(says, how=How.PROVEN, total_variation=tv)
    vocab_size = VOCABULARIES[dtype == "float32"]
    shape = Shape(vocab_size, 1, subject.num_paths, dtype=dtype, kind="flat")
    few = replace(shape, num_paths=1, kind="zero")  # for a rule that draws more than it needs
    for turn, one in enumerate([shape, *[few] * _TURNS]):
        try:
            return enumerated_shape(subject, context, context.rate, shape=one, seed=context.seed + turn)
        except NotTracedError as error:
            last = error
    raise last


@part
def ids_kept(subject: RuleSubject, context: Context, rate: float, *, vocab_size: int) -> CheckResult:
    """Emit ids of probability 1: after a draft of probability 0, and after one of probability 1."""
    del context, rate
    least = max(size for size in (0, *VOCABULARIES) if size < vocab_size)  # smaller ids are tried there
    edges = (*_EDGES, vocab_size - 1)
    some = range(vocab_size) if vocab_size <= EVERY_ID else [one for one in edges if one >= least]
    ids = np.array([one for one in some if one < vocab_size])
    first, last = np.concatenate([ids, np.roll(ids, 1)]), np.concatenate([ids, ids])
    toy = Instance.context_free([0.5, 0.5], [1.0, 0.0], draft_length=1, num_paths=subject.num_paths)
    trees = {kind: drafting.law(toy.floats) for kind, drafting in subject.one_of_each(toy).items()}
    for kind in {law.tokens.tobytes(): kind for kind, law in trees.items()}.values():  # those that differ
        drafts = _certain(trees[kind], ids, vocab_size)
        try:
            with raising():
                laws = conditional_laws(subject.rule, drafts, array=subject.array)
        except (DecisionError, VerdictError) as error:
            return failed(f"{error} (V = {vocab_size:,}, {kind})", how=How.PROVEN)
        except NotTracedError as error:
            return inconclusive(f"could not find which ids are emitted: {error}")
        for request, law in enumerate(laws):
            wanted = (int(first[request]), int(last[request]))
            wrong = {one: mass for one, mass in law.emissions.items() if one != wanted[: len(one)]}
            if (tv := sum(wrong.values())) > FLOAT32_ROUNDING:
                emitted = max(wrong, key=lambda one: wrong[one])
                token, right = next(pair for pair in zip(emitted, wanted, strict=False) if len({*pair}) > 1)
                says = f"token {token} was emitted by request {request} where {right} has probability 1"
                return failed(f"{says} (V = {vocab_size:,}, {kind})", how=How.PROVEN, total_variation=tv)
    return passed(f"ids kept at V = {vocab_size:,}", how=How.PROVEN)


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
