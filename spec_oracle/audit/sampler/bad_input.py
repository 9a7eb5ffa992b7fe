"""The check `bad-input`: what the code emits after extreme uniforms, and for broken distributions.

Valid input with any uniforms must give tokens that the target gives a positive probability. Broken input may
be refused with an exception, though not by a call without end; what is returned instead must still be tokens
of the vocabulary, padded with -1, possible under every healthy target distribution. Nothing here is sampled,
so one failure is proof.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, How, failed, passed
from spec_oracle.audit.sampler.pace import affordable, require_affordable
from spec_oracle.contracts import ContractError, Emissions, SamplerCode, SubjectRaisedError
from spec_oracle.exact.interception.edge_draws import edge_draws
from spec_oracle.threads import CallEndedError, at_most
from verifiers import Drafts

Rows: TypeAlias = NDArray[np.bool_] | slice
Spoil: TypeAlias = Callable[[NDArray[np.float64]], None]


def _with_impossible_drafts(drafts: Drafts) -> Drafts:
    """Strike tokens out of target rows: the last draft of every other request, token 0 at every first row.

    So there are drafts with p(x) = 0 < q(x), and the id that code falls back to is impossible, too. Paths
    that share a prefix keep equal rows.
    """
    target, tokens = drafts.target_probs.copy(), drafts.tokens
    every_other = np.arange(drafts.batch) % 2 == 0
    for path in range(drafts.num_paths):
        beside_first = (tokens[:, path, :-1] == tokens[:, 0, :-1]).all(axis=1)
        _strike(target[:, path, -2], np.where(every_other & beside_first, tokens[:, 0, -1], -1))
        _strike(target[:, path, 0], np.zeros(drafts.batch, dtype=np.int64))
    return replace(drafts, target_probs=target)


def _strike(rows: NDArray[np.float64], tokens: NDArray[np.int64]) -> None:
    """Take the tokens [B] out of rows [B, V], in place, except where nothing else is possible."""
    struck = np.where(np.arange(rows.shape[1]) == tokens[:, None], 0.0, rows)
    possible = struck.sum(axis=1) > 0
    rows[possible] = struck[possible] / struck[possible].sum(axis=1, keepdims=True)


def _set(value: float) -> Spoil:
    def spoil(row: NDArray[np.float64]) -> None:
        row[...] = value

    return spoil


def _negative(row: NDArray[np.float64]) -> None:
    row[..., 0] -= 1.0


def _unnormalised(row: NDArray[np.float64]) -> None:
    row[...] *= 3.0


SPOILT: Final[Mapping[str, Spoil]] = {
    "NaN": _set(np.nan),
    "infinite": _set(np.inf),
    "zero": _set(0.0),
    "negative": _negative,
    "unnormalised": _unnormalised,
}


EDGES: Final = "random numbers exactly 0 or just under 1"

CALLS: Final = 2 * len(SPOILT) + 1 + effort.BAD_INPUT_EDGE_ROUNDS
"""Times that the requests are verified."""


def bad_input(subject: Any, context: Context) -> CheckResult:
    """Judge code on broken input and extreme uniforms; no error rate, one forbidden token proves it."""
    least, most = effort.BAD_INPUT_LEAST_REQUESTS, effort.BAD_INPUT_REQUESTS
    require_affordable(subject, context, least * CALLS)
    code, seed, rng = subject.code, context.seed, context.stream("sampler/bad-input")
    toy = panel(3, 3, subject.num_paths, seed)["zeros"]
    requests = int(np.clip(affordable(subject, context, effort.BAD_INPUT_SHARE) / CALLS, least, most))
    healthy = _with_impossible_drafts(sampled_drafts(toy, requests, rng, subject.drafting))
    limit = _limit(code, healthy, code.generator(seed))
    complaints = {
        name: _complaint(code, drafts, code.generator(seed), answerable, limit, may_refuse=True)
        for name, drafts, answerable in _cases(healthy)
    }
    for number in range(effort.BAD_INPUT_EDGE_ROUNDS):
        with edge_draws(code.array, seed + number) as drawn:
            complaint = _complaint(code, healthy, drawn.generator, slice(None), limit, may_refuse=False)
        complaints[EDGES] = complaints.get(EDGES) or complaint
    found: dict[str, Any] = {"draws": requests * CALLS, "how": How.REPLAYED}
    listed = "; ".join(f"{name}: {complaint}" for name, complaint in complaints.items() if complaint)
    if listed:
        return failed(listed, **found)
    return passed("broken input is refused, or every emitted token has a positive probability", **found)


def _cases(healthy: Drafts) -> Iterator[tuple[str, Drafts, Rows]]:
    """Yield broken inputs, and the requests that must stay inside the target's support all the same.

    In each, every fourth request has one broken row (or id). A q that is off must not harm other requests;
    one that is NaN tells nothing, and then the target alone must decide.
    """
    sound = np.arange(healthy.batch) % 4 != 0
    for kind, spoil in SPOILT.items():
        for name, field in (("draft", "draft_probs"), ("target", "target_probs")):
            spoilt = getattr(healthy, field).copy()
            spoil(spoilt[::4, :, 0])
            answerable = slice(None) if (kind, name) == ("NaN", "draft") else sound
            yield f"{kind} {name} probabilities", replace(healthy, **{field: spoilt}), answerable
    tokens = healthy.tokens.copy()
    # Ids wrap to every token but 0 in code that takes them modulo V.
    beyond = 1 + np.arange(len(tokens[::4])) % (healthy.vocab_size - 1)
    tokens[::4, :, 0] = healthy.vocab_size + beyond[:, None]
    yield "drafted id beyond V", replace(healthy, tokens=tokens), sound


def _limit(code: SamplerCode, healthy: Drafts, generator: Any) -> float:
    """Return how many seconds a call may take, from what one on valid input takes."""
    started = time.monotonic()
    with suppress(ContractError, SubjectRaisedError):
        code(healthy, generator)
    return effort.BAD_INPUT_SECONDS + effort.BAD_INPUT_SLOWER * (time.monotonic() - started)


def _complaint(
    code: SamplerCode, drafts: Drafts, generator: Any, answerable: Rows, limit: float, *, may_refuse: bool
) -> str | None:
    """Return what is wrong with the emissions, None if nothing is."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(), at_most(limit):
            warnings.simplefilter("ignore")
            emissions = code(drafts, generator)
    except CallEndedError as error:
        return str(error)
    except SubjectRaisedError as error:
        return None if may_refuse else str(error)
    except ContractError as error:
        return str(error)
    return _outside_support(drafts, emissions, answerable)


