"""Failures to debug: the part of a check that failed, on small inputs that are saved and can be run again.

A part of a check is a function of (subject, context, rate), and of inputs by name: a batch of drafts, a toy
instance, a shape. Where it fails, smaller inputs are tried for a few seconds, and the smallest that fail are
kept with what the part says of them.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from spec_oracle.audit.context import Context, run_guarded
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import CheckResult, How, Status, breach, inconclusive
from spec_oracle.audit.shapes.axes import TYPES, Shape
from spec_oracle.contracts import ContractError, SamplerCode, SubjectRaisedError
from spec_oracle.errors import InvalidInputError, SpecOracleError, unknown
from spec_oracle.toy import Instance
from spec_oracle.validation import require_share
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

_MOST_NUMBERS: Final = 200_000
"""What a file may hold."""


@dataclass(frozen=True)
class Again:
    """Inputs on which a part of a check fails, and what it ``says`` of them.

    ``rate`` is the part's error rate; ``file`` holds the inputs once they are saved, ``not_saved`` says why
    they are not; ``reproduce`` is the command line that shows the failure again.
    """

    check: str
    part: str
    inputs: Mapping[str, Any]
    rate: float
    says: str
    file: str | None = None
    reproduce: str = ""
    not_saved: str = ""

    @property
    def size(self) -> str:
        """How large the inputs are, "" where the part has its own."""
        for value in self.inputs.values():
            if isinstance(value, Drafts):
                requests = f"{value.batch} request{'s' * (value.batch > 1)}"
                return f"{requests}, {value.vocab_size} tokens, draft length {value.depth}"
            if isinstance(value, Paths):
                requests = f"{value.batch} request{'s' * (value.batch > 1)}"
                return f"{requests}, {value.vocab_size} tokens, draft length {value.draft_length}"
            if isinstance(value, Instance):
                return f"{value.vocab_size} tokens, draft length {value.draft_length}"
            if isinstance(value, Shape):
                return str(value)
        return ""

    def save(self, path: Path) -> None:
        """Write a file that `load` reads; raises `OSError`, and `InvalidInputError` for very large inputs."""
        inputs = {name: _as_json(value) for name, value in self.inputs.items()}
        numbers = sum(np.size(array) for value in self.inputs.values() for array in arrays_of(value))
        if numbers > _MOST_NUMBERS:
            raise InvalidInputError(f"the inputs are {numbers:,} numbers, a file holds {_MOST_NUMBERS:,}")
        kept = {"check": self.check, "part": self.part, "rate": self.rate, "says": self.says}
        path.write_text(json.dumps({**kept, "inputs": inputs}, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Again | None":
        """Read such a file, None if it is another one; raises `InvalidInputError` for one that is damaged."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None  # reading it as an instance says what is wrong
        if not isinstance(data, dict) or "part" not in data:
            return None
        if data["part"] not in PARTS:
            raise InvalidInputError(f"{path}: {unknown(data['part'], PARTS, 'part of a check')}")
        try:
            inputs = {name: _READ.get(name, _same)(value) for name, value in data["inputs"].items()}
            rate = require_share(data["rate"], "rate")
            return cls(str(data["check"]), data["part"], inputs, rate, str(data["says"]), str(path))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInputError(f"{path}: no inputs of a failed check: {error!r}") from None


def part(function: Part) -> Part:
    """Register a part of a check; where it fails, its result has the smallest inputs that show it.

    A broken contract fails it, and an exception of the code leaves it open.
    """
    name = function.__name__
    PARTS[name] = function

    @wraps(function)
    def asked(subject: Any, context: Context, rate: float, **inputs: Any) -> CheckResult:
        started = time.process_time()
        try:
            result = _run(name, subject, context, rate, inputs)
        except ContractError as error:
            result = breached(error, subject, context, rate, how=How.SAMPLED)
        except SubjectRaisedError as error:
            return inconclusive(str(error))
        if result.status is not Status.FAILED or result.again is not None or context.again is not None:
            return result
        took = time.process_time() - started
        found = _shrunk(Again("", name, inputs, rate, result.detail), subject, context, took)
        return replace(result, again=found)

    return asked


def asked_again(subject: Any, context: Context) -> CheckResult:
    """Run the part of ``context.again`` on its inputs."""
    again: Again = context.again
    result = run_guarded(lambda: _run(again.part, subject, context, again.rate, again.inputs))
    failed = result.status is Status.FAILED
    return replace(result, again=replace(again, says=result.detail) if failed else None)


