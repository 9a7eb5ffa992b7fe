"""What the completions of `joint` come to, however they were judged, and how to ask for one that is wrong."""

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spec_oracle.audit.reports import TextCounterexample
from spec_oracle.audit.results import CheckResult, Findings, Status
from spec_oracle.audit.server.subject import ServerSubject
from spec_oracle.contracts.server import Ask, Drafts, Token
from spec_oracle.statistics import clopper_pearson

LEVEL = 0.05
"""Chance that the interval of a counterexample misses."""

DISTINGUISHED = 0.5
"""Least share of completions to be distinguished beyond their first token, on which nothing speculates."""


def conclude(
    subject: ServerSubject,
    result: CheckResult,
    before: Drafts,
    *,
    bound: float | None,
    detectable: float,
    distinguished: float,
    scope: Sequence[str],
    shown: Any,
) -> CheckResult:
    """Return the result of `joint`; it passes only on completions that say enough, of speculation too.

    The total variation is at least ``bound``, None where that is unknown; ``detectable`` would show.
    ``distinguished`` is the share of completions that differ in their bins beyond the first token; ``before``
    is what the server had counted of drafts.
    """
    completions, doubt = subject.completions, subject.doubt
    drafts = completions.drafts
    if drafts.accepted is None:
        drafts = subject.server.drafts().since(before)
    detectable += doubt
    reason = _why_open(subject, result, drafts, bound or 0.0, (detectable, distinguished))
    if reason:
        result = replace(result, status=Status.INCONCLUSIVE, detail=f"{reason} ({result.detail})")
    counted = f"{drafts.drafted:,.0f} tokens drafted, {drafts.accepted:,.0f} accepted"
    asked = (
        f"completions of {completions.length} tokens after {len(subject.server.prompts)} prompts, "
        f"{subject.server.sampling}, {subject.server.api.name}"
    )
    retried = f"{len(completions.found):,} completions, {completions.retried or 'none'} of them retried"
    finite = detectable if math.isfinite(detectable) else None
    return replace(
        result,
        scope=(asked, *scope, *result.scope, *[counted] * (drafts.drafted is not None), retried),
        shown=shown,
        findings=Findings(total_variation=bound, smallest_detectable_tv=finite),
    )


def _why_open(
    subject: ServerSubject, result: CheckResult, drafts: Drafts, bound: float, seen: tuple[float, float]
) -> str:
    """Say why completions neither pass nor fail, "" where they do."""
    (detectable, distinguished), plan, doubt = seen, subject.plan, subject.doubt
    if result.status is Status.FAILED and 0 < doubt >= bound:
        return f"{doubt:.2%} of the completions were retried, which may explain the difference; try --seeded"
    if result.status is not Status.PASSED:
        return ""
    if drafts.never_happened and not (plan.assume_speculating and drafts.accepted is None):
        return drafts.never_happened
    if detectable > plan.detect:
        if not math.isfinite(detectable) and subject.server.listed:
            return subject.distributions.uncertainty
        retried = f" ({doubt:.2g} of it for retried completions)" if doubt else ""
        return (
            f"only a total variation of {detectable:.3g}{retried} would show, not {plan.detect:g}; "
            "raise --budget, --requests or --detect"
        )
    few = f"only {distinguished:.0%} of completions are distinguished beyond their first token; try --top-k"
    return few if distinguished < DISTINGUISHED else ""


def shown(
    subject: ServerSubject,
    prefix: tuple[int, tuple[Token | None, ...]],
    expected: float,
    count: int,
    draws: int,
    *,
    is_prefix: bool,
) -> TextCounterexample:
    """Return what came ``count`` times of ``draws`` after a prompt, -1 for any, and how to ask for it."""
    number, tokens = prefix
    lower, upper = clopper_pearson(np.array([count, draws - count]), LEVEL)
    return TextCounterexample(
        prompt=subject.server.prompts[number] if number >= 0 else "any of them",
        tokens=tokens,
        is_prefix=is_prefix,
        expected=expected,
        seen=count / draws,
        lower=float(lower[0]),
        upper=float(upper[0]),
        draws=draws,
        reproduce=curl(subject, max(number, 0)),
    )


def curl(subject: ServerSubject, number: int) -> str:
    """Return a command line that asks for one completion; a key stays in its variable."""
    server = subject.server
    request = server.api.request(Ask(server.prompts[number], subject.plan.tokens), server.sampling)
    variable = server.client.key_variable
    return " ".join(
        [
            f"curl -s {shlex.quote(server.client.url + request.path)} -H 'Content-Type: application/json'",
            *[f'-H "Authorization: Bearer ${variable}"'] * bool(variable),
            f"-d {shlex.quote(json.dumps(request.body))}",
        ]
    )
