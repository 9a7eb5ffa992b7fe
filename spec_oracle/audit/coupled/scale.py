"""The check `scale` of coupled rules: every id of a mid-size vocabulary, and a full one of 151,936 tokens.

At the full vocabulary the rule is called beside the built-in rule that `joint` found it to be, with rows in
float64 and in float32. Where it emits something else, or is none of them, first tokens are sampled and judged
by groups of tokens of like p/q. Uniforms are float64: in float32 they are multiples of 2^-24, too few for so
many tokens, whatever the rule.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.coupled.reference import compared
from spec_oracle.audit.coupled.subject import Call, CoupledSubject
from spec_oracle.audit.results import CheckResult, How, failed, passed
from spec_oracle.audit.rounds import judge_rounds
from spec_oracle.audit.sampler.scale import (
    CELLS,
    SWEPT_VOCABULARY,
    VOCABULARY,
    cells_by_ratio,
    zipf_row,
)
from verifiers import Drafts
from verifiers.rules.list_coupling import race

FULL = 151_936


def scale(subject: CoupledSubject, context: Context) -> CheckResult:
    """Judge every id, then first tokens of a full vocabulary."""
    return first_failure(
        context.rate, partial(_every_id, subject, context), partial(_full_vocabulary, subject, context)
    )


def _every_id(subject: CoupledSubject, context: Context, rate: float) -> CheckResult:
    """Request t has the target token t for certain, and another draft: t must come out."""
    del rate
    vocab, paths, rng = SWEPT_VOCABULARY, subject.num_paths, context.stream("coupled/scale/ids")
    for some in np.array_split(np.arange(vocab), vocab // effort.SCALE_REQUESTS):
        certain = np.eye(vocab)[some]
        drafted = (some * 7 + 3) % vocab
        tokens = np.repeat(drafted[:, None, None], paths, axis=1)
        rows = np.broadcast_to(certain[:, None, None], (len(some), paths, 2, vocab))
        draft = np.broadcast_to(np.eye(vocab)[drafted][:, None, None], (len(some), paths, 1, vocab))
        found = subject.code(Drafts(tokens, draft, rows), rng.random(rows.shape)).tokens[:, 0]
        if (wrong := found != some).any():
            one = int(wrong.argmax())
            detail = f"token {found[one]} was emitted where token {some[one]} has probability 1"
            return failed(detail, how=How.REPLAYED, draws=vocab)
    return passed(f"each of {vocab} ids is emitted where it has probability 1", how=How.REPLAYED, draws=vocab)


def _full_vocabulary(subject: CoupledSubject, context: Context, rate: float) -> CheckResult:
    """Compare with the rule that was found, or sample."""
    rng, rule, count = context.stream("coupled/scale/full"), context.findings.rule, 0
    if rule is None:
        return _sampled(subject, context, VOCABULARY, rate)
    for dtype in ("float64", *(["float32"] if "float32" in context.dtypes else [])):
        rows = zipf_row(rng, FULL).astype(dtype), zipf_row(rng, FULL).astype(dtype)
        for _ in range(effort.COUPLED_FULL_CALLS):
            found = compared(subject.code, rule, _call(subject, effort.COUPLED_FULL_REQUESTS, rows, rng))
            if found.apart:
                return _sampled(subject, context, FULL, rate)
            count += found.requests
    detail = f"each of {SWEPT_VOCABULARY} ids kept; same tokens as {rule} in {count} requests at V = {FULL:,}"
    return passed(detail, how=How.REPLAYED, draws=count)


def _sampled(subject: CoupledSubject, context: Context, vocab: int, rate: float) -> CheckResult:
    """Judge first tokens on Zipf-like rows, by groups of tokens."""
    rng = context.stream("coupled/scale/ratios")
    rows = zipf_row(rng, vocab), zipf_row(rng, vocab)
    cell_of = cells_by_ratio(*rows)
    law = np.bincount(cell_of, weights=rows[0], minlength=CELLS)
    batch = max(1, effort.SCALE_REQUESTS * VOCABULARY // vocab)  # as many numbers whatever V is

    def rounds() -> Iterator[list[Integers]]:
        for _ in range(effort.SCALE_ROUNDS * effort.SCALE_REQUESTS // batch):
            found = subject.code(*_call(subject, batch, rows, rng))
            yield [cell_of[found.tokens[:, 0]]]

    return judge_rounds(
        f"first tokens at V = {vocab:,}", [law / law.sum()], rounds(), alpha=rate, admitted=context.admitted
    )


def _call(subject: CoupledSubject, batch: int, rows: tuple[Floats, Floats], rng: np.random.Generator) -> Call:
    """Return requests of one drafted token; ``rows`` [V] are those of target and draft everywhere."""
    target, draft = rows
    uniforms = rng.random((batch, subject.num_paths, 2, len(target)))
    drafted = np.broadcast_to(draft, (batch, subject.num_paths, len(draft)))
    tokens = np.asarray(race(drafted, uniforms[:, :, 0]))[:, :, None]
    target_rows = np.broadcast_to(target, uniforms.shape)
    return Drafts(tokens, drafted[:, :, None], target_rows), uniforms