def with_inputs(  # noqa: PLR0917
    result: CheckResult,
    name: str,
    subject: Any,
    context: Context,
    rate: float,
    inputs: Mapping[str, Any],
    says: str = "",
) -> CheckResult:
    """Return a failure with the smallest inputs on which a part ``says`` so, unchanged where there are none.

    "" stands for whatever the part says of ``inputs``.
    """
    if context.again is not None:
        return result
    started = time.process_time()
    found = _failing(Again("", name, inputs, rate, says), subject, context)
    took = time.process_time() - started
    return result if found is None else replace(result, again=_shrunk(found, subject, context, took))


def breached(error: ContractError, subject: Any, context: Context, rate: float, **fields: Any) -> CheckResult:
    """Return the result of a broken contract, with the smallest call that breaks it, if one call does."""
    result, call = breach(error, **fields), error.call
    if call is None or not isinstance(getattr(subject, "code", None), SamplerCode):
        return result
    code, drafts, options = call
    form = {name: getattr(code, name) for name in ("dtype", "ids", "layout")}
    inputs = {"drafts": drafts, "options": dict(options), "seed": context.seed, "form": form}
    inputs["may_refuse"] = True
    return with_inputs(result, "one_call", subject, context, rate, inputs)


def _run(name: str, subject: Any, context: Context, rate: float, inputs: Mapping[str, Any]) -> CheckResult:
    return PARTS[name](subject, replace(context, rate=rate), rate, **inputs)


def _failing(again: Again, subject: Any, context: Context) -> Again | None:
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


def _shrunk(again: Again, subject: Any, context: Context, took: float) -> Again:
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


def _as_json(value: Any) -> Any:
    if isinstance(value, Drafts | Paths):
        ids = ("draft_tokens",) if len(arrays_of(value)) == 3 else ("tokens", "parents")
        names = (*ids, "draft_probs", "target_probs")
        arrays = {name: array.tolist() for name, array in zip(names, arrays_of(value), strict=True)}
        if isinstance(value, Paths) or value.num_paths is not None:
            return arrays
        return {**arrays, "max_depth": value.max_depth, "max_children": value.max_children}
    if isinstance(value, Instance):
        return value.to_json()
    if isinstance(value, Shape):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: _as_json(one) for name, one in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _same(value: Any) -> Any:
    return value


def _drafts(data: Any) -> Paths | Drafts:
    """Read paths, or trees where there are parents."""
    draft, target = (np.array(data[name], dtype=np.float64) for name in ("draft_probs", "target_probs"))
    if "parents" in data:
        tokens, parents = (np.array(data[name], dtype=np.int64) for name in ("tokens", "parents"))
        return Drafts.of_tree(tokens, parents, draft, target, data["max_depth"], data["max_children"])
    return Paths(np.array(data["draft_tokens"], dtype=np.int64), draft, target)


def as_drafts(value: Paths | Drafts) -> Drafts:
    """Return the drafts of a rule that were saved: paths come back as arrays."""
    if isinstance(value, Drafts):
        return value
    return Drafts.of_paths(*value.arrays)


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "drafts": _drafts,
    "instance": Instance.from_json,
    "shape": lambda data: Shape(**data),
    "options": lambda data: {name: np.array(values) for name, values in data.items()},
    "judged": np.array,
    "uniforms": np.array,
    "order": np.array,
}
"""How inputs are read; all others are kept as they are."""


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


def smaller(inputs: Mapping[str, Any], seed: int) -> Iterator[dict[str, Any]]:
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


def _of_requests(value: Any, some: slice, batch: int) -> Any:
    if isinstance(value, Drafts):
        return value.take(np.arange(batch)[some])
    if isinstance(value, Paths):
        return Paths(value.tokens[some], value.draft_probs[some], value.target_probs[some])
    if isinstance(value, dict):
        return {name: _of_requests(one, some, batch) for name, one in value.items()}
    return value[some] if isinstance(value, np.ndarray) and len(value) == batch else value


def _cut(drafts: Paths, length: int) -> Paths:
    tokens, draft, target = arrays_of(drafts)
    return Paths(tokens[:, :, :length], draft[:, :, :length], target[:, :, : length + 1])


def _cut_options(inputs: Mapping[str, Any], length: int) -> dict[str, Any]:
    options = inputs.get("options", {})
    cut = {name: np.minimum(array, length) for name, array in options.items() if name == "draft_lengths"}
    return {"options": {**options, **cut}} if cut else {}


def arrays_of(value: Any) -> list[Any]:
    """Return the arrays of an input."""
    if isinstance(value, Drafts):
        if value.num_paths is not None:
            return arrays_of(value.paths)
        return [value.tokens, value.parents, value.draft.dense(), value.target.dense()]
    if isinstance(value, Paths):
        return [value.tokens, value.draft_probs, value.target_probs]
    return list(value.values()) if isinstance(value, dict) else [value] * isinstance(value, np.ndarray)
