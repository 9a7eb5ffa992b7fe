"""The check `shapes` of servers: completions under combinations of sampling fields, and greedy ones.

One-token requests under the same fields show the distributions, so every token of a completion is judged as
`long-texts` does. Combinations have all pairs of values of two fields (`spec_oracle.servers.checks.fields`).
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, Cover, How, failed, inconclusive, not_asked, passed
from spec_oracle.contracts.completion import Prefix, Token
from spec_oracle.servers.checks import effort
from spec_oracle.servers.checks import subject as subjects
from spec_oracle.servers.checks.conclusion import unless_unconfirmed
from spec_oracle.servers.checks.fields import Axes, covering, known_axes
from spec_oracle.servers.checks.subject import ServerSubject
from spec_oracle.servers.checks.trials import Beside, Trial, beside_reference
from spec_oracle.servers.contract import Ask, RefusedError
from spec_oracle.statistics import split

Tried: TypeAlias = Trial | Beside


def shapes(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge greedy completions, then each combination of fields, until one is wrong or time is over."""
    server, start = subject.server, time.monotonic()
    if not server.listed:
        return not_asked(subjects.NEEDS_PROBABILITIES)
    if subjects.is_unchecked(context):
        return inconclusive(subjects.UNCHECKED)
    try:
        wrong, refused = greedy(subject), {}
    except RefusedError:
        wrong, refused = "", {"temperature 0": "refused"}
    if wrong:
        return failed(wrong, alpha=context.rate, how=How.SAMPLED)
    axes, unknown = known_axes(subject.distributions)
    subject.grammars = [fields for _, fields in axes.get("grammar", [])[1:]]
    trials: list[Tried] = [Trial(subject, context, one, number) for number, one in enumerate(covering(axes))]
    trials += beside_reference(subject, context, unknown)
    rate, done = split(context.rate, 2 * len(trials)), list[Tried]()
    for trial in trials:
        left = context.budget - (time.monotonic() - start)
        if (left <= 0 and done) or (done and done[-1].wrong):
            break
        trial.run(rate, left / (len(trials) - len(done)))
        done.append(trial)
        server.tell("shapes, combinations of sampling fields", len(done), len(trials))
    judged = {
        word for one in done if isinstance(one, Beside) and not one.why for word in one.combination.words
    }
    named = {name: why for name, why in unknown.items() if name not in judged}
    result = _result(done, {**refused, **named}, len(trials), rate)
    coverage = _coverage(done, axes)
    measured = replace(result.measured, alpha=context.rate)
    result = replace(result, measured=measured, remarks=replace(result.remarks, coverage=coverage))
    return unless_unconfirmed(result, context)


def _result(done: Sequence[Tried], unknown: Mapping[str, str], planned: int, rate: float) -> CheckResult:
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
    names = ", ".join(f"{name} ({why})" for name, why in unknown.items())
    named = f"; fields not tried: {names}" if names else ""
    worst = max((one.detects(rate) for one in tried), default=math.inf)
    judged = (
        f"greedy completions, and {len(tried)} of {planned} combinations of sampling fields, are as "
        f"expected; each detects a total variation of {min(worst, 1):.2g} a token"
        if tried
        else f"greedy completions are as expected; none of {planned} combinations of fields was judged"
    )
    is_open = worst > effort.SERVER_SHAPES_COARSEST or len(done) < planned
    advice = "; raise --budget" if is_open else ""
    return (inconclusive if is_open else passed)(
        judged + named + advice, draws=draws, how=How.SAMPLED, scope=scope
    )


def _coverage(done: Sequence[Tried], axes: Axes) -> dict[str, dict[str, Cover]]:
    """Return what is known at each value that is not that of `joint`."""
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
        prefixes: list[Prefix] = [(number, answer.tokens[:end]) for end in range(len(answer.tokens))]
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
    prompts: Any = subject.server.prompts
    asks = [Ask((*prompts[n], *tokens), 1, temperature=0.0) for n, tokens in prefixes]  # type: ignore[arg-type]
    return [answer.tokens[0] for answer in subject.server.complete(asks)]
