"""What code of the plain contract may return, and what is said of code that does not keep it."""

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
    """Code under test returned what cannot be an emission."""


class SubjectRaisedError(SpecOracleError):
    """The code under test raised an exception on valid input."""


@dataclass(frozen=True)
class Emissions:
    """Checked emissions: ``tokens`` int [B, L+1] padded with -1, ``lengths`` int [B] in tokens."""

    tokens: NDArray[np.int64]
    lengths: NDArray[np.int64]


def checked_emissions(returned: Any, drafts: Drafts) -> Emissions:
    """Return the emissions if they can be some: a pair, shapes, lengths, token range and padding."""
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise ContractError(f"result: expected (tokens, num_accepted), got {_described(returned)}")
    tokens, accepted = (
        _integers(name, value) for name, value in zip(("tokens", "num_accepted"), returned, strict=True)
    )
    batch, width = drafts.batch, drafts.draft_length + 1
    if tokens.shape != (batch, width):
        raise ContractError(f"tokens: shape {tokens.shape}, expected {(batch, width)}")
    if accepted.shape != (batch,):
        raise ContractError(f"num_accepted: shape {accepted.shape}, expected {(batch,)}")
    lengths = accepted + 1
    emitted = np.arange(width) < lengths[:, None]
    _first_wrong("num_accepted", (lengths < 1) | (lengths > width), accepted)
    outside = emitted & ((tokens < 0) | (tokens >= drafts.vocab_size))
    _first_wrong("tokens", outside, tokens)
    _first_wrong("tokens after the emission", ~emitted & (tokens != -1), tokens)
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
    return f"{type(value).__name__} {text[:77] + '...' if len(text) > 80 else text}"


def _first_wrong(name: str, wrong: NDArray[np.bool_], values: NDArray[Any]) -> None:
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ContractError(f"{name}: {values[index]} at index {index} cannot be part of an emission")
