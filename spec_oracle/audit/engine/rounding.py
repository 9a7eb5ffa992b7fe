"""Rounding: how far from the target's a right distribution may be, for all checks of an engine.

Engines compute in float32 as a rule, and verification sums in another order than a request for one token
does: its probabilities p' differ from p by a factor of up to 1 + r, either way. Where a call accepts and
corrects by the same p', its token is distributed as p', at a total variation of r / 2 at most from p. Where
the rows of draft and target are computed apart each time (the draft when it samples, accepts and corrects,
the target when it accepts and corrects), probabilities that are accepted are off by 3 r in all, and those of
corrections by 7 r: 3 r since more or less is rejected, 4 r in the residual. The total variation, half of the
sum, is 5 r at most. Over the tokens of a completion these add up
(`spec_oracle.audit.engine.tracer`).

r is 1e-5 for float32, some hundred units in the last place, as sums of some thousand numbers are off, and
1e-2 for narrower types, of rows or in computation. Of rows in float32, or in float64 with the marks of it, up
to r counts as rounding: twice what one row explains. Rows in float64 keep the least tolerance of the subject.
Where an engine gives the same row in two ways, and these differ, twice that difference counts, as long as it
can be rounding at all. Beyond what counts, and up to 5 r, nobody can know: softmax in float64 of logits in
float32 has no mark. That is neither passed nor called lossy, and samples could not show it: 1e-5 takes some
10^11 of them.

A model in bfloat16 returns rows in float32 as a rule, by a softmax in float32. Under autocast, or where the
inputs of its layers are quantised, its weights may be float32, too. So the engine is searched for arrays in
narrow types, and the operators of torch are watched while it returns a row and a few tokens.
"""

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from types import FunctionType, ModuleType
from typing import Final

import numpy as np

from spec_oracle.arrays import Floats
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.contracts.engine import EngineCode, as_float64, copy_of
from spec_oracle.exact.completions import Ids, is_ended
from spec_oracle.exact.interception.number_types import is_narrow, operators_watched, type_name

FLOAT32: Final = 1e-5
"""Relative error of a probability that float32 explains, r."""

NARROWER: Final = 1e-2
"""The same of float16 and bfloat16."""

APART: Final = 5
"""Total variation of a token, in units of r, where every row of draft and target is computed apart."""

MOST: Final = 1e-4
"""Rows that differ by more, total variation, do so for another reason than rounding in float32."""

_MARK: Final = 1e-10
"""Rows of float64 sum to 1, and repeat, up to less."""

_HELD: Final = 4096
"""So many objects that an engine holds are looked at, the outermost first."""

_DEPTH: Final = 3
"""So deep do arrays lie in the module of an engine: deeper ones need not be its own."""

_TOKENS: Final = 3
"""Tokens that are generated while the operators of torch are watched."""

_LIKELY: Final = 3
_ASKED: Final = 2, 6
"""Prompts after which rows are asked for in two ways, and how many along one text behind each."""


@dataclass(frozen=True)
class Rounding:
    """The total variation a token that counts as rounding; up to ``unsure`` it may still be rounding.

    ``why`` says how that is known, for people; ``is_assumed`` if it is more than the engine's rows must show.
    """

    a_token: float
    unsure: float = APART * FLOAT32
    why: str = "float64 rows"
    is_assumed: bool = False

    def explains(self, distance: float, tokens: int = 1) -> bool:
        """Whether a distance between distributions of so many tokens counts as rounding."""
        return distance <= tokens * self.a_token

    def __str__(self) -> str:
        return f"a total variation of up to {self.a_token:.1e} a token counts as rounding: {self.why}"

    @property
    def doubt(self) -> str:
        """Why a distance that it may explain is neither passed nor called lossy."""
        told = f"up to {self.unsure:.1e} a token cannot be told from rounding"
        return f"{told}, up to {self.a_token:.1e} counts as such"

    @property
    def step(self) -> str:
        """How to know what is rounding."""
        if self.unsure > MOST:
            return "let the engine compute in float32 or float64: what is still off then is a defect"
        return (
            "to know what is rounding, return probabilities in the number type in which the engine computes, "
            "show those of verification by rows_along, or compute in float64"
        )


def rounding_of(subject: EngineSubject, context: Context) -> Rounding:
    """Return what counts as rounding in all checks of a subject: the most that any of its engines needs."""
    return _rounding_of(tuple(subject.cases(context)), subject.facts.tolerance)


@lru_cache(maxsize=16)
def _rounding_of(cases: tuple[Case, ...], least: float) -> Rounding:
    prompts = {case.code: [one.prompt for one in cases if one.code is case.code] for case in cases}
    each = [_after(code, one, least) for code, some in prompts.items() for one in some[: _ASKED[0]]]
    most = max(each, key=lambda one: one.a_token)
    return replace(most, unsure=max(one.unsure for one in each))


