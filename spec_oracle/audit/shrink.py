"""Smaller inputs of a failed check: fewer requests, positions and tokens, smaller instances and shapes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from spec_oracle.audit.instances import panel
from spec_oracle.audit.shapes.axes import TYPES, Shape
from spec_oracle.toy import Instance
from verifiers import Drafts

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
        drafts: Drafts = inputs["drafts"]
        batch, length = drafts.batch, drafts.draft_length
        halves = [slice(0, batch // 2), slice(batch // 2, batch)] if batch > 4 else []
        for some in halves or ([slice(b, b + 1) for b in range(batch)] if batch > 1 else []):
            yield {name: _of_requests(value, some, batch) for name, value in inputs.items()}
        for shorter in dict.fromkeys((1, length // 2, length - 1)) if length > 1 else ():
            yield {**inputs, "drafts": _cut(drafts, shorter), **_cut_options(inputs, shorter)}
        rows = (drafts.draft_probs, drafts.target_probs)
        used = {*drafts.tokens.reshape(-1).tolist()}.union(
            *(np.flatnonzero((array != 0).any(axis=(0, 1, 2))).tolist() for array in rows)
        )
        kept = np.array(sorted(used)) if max(used) < drafts.vocab_size else np.empty(0, dtype=np.int64)
        if 2 <= len(kept) < drafts.vocab_size:
            tokens = np.searchsorted(kept, drafts.tokens)
            yield {**inputs, "drafts": Drafts(tokens, *(array[..., kept] for array in rows))}
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


def _is_as_simple(shape: Shape, other: Shape) -> bool:
    sizes = ("vocab_size", "draft_length", "batch")
    smaller = all(getattr(shape, name) <= getattr(other, name) for name in sizes)
    return smaller and TYPES.index(shape.dtype) <= TYPES.index(other.dtype)


def _of_requests(value: Any, some: slice, batch: int) -> Any:
    if isinstance(value, Drafts):
        return Drafts(value.tokens[some], value.draft_probs[some], value.target_probs[some])
    if isinstance(value, dict):
        return {name: _of_requests(one, some, batch) for name, one in value.items()}
    return value[some] if isinstance(value, np.ndarray) and len(value) == batch else value


def _cut(drafts: Drafts, length: int) -> Drafts:
    tokens, draft, target = arrays_of(drafts)
    return Drafts(tokens[:, :, :length], draft[:, :, :length], target[:, :, : length + 1])


def _cut_options(inputs: Mapping[str, Any], length: int) -> dict[str, Any]:
    options = inputs.get("options", {})
    cut = {name: np.minimum(array, length) for name, array in options.items() if name == "draft_lengths"}
    return {"options": {**options, **cut}} if cut else {}


def arrays_of(value: Any) -> list[Any]:
    """Return the arrays of an input."""
    if isinstance(value, Drafts):
        return [value.tokens, value.draft_probs, value.target_probs]
    return list(value.values()) if isinstance(value, dict) else [value] * isinstance(value, np.ndarray)
