"""The check `joint` of servers: completions of some tokens against target-only decoding.

A server that reports its probabilities is its own oracle; another is compared with a reference server.
"""

import math
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import Experiment, first_that_works
from spec_oracle.audit.results import (
    CheckResult,
    Findings,
    How,
    LawResult,
    NoEvidenceError,
    Remarks,
    Shown,
    Status,
    TextCounterexample,
    breach,
    inconclusive,
    not_asked,
    with_findings,
)
from spec_oracle.audit.sampling import Effort
from spec_oracle.contracts import ContractError, ImpossibleOutputError
from spec_oracle.contracts.completion import Prefix
from spec_oracle.servers.checks.bins import IMPOSSIBLE, ServedOutcomes, Tree, grow_tree
from spec_oracle.servers.checks.conclusion import (
    LEVEL,
    conclude,
    is_hidden,
    judged,
    least_total_variation,
    scope_of,
    wrong_completion,
)
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.checks.length import LOOK_AT_ENDS
from spec_oracle.servers.checks.reference import by_reference
from spec_oracle.servers.checks.subject import (
    UNCHECKED,
    UNCONFIRMED,
    ServerSubject,
    is_unchecked,
    is_unconfirmed,
)
from spec_oracle.servers.contract import OutOfTimeError, ServerError
from spec_oracle.statistics import draws_needed_by_g, goodness_of_fit_by_g, homogeneity, offending_cells
from spec_oracle.statistics.cells import MIN_EXPECTED

SERVER_PILOT_PART: Final = 0.1  # Part of the time for the completions that measure the pace.
# Least probability of a bin of completions: smaller ones are not worth the samples that more bins cost.
SERVER_SMALLEST_BIN: Final = 0.004

LARGEST_BIN = 0.2
"""Even with few completions the likeliest prefixes have bins of their own."""

AT_ONCE, SHOWN = 128, 4000

LOOKS_AT = 9
LOOKS = 4 * LOOKS_AT
"""Looks of the screening, and parts of the planned completions, of which it takes one at each."""

GIVE_REFERENCE = "give --reference URL2, a server of the same model without speculation"

ASKED_AGAIN: Final = 200
"""Further completions, and requests for one token where some of them ended."""

LOOK_SECONDS = 2.0
"""About how long completions take that are sampled at once."""


