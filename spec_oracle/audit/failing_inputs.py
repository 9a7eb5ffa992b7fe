"""Small inputs on which a part of a check fails, to be saved and run again.

A part of a check is a function of (subject, context, rate), and of inputs by name: a batch of drafts, a toy
instance, a shape. Where it fails, smaller inputs are tried for a few seconds, and the smallest that fail are
kept with what the part says of them.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any, Final, TypeAlias

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.experiment import run_guarded
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, Status, breach, inconclusive
from spec_oracle.audit.saved_inputs import FailingInputs
from spec_oracle.audit.shapes.axes import TYPES
from spec_oracle.audit.shapes.trees import Shape
from spec_oracle.contracts import ContractError, SamplerCode, SubjectRaisedError
from spec_oracle.errors import SpecOracleError
from spec_oracle.toy import Instance
from verifiers import Drafts, Paths

Part: TypeAlias = Callable[..., CheckResult]

PARTS: Final[dict[str, Part]] = {}
"""Parts of checks by name."""

SHRINK_SECONDS: Final = 3.0
"""Processor time for which smaller inputs are tried."""

_SLOWEST: Final = 1.0
"""Processor time of one run up to which smaller inputs are tried at all."""

_SEEDS: Final = 8
"""Seeds that are tried of a call, which emits something else with each."""

_TIMES: Final = 3
"""Times that inputs must fail in a row."""


def part(function: Part) -> Part:
    """Register a part of a check; if it fails, its result has the smallest inputs on which it fails.

    A broken contract fails it, and an exception of the code leaves it open.
    """
    name = function.__name__
    PARTS[name] = function

    @wraps(function)
    def asked(subject: object, context: Context, rate: float, **inputs: object) -> CheckResult:
        started = time.process_time()
        try:
            result = _run(name, subject, context, rate, inputs)
        except ContractError as error:
            result = breached(error, subject, context, rate)
        except SubjectRaisedError as error:
            return inconclusive(str(error))
        if result.status is not Status.FAILED or result.shown.inputs is not None or context.again is not None:
            return result
        took = time.process_time() - started
        found = _shrunk(FailingInputs("", name, inputs, rate, result.detail), subject, context, took)
        return _with(result, found)

    return asked


def asked_again(subject: object, context: Context) -> CheckResult:
    """Run the part of ``context.again`` on its inputs."""
    again = context.again
    assert again is not None
    result = run_guarded(lambda: _run(again.part, subject, context, again.rate, again.inputs))
    failed = result.status is Status.FAILED
    return _with(result, replace(again, says=result.detail) if failed else None)


def with_inputs(  # noqa: PLR0917
    result: CheckResult,
    name: str,
    subject: object,
    context: Context,
    rate: float,
    inputs: Mapping[str, object],
    says: str = "",
) -> CheckResult:
    """Return a failure with the smallest inputs on which a part ``says`` so, unchanged where there are none.

    "" stands for whatever the part says of ``inputs``.
    """
    if context.again is not None:
        return result
    started = time.process_time()
    found = _failing(FailingInputs("", name, inputs, rate, says), subject, context)
    took = time.process_time() - started
    return result if found is None else _with(result, _shrunk(found, subject, context, took))


def _with(result: CheckResult, inputs: FailingInputs | None) -> CheckResult:
    return replace(result, shown=replace(result.shown, inputs=inputs))


def breached(
    error: ContractError, subject: object, context: Context, rate: float, alpha: float = 0.0
) -> CheckResult:
    """Return the result of a broken contract, with the smallest call that breaks it, if one call does."""
    result, call = breach(error, How.SAMPLED, alpha), error.call
    if call is None or not isinstance(getattr(subject, "code", None), SamplerCode):
        return result
    code, drafts, options = call
    form = {name: getattr(code, name) for name in ("dtype", "ids", "layout")}
    inputs = {"drafts": drafts, "options": dict(options), "seed": context.seed, "form": form}
    inputs["may_refuse"] = True
    return with_inputs(result, "one_call", subject, context, rate, inputs)


def _run(
    name: str, subject: object, context: Context, rate: float, inputs: Mapping[str, object]
) -> CheckResult:
    return PARTS[name](subject, replace(context, rate=rate), rate, **inputs)


def _failing(again: FailingInputs, subject: object, context: Context) -> FailingInputs | None:
    """Return the inputs, with a seed of their own where they have one, if the part fails on them every time.

    Code that seeds itself from the clock fails only as a rule: inputs on which it may pass are of no use.
    """
    quiet, own = replace(context, again=again), again.inputs.get("seed")
    for seed in [own] if own is None else [own, *range(_SEEDS)]:
        inputs = {**again.inputs, **({} if own is None else {"seed": seed})}
        with suppress(SpecOracleError, ValueError, IndexError, TypeError):
            says = ""
            for _ in range(_TIMES):
                found = run_guarded(lambda: _run(again.part, subject, quiet, again.rate, inputs))  # noqa: B023
                alike = _kind(found.detail) == _kind(again.says or found.detail)
                says = found.detail if found.status is Status.FAILED and alike else ""
                if not says:
                    break
            if says:
                return replace(again, inputs=inputs, says=says)
    return None


def _kind(says: str) -> list[str]:
    """Return how a sentence begins: smaller inputs must fail in the same way."""
    return re.findall("[a-z_]+", says)[:3]


def _shrunk(again: FailingInputs, subject: object, context: Context, took: float) -> FailingInputs:
    """Return the smallest inputs found on which the part fails, in a few seconds."""
    end = time.process_time() + SHRINK_SECONDS
    is_smaller = context.shrink and took < _SLOWEST
    while is_smaller:
        is_smaller = False
        for inputs in smaller(again.inputs, context.seed):
            if time.process_time() > end:
                return again
            found = _failing(replace(again, inputs=inputs), subject, context)
            if found is not None:
                again, is_smaller = found, True
                break
    return again


_SIZES: Final = ((2, 1), (2, 2), (3, 1), (2, 3), (3, 2))
"""V and L of smaller toy instances."""


_SIMPLER: Final[tuple[dict[str, Any], ...]] = (
    *({"batch": batch, "place": "first"} for batch in (1, 2)),
    *({"layout": "contiguous"}, {"ids": "int64"}, {"dtype": "float64"}, {"dtype": "float32"}),
    *({"vocab_size": vocab} for vocab in (2, 3, 5, 8, 33, 257)),
    *({"draft_length": length} for length in (1, 2, 3)),
    {"kind": "flat"},
)
"""Changes that make a shape simpler."""


def smaller(inputs: Mapping[str, Any], seed: int) -> Iterator[dict[str, object]]:
    """Yield smaller inputs: fewer requests, positions and tokens of a call, smaller toy instances."""
    if "drafts" in inputs:
        yield from _smaller_drafts(inputs)
    if "shape" in inputs:
        for change in _SIMPLER:
            shape = replace(inputs["shape"], **change)
            if shape != inputs["shape"] and _is_as_simple(shape, inputs["shape"]):
                yield {**inputs, "shape": shape}
    if "vocab_size" in inputs:
        yield from ({**inputs, "vocab_size": v} for v in (2, 5, 17, 65, 257) if v < inputs["vocab_size"])
    if "instance" in inputs:
        one: Instance = inputs["instance"]
        for vocab, length in _SIZES:
            smaller = vocab <= one.vocab_size and length <= one.draft_length
            if smaller and (vocab, length) != (one.vocab_size, one.draft_length):
                yield {**inputs, "instance": panel(vocab, length, one.num_paths, seed)["flat"]}


def _smaller_drafts(inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield inputs with fewer requests and random numbers; of paths also with fewer positions and tokens."""
    given: Paths | Drafts = inputs["drafts"]
    batch = given.batch
    halves = [slice(0, batch // 2), slice(batch // 2, batch)] if batch > 4 else []
    for some in halves or ([slice(b, b + 1) for b in range(batch)] if batch > 1 else []):
        yield {name: _of_requests(value, some, batch) for name, value in inputs.items()}
    fewer = inputs["uniforms"].shape[1] // 2 if "uniforms" in inputs else 0
    if fewer:  # code that takes more raises, and says something else
        yield {**inputs, "uniforms": inputs["uniforms"][:, :fewer]}
    if isinstance(given, Drafts) and given.num_paths is None:
        return
    drafts = given.paths if isinstance(given, Drafts) else given
    length = drafts.draft_length
    for shorter in dict.fromkeys((1, length // 2, length - 1)) if length > 1 else ():
        yield {**inputs, "drafts": _cut(drafts, shorter), **_cut_options(inputs, shorter)}
    rows = (drafts.draft_probs, drafts.target_probs)
    used = {*drafts.tokens.reshape(-1).tolist()}.union(
        *(np.flatnonzero((array != 0).any(axis=(0, 1, 2))).tolist() for array in rows)
    )
    kept = np.array(sorted(used)) if max(used) < drafts.vocab_size else np.empty(0, dtype=np.int64)
    if 2 <= len(kept) < drafts.vocab_size:
        tokens = np.searchsorted(kept, drafts.tokens)
        yield {**inputs, "drafts": Paths(tokens, *(array[..., kept] for array in rows))}


def _is_as_simple(shape: Shape, other: Shape) -> bool:
    sizes = ("vocab_size", "draft_length", "batch")
    smaller = all(getattr(shape, name) <= getattr(other, name) for name in sizes)
    return smaller and TYPES.index(shape.dtype) <= TYPES.index(other.dtype)


def _of_requests(value: object, some: slice, batch: int) -> object:
    if isinstance(value, Drafts | Paths):
        return value.take(np.arange(batch)[some])
    if isinstance(value, dict):
        return {name: _of_requests(one, some, batch) for name, one in value.items()}
    return value[some] if isinstance(value, np.ndarray) and len(value) == batch else value


def _cut(drafts: Paths, length: int) -> Paths:
    tokens, draft, target = drafts.arrays
    return Paths(tokens[:, :, :length], draft[:, :, :length], target[:, :, : length + 1])


def _cut_options(inputs: Mapping[str, Any], length: int) -> dict[str, object]:
    options = inputs.get("options", {})
    cut = {name: np.minimum(array, length) for name, array in options.items() if name == "draft_lengths"}
    return {"options": {**options, **cut}} if cut else {}
