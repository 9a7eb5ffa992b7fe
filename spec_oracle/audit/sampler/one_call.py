"""One call of a sampler: whether what it returns is possible. Nothing is sampled, so one failure is proof."""

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from spec_oracle.arrays import Booleans, Numbers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.failing_inputs import part
from spec_oracle.audit.results import CheckResult, How, Status, check_result
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import (
    ContractError,
    Emissions,
    ImpossibleOutputError,
    SamplerCode,
    SubjectRaisedError,
)
from spec_oracle.contracts.sampler import NO_OPTIONS
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.interception.edge_draws import edge_draws
from spec_oracle.threads import CallEndedError, at_most
from verifiers import Paths

Options: TypeAlias = Mapping[str, Numbers]


@part
def one_call(
    subject: CalledAsSampler,
    context: Context,
    rate: float,
    *,
    drafts: Paths,
    seed: int,
    options: Options = NO_OPTIONS,
    judged: Booleans | None = None,
    edges: bool = False,
    may_refuse: bool = False,
    form: Mapping[str, str] = {},  # never written
    limit: float | None = None,
) -> CheckResult:
    """Judge one call; with ``edges`` its random numbers are exactly 0 or just under 1, as often as not.

    It may take ``limit`` seconds; it may raise if it ``may_refuse`` its input. The requests that
    are ``judged``, bool [B], must emit tokens that their target gives a probability; None means all. ``form``
    has the number types and the layout of the arrays.
    """
    del context, rate
    own = subject.code
    dtype, ids = form.get("dtype", own.dtype), form.get("ids", own.ids)
    code = replace(own, dtype=dtype, ids=ids, layout=form.get("layout", own.layout))
    say = partial(check_result, draws=drafts.batch, how=How.REPLAYED)
    right, wrong = say(Status.PASSED, "what the call returns is possible"), ""
    limit = effort.BAD_INPUT_SECONDS if limit is None else limit
    with edge_draws(code.array, seed) if edges else nullcontext() as drawn:
        generator = code.generator(seed) if drawn is None else drawn.generator
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings(), at_most(limit):
                warnings.simplefilter("ignore")
                emissions = code(drafts, generator, options)
            require_possible(code, drafts, emissions, options)
            wrong = outside_support(drafts, emissions, judged)
        except InvalidInputError:  # as rules of ours refuse their input
            if not may_refuse:
                raise
        except SubjectRaisedError as error:
            is_refused = may_refuse and not isinstance(error, CallEndedError)
            wrong = "" if is_refused else str(error)
        except ContractError as error:
            wrong = str(error)
    return say(Status.FAILED, wrong) if wrong else right


def outside_support(drafts: Paths, emissions: Emissions, judged: Booleans | None = None) -> str:
    """Name the first emitted token that its target row, if that is a law, gives no probability; else "".

    The last token of an emission is judged by the row of its position: rows are those along a
    path that it follows up to there.
    """
    rows, tokens = drafts.target_probs, emissions.tokens[:, None]
    laws = np.isfinite(rows).all(axis=-1) & (rows >= 0).all(axis=-1) & (abs(rows.sum(axis=-1) - 1) < 1e-9)
    emitted = np.arange(rows.shape[2]) < emissions.lengths[:, None, None]
    mass = np.take_along_axis(rows, np.maximum(tokens, 0)[:, :, :, None], axis=3)[..., 0]
    follows = np.pad(drafts.tokens == tokens[:, :, :-1], ((0, 0), (0, 0), (1, 0)), constant_values=True)
    wrong = (emitted & laws & (mass == 0) & (np.cumprod(follows, axis=2) > 0)).any(axis=1)
    wrong &= True if judged is None else judged[:, None]
    if not wrong.any():
        return ""
    request, where = (int(i) for i in np.argwhere(wrong)[0])
    return (
        f"request {request} emitted token {emissions.tokens[request, where]} at position {where}, "
        "although the target gives it probability 0"
    )


def require_possible(code: SamplerCode, drafts: Paths, emissions: Emissions, options: Options) -> None:
    """Raise `ImpossibleOutputError` for what no batch of mixed requests can emit."""
    wrong = _beyond_draft(emissions, options) or _not_greedy(drafts, emissions, options)
    if wrong:
        error = ImpossibleOutputError(wrong)
        error.call = code, drafts, options
        raise error


def _beyond_draft(emissions: Emissions, options: Options) -> str:
    if "draft_lengths" not in options:
        return ""
    longer = emissions.lengths > options["draft_lengths"] + 1
    if not longer.any():
        return ""
    request = int(np.argmax(longer))
    return (
        f"num_accepted: {emissions.lengths[request] - 1} of request {request}, which has only "
        f"{options['draft_lengths'][request]} drafted tokens in a batch of mixed draft lengths"
    )


def _not_greedy(drafts: Paths, emissions: Emissions, options: Options) -> str:
    """Name the first token of a greedy request that is not the likeliest of its row.

    Rows are those along the drafts, so that the first other token of an emission must be its last.
    """
    if "is_greedy" not in options:
        return ""
    likeliest = drafts.target_probs[:, 0].argmax(axis=-1)
    position = np.arange(likeliest.shape[1])
    emitted = position < emissions.lengths[:, None]
    wrong = options["is_greedy"][:, None] & emitted & (emissions.tokens != likeliest)
    if not wrong.any():
        return ""
    request, where = (int(i) for i in np.argwhere(wrong)[0])
    return (
        f"in a batch with greedy requests, request {request} emitted token "
        f"{emissions.tokens[request, where]} at position {where}, where the target's most likely token "
        f"is {likeliest[request, where]}"
    )