def joint(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge completions by the probabilities that the server reports, or else by those of a reference server.

    If they draft nothing and longer ones do, `long-texts` judges the longer ones instead.
    """
    subject.completions.pilot(SERVER_PILOT_PART * context.budget)
    subject.probe_drafts()
    if subject.drafts_from:
        short = f"completions of {subject.plan.tokens} tokens draft nothing"
        return not_asked(f"{short}, those of {subject.drafts_from} do: long-texts judges these")
    why_not = subject.why_no_rows(subject.plan.tokens) or UNCHECKED * is_unchecked(context)
    own = partial(by_own_probabilities, subject, context, subject.distributions, why_not)
    found = first_that_works([own, partial(by_reference, subject, context)])
    if why_not and subject.reference is None:
        return replace(found, remarks=replace(found.remarks, do=GIVE_REFERENCE))
    return found


def by_own_probabilities(
    subject: ServerSubject, context: Context, reported: Distributions, why_not: str = ""
) -> CheckResult:
    """Judge completions by the tree of likely tokens; if they contradict it, find out which is wrong.

    ``why_not`` says why what is ``reported`` is of no use, "" if it is.
    """
    if why_not:
        raise NoEvidenceError(why_not)
    started = time.monotonic()
    completions = subject.completions
    requests = ServedOutcomes(completions.more, completions.found, subject.plan.requests or math.inf)
    seconds = (1 - effort.SERVER_BLAME_PART) * context.budget
    try:
        tree, result, counts = _judged_by_tree(subject, replace(context, budget=seconds), requests)
        while result.status is Status.FAILED and reported.next_reading():
            tree, result, counts = _judged_by_tree(subject, replace(context, budget=seconds), requests)
    except ImpossibleOutputError as error:  # too many tokens, too few, or tokens behind the end
        _look_for_hidden_ends(subject)
        return replace(breach(error, How.SAMPLED), remarks=Remarks(do=LOOK_AT_ENDS))
    is_wrong, shown = result.status is Status.FAILED, None
    if is_wrong:
        counts = _enough_to_show(requests, tree, counts)
        shown = _counterexample(subject, tree, counts)
    findings = replace(result.findings, worst=None, total_variation=least_total_variation(tree, counts))
    result = replace(result, shown=Shown(shown), findings=findings)
    uncertain = reported.uncertainty if is_hidden(tree.cells, subject.plan.detect, context.rate) else ""
    distinguished = float(tree.law[tree.depth >= 2].sum())
    concluded = conclude(subject, result, scope_of(tree, reported), distinguished, uncertain)
    left = context.budget - (time.monotonic() - started)
    if not is_wrong or not (doubt := _doubt_of_probabilities(subject, context, tree, counts, left)):
        return concluded
    detail, measured = f"{doubt} ({concluded.detail})", concluded.measured
    undecided = inconclusive(detail, alpha=measured.alpha, draws=measured.draws)
    return with_findings(undecided, Findings(is_reference_wrong=True))


def _look_for_hidden_ends(subject: ServerSubject) -> None:
    """Ask for one token more where completions ended: no token is the answer where the end is hidden."""
    with suppress(ContractError, ServerError):
        subject.completions.sample(ASKED_AGAIN)
        ended = [one for one in subject.completions.found if len(one[1]) < subject.plan.tokens]
        for _ in subject.distributions.samples((ended * ASKED_AGAIN)[:ASKED_AGAIN]):
            pass


def _judged_by_tree(
    subject: ServerSubject, context: Context, requests: ServedOutcomes[Prefix]
) -> tuple[Tree, LawResult, Integers]:
    """Grow the tree, judge completions by it within the budget, and return both with the counts of its bins.

    If one of them ended with a token that was not known to end any, all are judged again, by another tree.
    """
    server, plan, completions, started = subject.server, subject.plan, subject.completions, time.monotonic()
    planned = plan.requests or draws_needed_by_g(plan.detect, effort.USUAL_BINS, alpha=context.rate / 2)
    planned = int(min(planned, max(effort.SERVER_PILOT, completions.pace * context.budget)))
    smallest = max(SERVER_SMALLEST_BIN, min(MIN_EXPECTED / planned, LARGEST_BIN))
    look = max(1, min(effort.FIRST_LOOK, planned // LOOKS))
    sizes = Effort(
        tv=math.inf,
        look=look,
        wanted=plan.detect,
        most=max(look, int(LOOK_SECONDS * completions.pace)),
        keeps=True,
    )
    size = f"{plan.tokens} tokens"
    while True:
        ends, requests.given = frozenset(server.ends), 0
        tree = grow_tree(subject.distributions, plan.tokens, smallest, ends)
        what, of_tree = f"completions of {size}", lambda cells=tree.cells: cells
        experiment = Experiment(what, size, dict, requests, binned=of_tree)
        left = replace(context, budget=max(context.budget - (time.monotonic() - started), 0.0))
        # Where all is judged again, completions that came before take no time.
        sizes = replace(sizes, look=max(look, len(completions.found) // LOOKS_AT))
        try:
            result, sample = judged(experiment, requests, left, sizes, subject.distributions)
        except ContractError:
            if ends == server.ends:
                raise
        else:
            if ends == server.ends:
                return tree, result, sample.counts


def _enough_to_show(requests: ServedOutcomes[Prefix], tree: Tree, counts: Integers) -> Integers:
    """Sample further until a single bin is certainly wrong, for the counterexample; return the counts."""
    with suppress(ContractError):
        while (
            not offending_cells(counts, tree.law, alpha=LEVEL)
            and counts.sum() < SHOWN
            and (more := requests(int(counts.sum())))
        ):
            counts = counts + np.bincount(tree.cells.of(more), minlength=len(counts))
    return counts


def _counterexample(subject: ServerSubject, tree: Tree, counts: Integers) -> TextCounterexample | None:
    """Return the most certainly wrong bin, as a share of its prompt's completions; None without one."""
    worst = next(iter(offending_cells(counts, tree.law, alpha=LEVEL)), None)
    if worst is None:
        return None
    prefix, is_other = leaf = tree.leaves[worst.outcome]
    is_prefix, count = not tree.is_whole[worst.outcome], worst.count
    if leaf == IMPOSSIBLE:
        found = subject.completions.found
        prefix = next(one for one in found if tree.bin(*one) == worst.outcome)
        is_other, is_prefix, count = False, False, found.count(prefix)
    number, tokens = prefix
    prompts = len(subject.server.prompts) if number >= 0 else 1
    draws = len(subject.completions.after(number)) if number >= 0 else int(counts.sum())
    expected = worst.expected_probability * prompts
    shown = (number, (*tokens, None) if is_other else tokens)
    return wrong_completion(subject, shown, expected, count, draws, is_prefix=is_prefix)


def _doubt_of_probabilities(
    subject: ServerSubject, context: Context, tree: Tree, counts: Integers, seconds: float
) -> str:
    """Return why the reported probabilities may be wrong, not the completions; "" if the completions are.

    Completions are made token by token, as many as there were others, or as the time allows: these need no
    reported probabilities. If they agree with the completions that were counted, the probabilities are in
    doubt: wrong if the new completions contradict the tree, too; else unconfirmed, if they were before.
    """
    rng, end, drawn = context.stream("server/joint/one-token"), time.monotonic() + seconds, int(counts.sum())
    plain = np.zeros_like(counts)
    while plain.sum() < drawn and (not plain.any() or time.monotonic() < end):
        numbers = rng.integers(len(subject.server.prompts), size=AT_ONCE)
        try:
            starts: list[Prefix] = [(int(number), ()) for number in numbers]
            made = token_by_token(subject.distributions, starts, subject.plan.tokens)
        except OutOfTimeError:
            break
        for number, tokens in made:
            plain[tree.bin(number, tokens)] += 1
        subject.server.tell("joint, token by token", int(plain.sum()), drawn)
    level = effort.SERVER_BLAME_RATE
    if plain.any() and not homogeneity(counts, plain, alpha=level).passed:
        return ""
    if plain.any() and not goodness_of_fit_by_g(plain, tree.law, alpha=level, slack=tree.slack).passed:
        return "the probabilities that the server reports are wrong: one-token samples contradict them too"
    return UNCONFIRMED if is_unconfirmed(context) else ""


def token_by_token(distributions: Distributions, made: list[Prefix], length: int) -> list[Prefix]:
    """Return completions of so many tokens, made by one-token requests."""
    for _ in range(length):
        ends = distributions.server.ends
        going = [place for place, (_, made_) in enumerate(made) if ends.isdisjoint(made_[-1:])]
        samples = list(distributions.samples([made[place] for place in going]))
        for place, ((number, tokens), token) in zip(going, samples, strict=True):
            made[place] = (number, (*tokens, token))
    return made