def _outside_support(drafts: Drafts, emissions: Emissions, answerable: Rows) -> str | None:
    """Name the first emitted token that its target row, if that is a law, gives no probability.

    The last token of an emission is judged by the row of its position: rows are those along a
    path that it follows up to there.
    """
    rows, tokens = drafts.target_probs, emissions.tokens[:, None]
    laws = np.isfinite(rows).all(axis=-1) & (rows >= 0).all(axis=-1) & (abs(rows.sum(axis=-1) - 1) < 1e-9)
    emitted = np.arange(rows.shape[2]) < emissions.lengths[:, None, None]
    mass = np.take_along_axis(rows, np.maximum(tokens, 0)[:, :, :, None], axis=3)[..., 0]
    follows = np.pad(drafts.tokens == tokens[:, :, :-1], ((0, 0), (0, 0), (1, 0)), constant_values=True)
    wrong = (emitted & laws & (mass == 0) & (np.cumprod(follows, axis=2) > 0)).any(axis=1)
    judged = np.zeros(drafts.batch, dtype=bool)
    judged[answerable] = True
    wrong &= judged[:, None]
    if not wrong.any():
        return None
    request, where = (int(i) for i in np.argwhere(wrong)[0])
    return (
        f"request {request} emitted token {emissions.tokens[request, where]} at position {where}, "
        "although the target gives it probability 0"
    )