def _after(code: EngineCode, prompt: Ids, least: float) -> Rounding:
    """Return the rounding of rows: their number type, and how far rows differ when asked for again."""
    contexts = _along(code, prompt)
    returned = [code.returned(context) for context in reversed(contexts)][::-1]
    rows = [code.checked_row(row, context) for row, context in zip(returned, contexts, strict=True)]
    again = _distance(code, contexts, rows)
    total = max(abs(float(as_float64(row).sum()) - 1) for row in returned)
    apart = {"differs by {} when asked again": again, "sums to 1 up to {} only": total}
    if code.has("rows_along"):
        with suppress(SubjectRaisedError, ValueError):  # the checks that need it say so
            along = code.rows_along(prompt, (*contexts[-1], 0)[len(prompt) :])
            apart["differs from rows_along by {}"] = again = max(again, _distance(code, contexts, along))
    way, most = max(apart.items(), key=lambda item: item[1])
    types = sorted({type_name(row) or type_name(np.asarray(row)) for row in returned})  # a list has none
    narrow = _narrow_type_of(code, contexts[-1])
    has_few_digits = bool(narrow) or any(map(is_narrow, types))
    stated = FLOAT32 if has_few_digits or "float32" in types or most > _MARK else 0.0
    a_token = max(least, stated, 2 * most if most <= MOST else 0.0)
    is_float64 = not stated and again > 0  # computed twice, it differs by rounding of float64 only
    seen = f", and {way.format(f'{most:.1e}')}" if most > _MARK else ""
    relative = 0.0 if is_float64 else NARROWER if has_few_digits else FLOAT32
    return Rounding(
        a_token,
        unsure=max(a_token, APART * relative, 2 * most),
        why=f"next_token_probs returns {' and '.join(types)}{narrow and ', '}{narrow}{seen}",
        is_assumed=a_token > least,
    )


def _narrow_type_of(code: EngineCode, context: Ids) -> str:
    """Return how an engine computes in less than float32, in words, or "" where nothing shows that."""
    if held := _narrow_type_held(code.engine):
        return f"weights in {held}"
    torch = sys.modules.get("torch")
    if torch is None:
        return ""
    with operators_watched() as seen, suppress(SubjectRaisedError, ContractError):
        code.returned(context)
        if (copied := copy_of(code.unused)) is not None:
            EngineCode(copied).generated(context, _TOKENS)
    if seen:
        return f"computed in {min(seen)}"
    precision = torch.get_float32_matmul_precision()
    return "" if precision == "highest" else f"matrix products of float32 at precision {precision!r}"


def _narrow_type_held(engine: object) -> str:
    """Return the narrow number type of arrays that an engine, its class or its module holds, or ""."""
    kind = type(engine)
    around = {**getattr(sys.modules.get(kind.__module__), "__dict__", {}), **vars(kind)}
    arrays = chain(_arrays_held(engine, sys.maxsize), _arrays_held(around, _DEPTH))
    return next(filter(is_narrow, map(type_name, arrays)), "")


def _arrays_held(holder: object, depth: int) -> Iterator[object]:
    """Yield arrays in an object, and in what that holds, to a depth, the outermost first."""
    torch = sys.modules.get("torch")
    module = torch.nn.Module if torch is not None else ()
    waiting, seen = deque([(holder, depth)]), {id(holder)}
    while waiting:
        one, depth = waiting.popleft()
        if isinstance(one, str | bytes | int | float | type | ModuleType | FunctionType):
            continue
        if isinstance(one, module):
            yield from chain(one.parameters(), one.buffers())
        elif _is_array(one):
            yield one
        elif depth:
            parts = [part for part in _parts(one) if id(part) not in seen][: _HELD - len(seen)]
            seen.update(map(id, parts))
            waiting.extend((part, depth - 1) for part in parts)


def _is_array(one: object) -> bool:
    try:
        return isinstance(getattr(one, "shape", None), tuple)
    except Exception:  # noqa: BLE001  # an attribute of foreign code may raise anything
        return False


def _parts(holder: object) -> list[object]:
    if isinstance(holder, list | tuple):
        return list(holder)
    own = [*getattr(holder, "__dict__", {}).values()]
    return [*holder.values(), *own] if isinstance(holder, dict) else own


def _along(code: EngineCode, prompt: Ids) -> list[Ids]:
    """Return a prompt, then the prompt with one, two, ... likely tokens, up to the end of a completion."""
    contexts = [prompt]
    while len(contexts) < _ASKED[1]:
        row = code.row(contexts[-1])
        likely = np.argsort(-row, kind="stable")[: min(np.count_nonzero(row), _LIKELY)]
        longer = (*contexts[-1], int(likely[len(contexts) % len(likely)]))
        if is_ended(longer[len(prompt) :], code.endings):
            break
        try:
            code.row(longer)
        except SubjectRaisedError:  # it may have no room for more
            break
        contexts.append(longer)
    return contexts


def _distance(code: EngineCode, contexts: Sequence[Ids], rows: Iterable[Floats]) -> float:
    """Return the largest total variation between rows and those of next_token_probs."""
    return max(
        float(np.abs(row - code.row(context)).sum() / 2) for row, context in zip(rows, contexts, strict=True)
    )
