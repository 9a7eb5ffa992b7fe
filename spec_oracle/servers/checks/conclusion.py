"""The result of `joint`: whether completions say enough, of speculation too, and which one shows a defect.

It is made here whether completions were judged by reported probabilities or by those of a reference server.
"""

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import Experiment, Ledger, sampled
from spec_oracle.audit.results import Cause, CheckResult, LawResult, Status, TextCounterexample
from spec_oracle.audit.sampling import Effort, OutcomeCells, Sample
from spec_oracle.contracts.completion import Token
from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.checks.bins import ServedOutcomes, Tree
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.checks.subject import UNCONFIRMED, ServerSubject, is_unconfirmed
from spec_oracle.servers.contract import Ask, DraftCounts
from spec_oracle.statistics import (
    clopper_pearson,
    draws_needed_by_g,
    offending_cells,
    total_variation_at_least,
)

LEVEL = 0.05
"""Chance that any of the intervals of a counterexample misses."""

WHAT_TO_DO = (
    "turn speculation on, or give prompts after which it drafts: --prompt",
    "give --assume-speculating, if you know that drafts are accepted",
)
"""Where completions show nothing of speculation, and where the server does not say."""

DISTINGUISHED = 0.5
"""Least share of completions to be distinguished beyond their first token, on which nothing speculates."""


def least_total_variation(tree: Tree, counts: Integers) -> float:
    """Return a lower confidence bound of the total variation: by all bins together, or by the worst one."""
    worst = [
        max(cell.lower - cell.expected_probability, cell.expected_probability - cell.upper)
        for cell in offending_cells(counts, tree.law, alpha=effort.SERVER_BOUND_RATE)
    ]
    together = total_variation_at_least(counts, tree.law, alpha=effort.SERVER_BOUND_RATE)
    return max(0.0, max([together, *worst]) - float(tree.law @ np.expm1(tree.slack)) / 2)


def scope_of(tree: Tree, reported: Distributions) -> tuple[str, ...]:
    """Return lines for the report: how far the bins distinguish completions, and by which distributions."""
    depth, error = float(tree.law @ np.minimum(tree.depth, tree.length)), f"{reported.error:.0e}"
    return (
        f"{len(tree.law)} outcome bins: completions are distinguished up to {depth:.1f} tokens on average",
        f"{100 * tree.law[tree.is_whole].sum():.0f} % of the completions are distinguished to the end",
        (
            f"{len(reported.logs)} next-token distributions from one-token requests, {reported.reading}, "
            f"accurate to {error.replace('e-0', 'e-')} nats"
        ),
    )


def judged(
    experiment: Experiment,
    requests: ServedOutcomes[Any],
    context: Context,
    effort: Effort,
    reported: Distributions,
) -> tuple[LawResult, Sample]:
    """Decide by samples an experiment that a server runs; return the result, and the samples.

    Its expected distribution is made of the ``reported`` ones: they may be too coarse to detect what must be.
    """
    ledger = Ledger(context.budget)
    result = sampled([experiment], context, effort, ledger)
    detail, do = result.detail, ""  # the budget of one check is none that the user can raise
    if result.status is not Status.FAILED:
        if is_hidden(experiment.cells, effort.wanted or effort.tv, context.rate):
            detail = detail.replace("raise --budget", reported.uncertainty)
            do = reported.uncertainty.rpartition("; ")[2]
        if requests.ended:
            detail = f"{detail}; ended early: {requests.ended}"
            result = replace(result, status=Status.INCONCLUSIVE)
        detail = f"{experiment.what}: {detail}"
    result = replace(result, detail=detail, remarks=replace(result.remarks, do=do))
    return result, ledger.samples[experiment.what]


def is_hidden(cells: OutcomeCells, tv: float, rate: float) -> bool:
    """Whether no number of samples detects a total variation, since the cells are known too badly."""
    try:
        draws_needed_by_g(tv, cells.law, alpha=rate / 2, slack=cells.slack)
    except InvalidInputError:
        return True
    return False


def unless_unconfirmed(result: CheckResult, context: Context) -> CheckResult:
    """Return the result; a failure is inconclusive if `plain-law` left the probabilities unconfirmed."""
    if result.status is not Status.FAILED or not is_unconfirmed(context):
        return result
    detail = f"{UNCONFIRMED} ({result.detail})"
    return replace(result, status=Status.INCONCLUSIVE, detail=detail, cause=Cause.UNDECIDED)


