"""What a sampler may return, and what is said of one that does not keep the contract."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.errors import SpecOracleError
from verifiers import Drafts

SamplerFunction: TypeAlias = Callable[[Any, Any, Any, Any], tuple[Any, Any]]
"""(draft_tokens, draft_probs, target_probs, generator) -> (tokens, num_accepted)."""


class ContractError(SpecOracleError):
    """Code under test returned what cannot be emitted tokens."""


class SubjectRaisedError(SpecOracleError):
    """The code under test raised an exception on valid input."""


@dataclass(frozen=True)
class Emissions:
    """Checked emitted tokens: ``tokens`` int [B, L+1] padded with -1, ``lengths`` int [B] in tokens."""

    tokens: NDArray[np.int64]
    lengths: NDArray[np.int64]


def checked_emissions(returned: Any, drafts: Drafts) -> Emissions:
    """Return what a sampler returned as emitted tokens, with form, lengths, ids and padding checked.

    Raises `ContractError`, which says what was returned, and what must be.
    """
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        must = "it must return (tokens [B, L+1], num_accepted [B])"
        raise ContractError(f"verify returned {_described(returned)}; {must}")
    tokens, accepted = (
        _integers(name, value) for name, value in zip(("tokens", "num_accepted"), returned, strict=True)
    )
    batch, width = drafts.batch, drafts.draft_length + 1
    if tokens.shape != (batch, width):
        raise ContractError(f"tokens: shape {tokens.shape}, expected [B, L+1] = {(batch, width)}")
    if accepted.shape != (batch,):
        raise ContractError(f"num_accepted: shape {accepted.shape}, expected [B] = {(batch,)}")
    lengths = accepted + 1
    emitted = np.arange(width) < lengths[:, None]
    outside = emitted & ((tokens < 0) | (tokens >= drafts.vocab_size))
    _require(f"num_accepted must be from 0 to {width - 1}", (lengths < 1) | (lengths > width), accepted)
    _require(f"tokens must be ids from 0 to {drafts.vocab_size - 1}", outside, tokens)
    _require("pad with -1 after the last emitted token", ~emitted & (tokens != -1), tokens)
    return Emissions(tokens, lengths)


def _integers(name: str, value: Any) -> NDArray[np.int64]:
    """Return what was returned as integers; numbers of any type will do, as long as they are whole."""
    try:
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        whole: NDArray[np.int64] = array.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        raise ContractError(f"{name}: expected an array of integers, got {_described(value)}") from None
    if not np.array_equal(whole, array):
        raise ContractError(f"{name}: expected whole numbers, got {_described(value)}")
    return whole


def _described(value: Any) -> str:
    text = repr(value)
    return (
        "None" if value is None else f"{type(value).__name__} {text[:77] + '...' if len(text) > 80 else text}"
    )


def _require(what: str, wrong: NDArray[np.bool_], values: NDArray[Any]) -> None:
    if wrong.any():
        index = np.argwhere(wrong)[0].tolist()
        raise ContractError(f"{what}; found {values[tuple(index)]} at {index}")
