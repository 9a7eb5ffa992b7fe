"""Engines whose text is right, and what they report of it is not: log-probabilities, and where these end."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from lab.specimens.call_patterns import SteppingEngine
from lab.specimens.specimen import specimens_of
from lab.specimens.table_engine import DRAFT, TARGET, VOCAB, Row, Rows, engine

Logs: TypeAlias = list[float | None]


class Shown(NamedTuple):
    """A call: the tokens before it, those that it emitted, and how many it drafted."""

    context: list[int]
    emitted: list[int]
    drafted: int


def two_likeliest(context: Sequence[int]) -> Row:
    """Return a row of the target behind a filter that keeps two of the tokens."""
    row = TARGET(context)
    kept = [mass if mass > min(row) else 0.0 for mass in row]
    return [mass / sum(kept) for mass in kept]


def by_rows(calls: list[Shown], rows: Rows = two_likeliest) -> Logs:
    """Return the log-probability of every token by rows."""
    return [
        math.log(rows([*call.context, *call.emitted[:place]])[token])
        for call in calls
        for place, token in enumerate(call.emitted)
    ]


def of_residual(calls: list[Shown]) -> Logs:
    """Return those of corrections by the residual."""
    logs = by_rows(calls)
    ends = 0
    for call in calls:
        ends += len(call.emitted)
        if len(call.emitted) <= call.drafted:
            after = [*call.context, *call.emitted[:-1]]
            p, q = two_likeliest(after), DRAFT(after)
            left = [max(one - other, 0.0) for one, other in zip(p, q, strict=True)]
            logs[ends - 1] = math.log(left[call.emitted[-1]] / sum(left))
    return logs


def first_of_calls(calls: list[Shown]) -> Logs:
    """Return that of the first token of each call alone."""
    logs, firsts = by_rows(calls), list[bool]()
    for call in calls:
        firsts += [True, *[False] * (len(call.emitted) - 1)]
    return [log if is_first else None for log, is_first in zip(logs, firsts, strict=True)]


def of_another_mode(calls: list[Shown]) -> Logs:
    """Return those before the filter where anything is drafted."""
    return by_rows(calls, TARGET if calls[0].drafted else two_likeliest)


def behind_the_stop(calls: list[Shown]) -> Logs:
    """Return one more where a stop token ends the completion."""
    return by_rows(calls) + [-1.0] * (calls[-1].emitted[-1] == VOCAB - 1)


@dataclass
class ReportingEngine(SteppingEngine):
    """The token rule behind a filter; ``logs`` are what it reports of some calls."""

    target: Rows = two_likeliest
    draft_length: int = 1
    logs: Callable[[list[Shown]], Logs] = by_rows

    def reported(self, prompt: Sequence[int], max_new_tokens: int) -> tuple[list[int], Logs, str]:
        """Decode speculatively; return the tokens, their log-probabilities, and why the completion ended."""
        text, calls = list[int](), list[Shown]()
        for emitted in self.steps(prompt, max_new_tokens):
            calls.append(Shown([*prompt, *text], emitted, self.past[-1][0]))
            text += emitted
        return text, self.logs(calls), "stop" if self.is_over(text) else "length"

    def raw_probs(self, context: Sequence[int]) -> Row:
        """Return the row before the filter."""
        return TARGET(context)


def _reporting(logs: Callable[[list[Shown]], Logs]) -> Any:
    return engine(partial(ReportingEngine, logs=logs))


specimens_of("logprobs", engine=_reporting)(
    reports_a_constant=("R1: Log-probability 0 for every token", lambda calls: [0.0] * len(by_rows(calls))),
    reports_first_of_calls=("R2: Only the first token of a call has a log-probability", first_of_calls),
    reports_the_residual=("R3: Corrections have the log-probability of the residual", of_residual),
    reports_another_mode=("R4: Before the filter, but for requests of one token", of_another_mode),
    reports_the_previous_place=(
        "R5: The log-probability of the token before, from the second token on",
        lambda calls: [by_rows(calls)[0], *by_rows(calls)[:-1]],
    ),
)
specimens_of("logprobs", engine=engine)(
    reports_behind_the_stop=(
        "R6: A log-probability more than there are tokens, behind the stop token",
        partial(ReportingEngine, stop_tokens=(VOCAB - 1,), logs=behind_the_stop),
    ),
)
specimens_of(engine=engine)(
    reports_the_rows=(
        "control: Log-probabilities behind the filter, stop tokens",
        partial(ReportingEngine, stop_tokens=(VOCAB - 1,)),
    ),
)