def conclude(
    subject: ServerSubject, result: LawResult, scope: Sequence[str], distinguished: float, uncertain: str = ""
) -> LawResult:
    """Return the result of `joint`; it passes only if enough is detected and drafts were judged.

    ``scope`` says how completions were compared. ``distinguished`` is the share of completions in bins that
    differ beyond the first token; ``uncertain`` says why no number of completions would detect less, "" if
    more would.
    """
    completions, sampling, found = subject.completions, subject.server.sampling, result.findings
    drafts, doubt, reason = completions.counted(), doubt_of(subject), ""
    do = result.remarks.do
    detectable = (found.smallest_detectable_tv or math.inf) + doubt
    if result.status is Status.FAILED and 0 < doubt >= (found.total_variation or 0.0):
        retried = f"{100 * doubt:.2f} % of completions were retried"
        reason = f"{retried}, which may explain the difference; try --seeded"
    if result.status is Status.PASSED:
        if not (subject.plan.assume_speculating and drafts.accepted is None):
            reason = never_happened(drafts)
            do = WHAT_TO_DO[drafts.accepted is None] if reason else do
        if not reason and detectable > subject.plan.detect:
            retried = f" ({doubt:.2g} of it for retried completions)" if doubt else ""
            which = f"a total variation of {detectable:.3g} would" if detectable <= 1 else "none is sure to"
            seen = f"{which} show{retried}, not {subject.plan.detect:g}"
            reason = f"{seen}; {uncertain or 'raise --budget, --requests or --detect'}"
            do = "raise --requests" if subject.plan.requests else do
        if not reason and distinguished < DISTINGUISHED:
            share = f"only {100 * distinguished:.0f} % of completions"
            reason = f"{share} differ in more than one token; try --top-k"
            do = "give --top-k N, with fewer tokens to sample from"
    if reason:
        result = replace(result, status=Status.INCONCLUSIVE, detail=f"{reason} ({result.detail})")
    asked = (
        f"completions of {completions.length} tokens after {len(subject.server.prompts)} prompts, "
        f"temperature {sampling.temperature:g}, top-k {sampling.top_k or 'off'}, top-p {sampling.top_p:g}, "
        f"API {subject.server.api.name}"
    )
    lines = [asked, *scope, *result.remarks.scope]
    if drafts.drafted is not None:
        lines.append(f"{drafts.drafted:,.0f} tokens drafted, {drafts.accepted:,.0f} accepted")
    lines.append(f"{len(completions.found):,} completions, {completions.retried or 'none'} of them retried")
    found = replace(found, smallest_detectable_tv=detectable if math.isfinite(detectable) else None)
    return replace(result, remarks=replace(result.remarks, scope=tuple(lines), do=do), findings=found)


def doubt_of(subject: ServerSubject) -> float:
    """Return the total variation that retries may hide: a request may have failed because of its completion.

    It is 0 if each request had a seed that fixes its completion: the retry gave the same one.
    """
    found = subject.completions
    if not found.retried or (subject.plan.seeded and subject.server.repeats_seeds):
        return 0.0
    return found.retried / len(found.found)


def never_happened(drafts: DraftCounts) -> str:
    """Return why completions show nothing of speculation, "" if drafts were accepted and rejected."""
    if drafts.accepted is None:
        unknown = "the server does not report whether drafts were accepted"
        return f"{unknown}; if you know that they are, say --assume-speculating"
    if drafts.drafted == 0:
        return "nothing was drafted: speculation is off, or found nothing to draft after these prompts"
    if drafts.accepted == 0:
        return "no draft was accepted"
    return "no draft was rejected" if drafts.accepted == drafts.drafted else ""


def wrong_completion(
    subject: ServerSubject,
    prefix: tuple[int, tuple[Token | None, ...]],
    expected: float,
    count: int,
    draws: int,
    *,
    is_prefix: bool,
) -> TextCounterexample:
    """Return a completion that came ``count`` times in ``draws`` after a prompt, and the request for it.

    The number of the prompt is -1 for a completion after any of them.
    """
    (number, tokens), server = prefix, subject.server
    lower, upper = clopper_pearson(np.array([count, draws - count]), LEVEL)
    request = server.api.request(Ask(server.prompts[max(number, 0)], subject.plan.tokens), server.sampling)
    key = server.client.key_variable  # the key itself stays in its variable
    curl = (
        f"curl -s {shlex.quote(server.client.url + request.path)} -H 'Content-Type: application/json' ",
        f'-H "Authorization: Bearer ${key}" ' if key else "",
        f"-d {shlex.quote(json.dumps(request.body))}",
    )
    return TextCounterexample(
        prompt=server.prompts[number] if number >= 0 else "any of them",
        tokens=tokens,
        is_prefix=is_prefix,
        expected=expected,
        seen=count / draws,
        lower=float(lower[0]),
        upper=float(upper[0]),
        draws=draws,
        reproduce="".join(curl),
    )
