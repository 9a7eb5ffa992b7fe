"""The check `shapes` of servers: completions under combinations of sampling fields, and greedy ones.

One-token requests under the same fields show the distributions, so every token of a completion is judged as
`long-texts` does. Combinations have all pairs of values of two fields (`spec_oracle.servers.checks.fields`).
Where one-token requests show nothing of a field, whole completions are compared with those of a reference
server (`spec_oracle.servers.checks.reference`).
"""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.logprobs import difference
from spec_oracle.audit.long_tokens import is_decided, most_in, tokens_needed
from spec_oracle.audit.results import CheckResult, Cover, How, failed, inconclusive, not_asked, passed
from spec_oracle.contracts.completion import Prefix, Token
from spec_oracle.servers.checks import subject as subjects
from spec_oracle.servers.checks.conclusion import unless_unconfirmed
from spec_oracle.servers.checks.distributions import Distributions, ids_after
from spec_oracle.servers.checks.fields import (
    LIMITS,
    Axes,
    Combination,
    Trial,
    Tried,
    combinations_of,
    known_axes,
)
from spec_oracle.servers.checks.joint import token_by_token
from spec_oracle.servers.checks.long_texts import JudgedCompletions
from spec_oracle.servers.checks.reference import reference_trials
from spec_oracle.servers.checks.subject import Completions, ServerSubject
from spec_oracle.servers.contract import Ask, OutOfTimeError, RefusedError, prefixes_of
from spec_oracle.statistics import split

_COARSEST: Final = 0.7
"""Total variation a token that must be detected."""


