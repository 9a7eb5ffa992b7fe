"""The check `bad-input`: what the code emits after extreme uniforms, and for broken distributions.

Valid input with any uniforms must give tokens that the target gives a positive probability. Broken input may
be refused with an exception, though not by a call without end; what is returned instead must still be tokens
of the vocabulary, padded with -1, possible under every healthy target distribution. Nothing here is sampled,
so one failure is proof.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from spec_oracle.arrays import Booleans, Floats, Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.declared import how_to_accept
from spec_oracle.audit.draws import affordable, require_affordable, sampled_drafts
from spec_oracle.audit.failing_inputs import with_inputs
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, Status, check_result
from spec_oracle.audit.sampler.one_call import one_call
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.unexecuted_lines import recording
from spec_oracle.audit.saved_inputs import FailingInputs
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import ContractError, SamplerCode, SubjectRaisedError
from verifiers import Paths

BAD_INPUT: Final = "bad-input"
BAD_INPUT_REQUESTS: Final = 64  # Requests of every batch with broken input.
BAD_INPUT_LEAST_REQUESTS: Final = 16  # The same of slow code.
PATIENCE: Final = 30.0  # Seconds for calls that take too long, which may compile: they are made again.
BAD_INPUT_EDGE_ROUNDS: Final = 8  # Calls whose random numbers are often exactly 0 or just under 1.
BAD_INPUT_SLOWER: Final = 20.0  # Times that a call may take longer than one on valid input.
BAD_INPUT_SHARE: Final = 0.1  # Share of the budget for `bad-input`, before it takes fewer requests.


def with_impossible_drafts(drafts: Paths) -> Paths:
    """Strike tokens out of target rows: the last draft of every other request, token 0 at every first row.

    So there are drafts with p(x) = 0 < q(x), and the id that code falls back to is impossible, too. Paths
    that share a prefix keep equal rows.
    """
    target, tokens = drafts.target_probs.copy(), drafts.tokens
    every_other = np.arange(drafts.batch) % 2 == 0
    for path in range(drafts.num_paths):
        beside_first = (tokens[:, path, :-1] == tokens[:, 0, :-1]).all(axis=1)
        strike(target[:, path, -2], np.where(every_other & beside_first, tokens[:, 0, -1], -1))
        strike(target[:, path, 0], np.zeros(drafts.batch, dtype=np.int64))
    return replace(drafts, target_probs=target)


def strike(rows: Floats, tokens: Integers) -> None:
    """Take the tokens [B] out of rows [B, V], in place, except where nothing else is possible."""
    struck = np.where(np.arange(rows.shape[1]) == tokens[:, None], 0.0, rows)
    possible = struck.sum(axis=1) > 0
    rows[possible] = struck[possible] / struck[possible].sum(axis=1, keepdims=True)


SPOILT: Final[Mapping[str, Callable[[Floats], Floats]]] = {
    "NaN": lambda rows: np.full_like(rows, np.nan),
    "infinite": lambda rows: np.full_like(rows, np.inf),
    "zero": np.zeros_like,
    "negative": lambda rows: rows - (np.arange(rows.shape[-1]) == 0),
    "unnormalised": lambda rows: 3 * rows,
}

EDGES: Final = "random numbers exactly 0 or just under 1"

CALLS: Final = 2 * len(SPOILT) + 1 + BAD_INPUT_EDGE_ROUNDS
"""Times that the requests are verified."""


def bad_input(subject: SamplerSubject, context: Context) -> CheckResult:
    """Judge a sampler on broken input, and record which of its lines run."""

    def recorded(*arguments: object, **options: object) -> Any:
        with recording(subject.ran):
            return subject.code.function(*arguments, **options)

    called = replace(subject, code=replace(subject.code, function=recorded))
    return on_broken_input(subject, context, called)


def on_broken_input(
    subject: CalledAsSampler, context: Context, called: CalledAsSampler | None = None
) -> CheckResult:
    """Judge code on broken input and extreme uniforms; no error rate, one forbidden token proves it.

    ``called`` is the subject with code that is recorded, None for the subject itself.
    """
    called = called or subject
    least, most = BAD_INPUT_LEAST_REQUESTS, BAD_INPUT_REQUESTS
    require_affordable(subject, context, least * CALLS)
    code, seed, rng = called.code, context.seed, context.stream("sampler/bad-input")
    toy = panel(3, 3, subject.num_paths, seed)["zeros"]
    requests = int(np.clip(affordable(subject, context, BAD_INPUT_SHARE) / CALLS, least, most))
    healthy = with_impossible_drafts(sampled_drafts(toy, requests, rng, subject.drafting))
    limit = _limit(code, healthy, code.generator(seed))
    calls: list[tuple[str, dict[str, object]]] = [
        (name, {"drafts": drafts, "seed": seed, "judged": judged, "may_refuse": True})
        for name, drafts, judged in broken_inputs(healthy)
    ]
    edges = {"drafts": healthy, "edges": True}
    calls += [(EDGES, {**edges, "seed": seed + number}) for number in range(BAD_INPUT_EDGE_ROUNDS)]
    wrong: dict[str, tuple[str, dict[str, object]]] = {}
    patience = PATIENCE
    for name, call in calls:
        alone = replace(context, again=FailingInputs("", "one_call", call, 0.0, ""))
        started = time.monotonic()
        answer = one_call(called, alone, 0.0, **call, limit=limit)
        took = time.monotonic() - started
        if answer.status is Status.FAILED and took >= limit and patience > took + limit:
            answer = one_call(called, alone, 0.0, **call, limit=patience - took)
            patience -= time.monotonic() - started
        if name not in wrong and answer.status is Status.FAILED:
            wrong[name] = answer.detail, call
    say = partial(check_result, draws=requests * CALLS, how=How.REPLAYED)
    if wrong:
        listed = say(
            Status.FAILED,
            "; ".join(f"{name}: {says}" for name, (says, _) in wrong.items()),
            do=how_to_accept_broken(subject.name, [*wrong]),
        )
        says, call = next(iter(wrong.values()))
        return with_inputs(listed, "one_call", subject, context, 0.0, call, says)
    return say(Status.PASSED, "broken input is refused, or every emitted token has a positive probability")


def how_to_accept_broken(subject: str, wrong: Sequence[str]) -> str:
    """Return how to accept failures on input that no caller passes; "" if valid input fails, too."""
    if EDGES in wrong:
        return ""
    return how_to_accept(subject, BAD_INPUT, f"no caller passes {', '.join(wrong)}")


def broken_inputs(healthy: Paths) -> Iterator[tuple[str, Paths, Booleans]]:
    """Yield broken inputs, and the requests that must stay inside the target's support all the same.

    In each, every fourth request has one broken row, or id. A wrong q must not harm other requests; where q
    is NaN, the target alone must decide.
    """
    sound, everyone = np.arange(healthy.batch) % 4 != 0, np.ones(healthy.batch, dtype=bool)
    for kind, spoil in SPOILT.items():
        for name, field in (("draft", "draft_probs"), ("target", "target_probs")):
            spoilt = getattr(healthy, field).copy()
            spoilt[::4, :, 0] = spoil(spoilt[::4, :, 0])
            judged = everyone if (kind, name) == ("NaN", "draft") else sound
            yield f"{kind} {name} probabilities", replace(healthy, **{field: spoilt}), judged
    tokens = healthy.tokens.copy()
    # Ids wrap to every token but 0 in code that takes them modulo V.
    beyond = 1 + np.arange(len(tokens[::4])) % (healthy.vocab_size - 1)
    tokens[::4, :, 0] = healthy.vocab_size + beyond[:, None]
    yield "drafted id beyond V", replace(healthy, tokens=tokens), sound


def _limit(code: SamplerCode, healthy: Paths, generator: object) -> float:
    """Return how many seconds a call may take, from what one on valid input takes."""
    started = time.monotonic()
    with suppress(ContractError, SubjectRaisedError):
        code(healthy, generator)
    return effort.BAD_INPUT_SECONDS + BAD_INPUT_SLOWER * (time.monotonic() - started)
