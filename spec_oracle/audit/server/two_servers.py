"""The law of texts of a server without probabilities, against texts of another that does not speculate."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.adapters.servers.client import ServerError
from spec_oracle.audit.context import Context
from spec_oracle.audit.reports import Evidence, TextCounterexample
from spec_oracle.audit.results import CheckResult, Findings, NoEvidenceError, Status
from spec_oracle.audit.server.counterexample import shown_text
from spec_oracle.audit.server.served import FIRST_LOOK, Served, Texts
from spec_oracle.contracts.server import Context
from spec_oracle.statistics import homogeneity, smallest_detectable_tv_by_homogeneity
from spec_oracle.statistics.cells import MIN_EXPECTED

TIME = 0.6
"""Share of the budget."""

USUAL_CELLS = 100
"""By which the number of draws is planned before the texts are known."""

AT_ONCE = 512

Counts: TypeAlias = NDArray[np.int64]
Keyed: TypeAlias = tuple[Any, ...]
"""The number of a prompt and the tokens after it."""
Cell: TypeAlias = tuple[Keyed, bool]
"""A text, or with True what other, rarer texts begin with."""


def by_reference(served: Served, context: Context, alpha: float) -> Findings:
    """Draw as many texts of both servers, and compare how often they come, by the prefixes they share."""
    if served.reference is None:
        raise NoEvidenceError("no --reference server to compare its texts with")
    plan, start, before = served.plan, time.monotonic(), served.server.drafts()
    by_letters = served.server.by_letters or served.reference.by_letters
    served.server.by_letters = served.reference.by_letters = by_letters  # two kinds of tokens do not compare
    other = Texts(served.reference, plan.tokens, context.seed + 1, seeded=plan.seeded)
    both = (served.texts, other)
    for texts in both:
        texts.draw(FIRST_LOOK)
    affordable = TIME * context.budget * FIRST_LOOK / (time.monotonic() - start)
    count = plan.requests or min(_needed(plan.detect, alpha), int(affordable))
    ended = ""
    try:
        while (missing := count - len(other.found)) > 0:
            for texts in both:
                texts.draw(min(missing, AT_ONCE))
            served.server.progress("joint", len(other.found), count)
    except ServerError as error:
        ended = f"; ended early: {error}"
    counts, cells = prefix_counts(served.texts.found, other.found)
    fit = homogeneity(*counts, alpha=alpha)
    status = Status.INCONCLUSIVE if ended and fit.passed else Status.PASSED if fit.passed else Status.FAILED
    result = CheckResult(
        "", status, f"texts beside those of the reference: {fit}{ended}", alpha, fit.draws[0]
    )
    told_apart = float(counts[:, [len(prefix) > 2 for prefix, _ in cells]].sum() / counts.sum())
    detectable = fit.smallest_detectable_tv + served.doubt
    return Findings(
        served.joint(result, 0.0, detectable, served.drafts_since(before), told_apart),
        Evidence.STATISTICAL,
        smallest_detectable_tv=detectable if np.isfinite(detectable) else None,
        text=None if fit.passed else _counterexample(served, counts, cells),
        scope=(
            f"texts of {plan.tokens} tokens after {len(served.server.prompts)} prompts, in {fit.cells} cells",
            f"{fit.draws[0]} texts, beside {fit.draws[1]} of {served.reference.client.url}",
        ),
    )


def _needed(tv: float, alpha: float) -> int:
    """Return how many texts of each server find ``tv``."""
    count = FIRST_LOOK
    while smallest_detectable_tv_by_homogeneity((count, count), USUAL_CELLS, alpha=alpha) > tv:
        count = count * 5 // 4
    return count


def _counterexample(served: Served, counts: Counts, cells: Sequence[Cell]) -> TextCounterexample:
    """Return the cell that speaks most against one law, among the texts after its prompt."""
    first, second = counts / counts.sum(axis=1, keepdims=True)
    prefix, is_other = cells[int(np.argmax(abs(first - second) / np.sqrt(counts.sum(axis=0))))]
    here = counts[:, [cell[:1] == prefix[:1] for cell, _ in cells]].sum(axis=1)
    count, expected = counts[:, cells.index((prefix, is_other))]
    number, tokens = (prefix[0], prefix[1:]) if prefix else (-1, ())
    shown = (*tokens, None) if is_other else tokens
    seen = int(count), int(here[0])
    return shown_text(served, number, shown, float(expected / here[1]), seen, is_prefix=is_other)


def prefix_counts(first: Sequence[Context], second: Sequence[Context]) -> tuple[Counts, list[Cell]]:
    """Return counts int [2, C] of two samples of texts by common prefixes, and these.

    A prefix is followed as long as the texts that share it, of both samples, suffice for a cell; at each,
    those that are rarer are one cell together. Only sums over both samples decide: the test conditions on
    them.
    """
    tallies = [Counter((number, *tokens) for number, tokens in found) for found in (first, second)]
    total = tallies[0] + tallies[1]
    enough = MIN_EXPECTED * (len(first) + len(second)) / max(1, min(len(first), len(second)))

    def cells(texts: Sequence[Keyed], length: int) -> Iterator[tuple[Sequence[Keyed], Cell]]:
        groups: defaultdict[Keyed, list[Keyed]] = defaultdict(list)
        rest: list[Keyed] = []
        for text in texts:
            groups[text[: length + 1]].append(text)
        for prefix, group in groups.items():
            if sum(total[text] for text in group) < enough:
                rest += group
            elif len(group) > 1 and len(prefix) > length:
                yield from cells(group, length + 1)
            else:
                yield group, (group[0], False)
        if rest:
            yield rest, (rest[0][:length], True)

    found = list(cells(sorted(total, key=repr), 0))
    counts = [[sum(tally[text] for text in group) for group, _ in found] for tally in tallies]
    return np.array(counts, dtype=np.int64), [cell for _, cell in found]