def shapes(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge greedy completions, then each combination of fields, until one is wrong or time is over."""
    server, start = subject.server, time.monotonic()
    if why := subject.why_no_rows(max(*LIMITS, effort.SERVER_LONGER * subject.plan.tokens)):
        return not_asked(why)
    if subjects.is_unchecked(context):
        return inconclusive(subjects.UNCHECKED)
    try:
        wrong, refused = greedy(subject), {}
    except RefusedError:
        wrong, refused = "", {"temperature 0": "refused"}
    if wrong:
        return failed(wrong, alpha=context.rate, how=How.SAMPLED)
    axes, unknown = known_axes(subject.distributions)
    subject.grammar = dict(axes.get("grammar", ())).get("on", {})
    trials: list[Trial] = [
        partial(judge_by_rows, subject, one, number) for number, one in enumerate(combinations_of(axes))
    ]
    trials += reference_trials(subject, context, unknown)
    rate, done = split(context.rate, 2 * len(trials)), list[Tried]()
    for trial in trials:
        left = context.budget - (time.monotonic() - start)
        if (left <= 0 and done) or (done and done[-1].wrong):
            break
        done.append(trial(replace(context, rate=rate, budget=left / (len(trials) - len(done)))))
        server.tell("shapes, combinations of sampling fields", len(done), len(trials))
    judged = {word for one in done if not one.why for word in one.combination.words}
    named = {name: why for name, why in unknown.items() if name not in judged}
    result = _result(done, {**refused, **named}, len(trials))
    coverage = _coverage(done, axes)
    measured = replace(result.measured, alpha=context.rate)
    result = replace(result, measured=measured, remarks=replace(result.remarks, coverage=coverage))
    return unless_unconfirmed(result, context)


def judge_by_rows(subject: ServerSubject, combination: Combination, number: int, context: Context) -> Tried:
    """Judge the tokens of completions under one combination, within the budget."""
    server, rows = combination.of(subject.server), _rows(subject, combination)
    judged = JudgedCompletions(rows, None, context.stream("server/shapes/uniforms", number))
    named = (context.seed, f"server/shapes/{number}")
    completions = Completions(server, combination.tokens, named, combination.is_seeded)
    rate, end, evidence = context.rate, time.monotonic() + context.budget, judged.evidence
    needed = tokens_needed(effort.SERVER_SHAPES_TV, rate, 0.1)
    width = server.client.limits.concurrency
    try:
        rows.noise = max(subject.distributions.noise, _noise(rows))
        if rows.noise > effort.SERVER_LOGPROBS_COARSEST:
            return Tried(combination, why=f"equal requests differ by {rows.noise:.2g} nats")
        while evidence.tokens < needed and not is_decided(judged, rate):
            missing = (needed - evidence.tokens) // combination.tokens
            at_once = min(missing, 4 * width * (1 + len(completions.found) // width))
            judged.add(completions.sample(max(at_once, width)))
            is_unknown = judged.completions >= effort.SERVER_PILOT and not evidence.tokens
            if time.monotonic() > end or is_unknown:
                break
    except RefusedError:
        return Tried(combination, why="refused")
    except OutOfTimeError:
        pass
    seen, wrong, why = f"{evidence.tokens:,} tokens", "", ""
    # The total variation a token that differences between equal requests hide.
    hidden = 2 * evidence.all_by_p.doubt / max(evidence.all_by_p.tokens, 1)
    if not (evidence.tokens or judged.ruled_out):
        why = "no next-token distribution is known"
    elif is_decided(judged, rate) and _are_rows_wrong(judged, completions, context, number):
        why = "one-token samples contradict the reported probabilities, too"
    elif is_decided(judged, rate):
        contradict = f"{seen} contradict their next-token distributions"
        wrong = judged.ruled_out or f"{contradict}, {most_in(evidence.worst.name)}"
    elif hidden > _COARSEST:
        why = f"equal requests differ by {hidden:.2g} in total variation a token"
    least = evidence.least_tv(effort.SERVER_BOUND_RATE) if wrong else None
    detects = math.inf if why else evidence.all_by_p.detects(rate)
    return Tried(combination, seen, evidence.tokens, wrong, why, least, detects)


def _rows(subject: ServerSubject, combination: Combination) -> Distributions:
    """Return the next-token distributions under a combination."""
    rows = Distributions(combination.of(subject.server))
    rows.reading = subject.distributions.reading
    rows.along = (rows, None)  # scores of prompts know no penalties
    return rows


def _are_rows_wrong(
    judged: JudgedCompletions, completions: Completions, context: Context, number: int
) -> bool:
    """Whether completions made by one-token requests contradict the reported distributions, too."""
    rows = judged.distributions
    again = JudgedCompletions(rows, None, context.stream("server/shapes/one-token", number))
    made: list[Prefix] = [(prompt, ()) for prompt, _ in completions.found]
    with suppress(OutOfTimeError):
        again.add(token_by_token(rows, made, completions.length))
    return is_decided(again, effort.SERVER_BLAME_RATE)


def _noise(rows: Distributions) -> float:
    """Return by how much the distributions after the prompts differ when asked for again, nats."""
    again = Distributions(rows.server)
    roots: list[Prefix] = [(number, ()) for number in range(len(rows.server.prompts))]
    rows.fetch(roots)
    again.fetch(roots)
    return max(difference(rows.logs[root] or {}, again.logs[root] or {}) for root in roots)


def _result(done: Sequence[Tried], unknown: Mapping[str, str], planned: int) -> CheckResult:
    draws = sum(one.draws for one in done)
    if done[-1].wrong:
        detail = f"{done[-1].combination}: {done[-1].wrong}"
        return failed(detail, draws=draws, how=How.SAMPLED, total_variation=done[-1].least)
    tried = [one for one in done if not one.why]
    scope = (
        *(f"sampling field not tried: {name}: {why}" for name, why in unknown.items()),
        *(f"not tried: {one.combination}: {one.why}" for one in done if one.why),
        *(f"as expected: {one.combination}: {one.seen}" for one in tried),
    )
    left_out = f" (not tried: {', '.join(unknown)})" if unknown else ""
    worst = max((one.detects for one in tried), default=math.inf)
    fields = f"{len(tried) or 'none'} of {planned} combinations of sampling fields{left_out}"
    judged = (
        f"greedy completions, and {fields}, are as expected; "
        f"each detects a total variation of {min(worst, 1):.2g} a token between ten bins by p"
        if tried
        else f"greedy completions are as expected; {fields} was judged"
    )
    is_open = worst > _COARSEST or len(done) < planned
    advice = "; raise --budget" if is_open else ""
    return (inconclusive if is_open else passed)(judged + advice, draws=draws, how=How.SAMPLED, scope=scope)


def _coverage(done: Sequence[Tried], axes: Axes) -> dict[str, dict[str, Cover]]:
    """Return what is known of each value that `joint` does not have."""
    cover = {axis: {word: Cover.UNTRIED for word, _ in values[1:]} for axis, values in axes.items()}
    for one in done:
        for axis, word in one.combination.words.items():
            cover.setdefault(axis, {})
            if not one.why and cover[axis].get(word) is not Cover.WRONG:
                cover[axis][word] = Cover.WRONG if one.wrong else Cover.SAMPLED
    return cover


def greedy(subject: ServerSubject) -> str:
    """Say which token of a greedy completion a greedy one-token request contradicts, "" if none does.

    Tokens whose probabilities are equal, up to the error of those reported, may come in the other's place.
    """
    server, reported = subject.server, subject.distributions
    length = effort.SERVER_LONGER * subject.plan.tokens
    for number, prompt in enumerate(server.prompts):
        (answer,) = server.complete([Ask(prompt, length, temperature=0.0)])
        prefixes = prefixes_of((number, answer.tokens))
        alone = _greedily(subject, prefixes)
        for prefix, token, expected in zip(prefixes, answer.tokens, alone, strict=True):
            if token == expected:
                continue
            reported.fetch([prefix])
            row = reported.logs[prefix] or {}
            is_tie = token in row and abs(row[token] - row.get(expected, math.inf)) <= 2 * reported.error
            if not is_tie and token not in _greedily(subject, [prefix] * 2):
                place = f"token {len(prefix[1]) + 1} after prompt {number + 1}"
                return f"temperature 0: {place} is {token!r}, by a one-token request it is {expected!r}"
    return ""


def _greedily(subject: ServerSubject, prefixes: Sequence[Prefix]) -> list[Token]:
    """Return the token that a greedy one-token request gives after each prefix."""
    server = subject.server
    asks = [Ask(ids_after(server, prefix), 1, temperature=0.0) for prefix in prefixes]
    return [answer.tokens[0] for answer in server.complete(asks)]
