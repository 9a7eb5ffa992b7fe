"""Compare completions of a server with those of a reference server, which does not speculate.

The check `joint` compares them where a server shows no probabilities, `shapes` under fields of sampling of
which one-token requests show nothing.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import (
    CheckResult,
    Findings,
    How,
    LawResult,
    Measured,
    NoEvidenceError,
    Remarks,
    Shown,
    Status,
    TextCounterexample,
)
from spec_oracle.audit.sampling import Effort
from spec_oracle.contracts.completion import Prefix
from spec_oracle.servers.checks.bins import ServedOutcomes
from spec_oracle.servers.checks.conclusion import conclude, wrong_completion
from spec_oracle.servers.checks.fields import NO_EFFECT, Combination, Fields, Trial, Tried, spellings
from spec_oracle.servers.checks.subject import Completions, ServerPlan, ServerSubject
from spec_oracle.servers.client.server import Server
from spec_oracle.servers.contract import Ask, RefusedError
from spec_oracle.statistics import homogeneity, smallest_detectable_tv_by_homogeneity
from spec_oracle.statistics.cells import MIN_EXPECTED

AT_ONCE = 512

Keyed: TypeAlias = tuple[Any, ...]
"""The number of a prompt and the tokens after it."""
Bin: TypeAlias = tuple[Keyed, bool]
"""A completion, or with True what other, rarer completions begin with."""


def by_reference(subject: ServerSubject, context: Context) -> CheckResult:
    """Sample as many completions of both servers, and compare how often they come, by common prefixes."""
    server, reference, plan, ours = subject.server, subject.reference, subject.plan, subject.completions
    if reference is None:
        raise NoEvidenceError("no --reference server to compare its completions with")
    seconds = (1 - effort.SERVER_BLAME_PART) * context.budget
    # Two kinds of tokens do not compare.
    server.by_letters = reference.by_letters = server.by_letters or reference.by_letters
    theirs = Completions(reference, plan.tokens, (context.seed, "server/joint/reference"), plan.seeded)
    result, counts, bins = compare_completions(ours, theirs, plan, replace(context, budget=seconds))
    if result.status is Status.FAILED:
        result = replace(result, shown=Shown(_counterexample(subject, counts, bins)))
    scope = f"{len(bins)} outcome bins, beside completions of {reference.client.url}"
    distinguished = counts[:, [len(prefix) > 2 for prefix, _ in bins]].sum() / counts.sum()
    return conclude(subject, result, (scope,), float(distinguished))


def compare_completions(
    ours: Completions, theirs: Completions, plan: ServerPlan, context: Context
) -> tuple[LawResult, Integers, list[Bin]]:
    """Compare as many completions of both as detect ``plan.detect``; return the counts of prefixes, too."""
    both = [ServedOutcomes(one.more, one.found, plan.requests or math.inf) for one in (ours, theirs)]
    own = (f"completions of {ours.length} {'token' if ours.length == 1 else 'tokens'}", both[0])
    reference = ("completions of the reference server", both[1])
    sizes = Effort(tv=math.inf, wanted=plan.detect, look=AT_ONCE)
    result = compared(own, reference, context, sizes, table=prefix_counts, shown=_in_words)
    if (ended := both[0].ended or both[1].ended) and result.status is Status.PASSED:
        ended = f"{result.detail}; ended early: {ended}"
        result = replace(result, status=Status.INCONCLUSIVE, detail=ended)
    return result, *prefix_counts(*(one.found[: one.given] for one in both))


def _in_words(found: Bin) -> str:
    (number, *tokens), others = found[0] or (-1,), found[1]
    what = f"those that begin with {tokens!r} and are rarer" if others else f"{tokens!r}"
    return f"{what} after prompt {number + 1}" if number >= 0 else "rare ones"


def _counterexample(subject: ServerSubject, counts: Integers, bins: Sequence[Bin]) -> TextCounterexample:
    """Show the bin that counts most against equal distributions, among the completions after its prompt."""
    first, second = counts / counts.sum(axis=1, keepdims=True)
    prefix, is_other = bins[int(np.argmax(abs(first - second) / np.sqrt(counts.sum(axis=0))))]
    here = counts[:, [other[:1] == prefix[:1] for other, _ in bins]].sum(axis=1)
    count, expected = counts[:, bins.index((prefix, is_other))]
    number, tokens = (prefix[0], prefix[1:]) if prefix else (-1, ())
    completion = (number, (*tokens, None) if is_other else tokens)
    return wrong_completion(
        subject, completion, float(expected / here[1]), int(count), int(here[0]), is_prefix=is_other
    )


def prefix_counts(first: Sequence[Prefix], second: Sequence[Prefix]) -> tuple[Integers, list[Bin]]:
    """Return counts int [2, C] of two samples of completions by common prefixes, and these.

    A prefix is followed as long as the completions that share it, of both samples, suffice for a bin; at
    each, those that are rarer are one bin together. Only sums over both samples decide: the test conditions
    on them.
    """
    tallies = [Counter((number, *tokens) for number, tokens in found) for found in (first, second)]
    total = tallies[0] + tallies[1]
    enough = MIN_EXPECTED * (len(first) + len(second)) / max(1, min(len(first), len(second)))

    def bins(completions: Sequence[Keyed], length: int) -> Iterator[tuple[Sequence[Keyed], Bin]]:
        groups: defaultdict[Keyed, list[Keyed]] = defaultdict(list)
        rest: list[Keyed] = []
        for completion in completions:
            groups[completion[: length + 1]].append(completion)
        for prefix, group in groups.items():
            if sum(total[completion] for completion in group) < enough:
                rest += group
            elif len(group) > 1 and len(prefix) > length:
                yield from bins(group, length + 1)
            else:
                yield group, (group[0], False)
        if rest:
            yield rest, (rest[0][:length], True)

    found = list(bins(sorted(total, key=repr), 0))
    counts = [[sum(tally[completion] for completion in group) for group, _ in found] for tally in tallies]
    return np.array(counts, dtype=np.int64), [own for _, own in found]


def reference_trials(subject: ServerSubject, context: Context, unknown: Mapping[str, str]) -> Iterator[Trial]:
    """Yield the trials of fields of which one-token requests show nothing, if there is a reference.

    None where the reference serves another model, or shows other tokens.
    """
    model, reference = context.results.get("model"), subject.reference
    if reference is None or reference.by_letters != subject.server.by_letters:
        return
    if model is not None and model.status is Status.FAILED:
        return
    spelt = spellings(subject.distributions)
    for number, name in enumerate(one for one, why in unknown.items() if why.startswith(NO_EFFECT)):
        yield partial(_field_compared, subject, name, spelt[name], number)


def _field_compared(
    subject: ServerSubject, name: str, ways: Sequence[Fields], number: int, context: Context
) -> Tried:
    """Compare completions under one field, in the first of its spellings that both servers take."""
    server, reference, plan = subject.server, subject.reference, subject.plan
    assert reference is not None
    both = server, replace(reference, prompts=server.prompts)
    alone = Combination({name: "on"}, {}, plan.tokens)
    fields = next((way for way in ways if all(_takes(one, way) for one in both)), None)
    if fields is None:
        return Tried(alone, why="refused")
    ours, theirs = (
        Completions(one, plan.tokens, (context.seed, f"server/shapes/beside {number}, {n}"), fields=fields)
        for n, one in enumerate(both)
    )
    wanted = replace(plan, detect=effort.SERVER_SHAPES_TV, requests=None)
    result, *_ = compare_completions(ours, theirs, wanted, context)
    seen = f"{result.measured.draws:,} completions beside as many of the reference"
    wrong = f"{seen} are distributed differently" if result.status is Status.FAILED else ""
    detects = result.findings.smallest_detectable_tv or math.inf
    return Tried(alone, seen, result.measured.draws, wrong, detects=detects)


def _takes(server: Server, fields: Fields) -> bool:
    try:
        server.complete([Ask(server.prompts[0], 1, fields=fields)])
    except RefusedError:
        return False
    return True


USUAL_CELLS: Final = 100  # Of outcomes that are compared, by which their number is planned.

Samples: TypeAlias = tuple[str, Callable[[int], Sequence[Any]]]
"""What is sampled, in words, and a function that samples so many."""

Table: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], tuple[Integers, Sequence[Any]]]
"""Integers two samples in cells of its choice: int [2, C], and the outcome of each cell."""


def by_outcome(first: Sequence[Any], second: Sequence[Any]) -> tuple[Integers, Sequence[Any]]:
    """Return counts int [2, C] of two samples by outcome, and the outcomes in an order of their own."""
    tallies = Counter(first), Counter(second)
    every = sorted(tallies[0] | tallies[1], key=repr)
    return np.array([[tally[one] for one in every] for tally in tallies], dtype=np.int64), every


def compared(
    own: Samples,
    reference: Samples,
    context: Context,
    effort: Effort,
    *,
    table: Table = by_outcome,
    cells: int = USUAL_CELLS,
    shown: Callable[[Any], str] = str,
) -> LawResult:
    """Decide whether two samples are of one distribution, where neither is known.

    As many of each are taken in turn as detect ``effort.tv`` between so many ``cells``, or as the budget
    allows; ``table`` counts them, ``shown`` says what a cell holds.
    """
    sides, found, started = (own[1], reference[1]), (list[Any](), list[Any]()), time.monotonic()
    needed, size = _needed_by_homogeneity(effort.wanted or effort.tv, cells, context.rate), effort.pilot
    while (before := len(found[1])) < needed:
        for some, side in zip(found, sides, strict=True):
            some.extend(side(min(size, needed - before)))
        if len(found[1]) == before or time.monotonic() - started > effort.share * context.budget:
            break
        size = min(2 * size, effort.look)
    counts, outcomes = table(*found)
    fit = homogeneity(*counts, alpha=context.rate)
    what = f"{own[0]}: {fit.draws[0]:,} samples"
    tv = fit.smallest_detectable_tv
    least = f" (a total variation of {tv:.2g} between {fit.cells} bins would show)" if tv < 1 else ""
    status, detail = Status.PASSED, f"{what} are distributed as {reference[0]}{least}"
    if not fit.passed:
        shares = counts / counts.sum(axis=1, keepdims=True)
        worst = int(abs(shares[0] - shares[1]).argmax())
        status, detail = Status.FAILED, f"{what} are distributed otherwise than {reference[0]}"
        if outcomes:
            detail += f"; {shares[0, worst]:.3g} of them are {shown(outcomes[worst])}, not "
            detail += f"{shares[1, worst]:.3g}"
    elif tv > effort.tv:
        status, detail = Status.INCONCLUSIVE, f"{what} are too few to show a defect{least}; raise --budget"
    measured = Measured(context.rate, fit.draws[0], detectable=tv if tv < 1 else None)
    remarks, findings = Remarks((f"{own[0]}: {fit}",)), Findings(smallest_detectable_tv=tv)
    return LawResult("", status, detail, How.SAMPLED, measured, remarks, findings=findings)


def _needed_by_homogeneity(tv: float, cells: int, rate: float) -> int:
    count = 64
    while smallest_detectable_tv_by_homogeneity((count, count), cells, alpha=rate) > tv:
        count = count * 5 // 4
    return count
