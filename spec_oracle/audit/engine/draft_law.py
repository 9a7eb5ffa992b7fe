"""The check `draft-law`: the drafter samples from the q that it reports.

A drafted token whose q is known has that q as its distribution, given all that came before it. Traced, its
probability is that of what came before, times q; sampled, it falls into bins of equal probability under its
own q, so that tokens of all q are judged together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.requests import ENGINE_TV_WANTED, Requests
from spec_oracle.audit.engine.steps import (
    CALLS,
    ENGINE_STEPS_SHARE,
    Steps,
    of_steps,
    sampled_steps,
    traced_steps,
)
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.experiment import Experiment, find
from spec_oracle.audit.results import CheckResult, How, not_asked, passed
from spec_oracle.audit.sampling import OutcomeCells
from spec_oracle.contracts import ContractError
from spec_oracle.contracts.engine import ROW_TOLERANCE
from spec_oracle.exact.completions import equal_bins, masses_along, summed

BINS: Final = 8
"""Bins of equal probability: of half of the tokens by q, of the others by id."""

Draft = tuple[Any, ...]
"""What came before a draft, the q reported with it, and the token; empty where nothing was drafted."""


def draft_law(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge whether drafts follow the q reported with them, over two calls: traced, or sampled."""
    cases = subject.cases(context, "start")
    if not cases:
        return not_asked("needs the optional method start(); see docs/guide/audit-your-engine.md")
    requests = Requests(subject, context, "draft-law")
    experiments = [one for case in cases for one in drafts(case, requests)]
    if not experiments:
        return passed("nothing was drafted", how=How.SAMPLED)
    sizes = replace(requests.in_addition(ENGINE_STEPS_SHARE, ENGINE_TV_WANTED), screens_all=True)
    return requests.noted(find(experiments, context, sizes, doubt=requests.rounding.doubt))


def drafts(case: Case, requests: Requests) -> list[Experiment]:
    """Return an experiment for each draft of the first calls."""
    most = max(len(step.drafts) for steps in sampled_steps(case, effort.ENGINE_PILOT) for step in steps)
    return [
        of_steps(
            case,
            f"draft {place + 1} of call {number + 1} beside the reported q",
            partial(_draft, number, place),
            expect=partial(_expected, case, number, place),
            binned=partial(_binned, requests.rng),
            allowed=requests.rounding.a_token,
            doubtful=requests.rounding.unsure,
            shown=_shown,
        )
        for number in range(CALLS)
        for place in range(most)
    ]


def _draft(number: int, place: int, steps: Steps) -> Draft:
    if len(steps) <= number or len(steps[number].drafts) <= place:
        return ()
    step = steps[number]
    row, token = step.rows[place], step.drafts[place]
    if min(row) < 0 or not abs(sum(row) - 1) <= ROW_TOLERANCE:
        raise ContractError(f"the reported q {list(row)} is no distribution")
    if not 0 <= token < len(row):
        raise ContractError(f"draft token {token} is outside 0..{len(row) - 1}, the ids of its q")
    return steps[:number], step.drafts[:place], step.rows[:place], row, token


def _expected(case: Case, number: int, place: int) -> Mapping[Draft, float]:
    """Return the expected distribution of a draft with all that came before it: by the q reported with it."""
    traced = [(_draft(number, place, steps), mass) for steps, mass in traced_steps(case).law.items()]
    given = summed((draft[:-1], mass) for draft, mass in traced)
    expected = {(): given.pop((), 0.0)}
    for before, mass in given.items():
        expected |= {(*before, token): mass * q for token, q in enumerate(before[-1])}
    return expected


def _binned(rng: np.random.Generator) -> OutcomeCells:
    """Return bins of equal probability; a call that drafted nothing falls into any of them."""

    def cell(draft: Draft) -> int:
        number = int(rng.integers(2))
        if not draft:
            return int(rng.integers(2 * BINS))
        row, token = np.array(draft[-2]) / sum(draft[-2]), draft[-1]
        masses = masses_along(lambda _: row, (), (token,), 1, by_id=bool(number))
        if masses is None:
            return 2 * BINS
        return number * BINS + int(equal_bins(*masses, rng.random(1), BINS)[0])

    def of(found: Sequence[Draft]) -> Integers:
        return np.array([cell(draft) for draft in found], np.int64)

    return OutcomeCells(np.append(np.full(2 * BINS, 0.5 / BINS), 0.0), of)


def _shown(draft: Draft) -> str:
    return f"token {draft[-1]}" if draft else "no draft"
