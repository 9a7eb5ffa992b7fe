"""The plain contract: how code that knows nothing of this project is called, and what it must return.

    verify(draft_tokens, draft_probs, target_probs, generator) -> (tokens, num_accepted)

One path: shapes [B, L], [B, L, V], [B, L+1, V]; several: a K axis after B. ``tokens`` int [B, L+1], the
accepted prefix and one more token, padded with -1; ``num_accepted`` int [B]. Arrays are numpy, or torch
tensors; the generator is of the same library, and using the global one instead is allowed.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.subjects import Subject
from spec_oracle.errors import InvalidInputError, SpecOracleError
from verifiers import AnyVerifier, Drafts, StatefulVerifier, numpy_decisions

NO_OPTIONS: Mapping[str, NDArray[Any]] = MappingProxyType({})


class ContractError(SpecOracleError):
    """A function of the plain contract returned what cannot be an emission."""


class SubjectRaisedError(SpecOracleError):
    """The code under test raised an exception on valid input."""


@dataclass(frozen=True)
class Emissions:
    """Checked emissions: ``tokens`` int [B, L+1] padded with -1, ``lengths`` int [B] in tokens."""

    tokens: NDArray[np.int64]
    lengths: NDArray[np.int64]


def make_generator(array: str, seed: int) -> Any:
    """Return a generator of the array library, and seed the global ones, which the function may use.

    Every generator gets a seed of its own: code that uses two of them must not find them in step.
    """
    of_python, of_numpy, of_torch = (int(s) for s in np.random.SeedSequence(seed).generate_state(3))
    random.seed(of_python)
    np.random.seed(of_numpy)  # noqa: NPY002  # foreign code may use the legacy global generator
    if array == "torch":
        import torch

        torch.manual_seed(of_torch)
        return torch.Generator().manual_seed(seed)
    return np.random.default_rng(seed)


def call_plain(
    subject: Subject, drafts: Drafts, generator: Any, options: Mapping[str, NDArray[Any]] = NO_OPTIONS
) -> Emissions:
    """Call the subject's function on numpy drafts and check what it returns.

    ``options`` are keyword arguments beyond the contract (see `spec_oracle.audit.mixed_batch`).
    Raises `ContractError` for tokens or lengths that are no emission, `SubjectRaisedError` when the
    function itself raises.
    """
    if subject.function is None:
        raise InvalidInputError(f"subject: {subject.name} has no plain function")
    given = plain_arguments(drafts)
    tokens, draft, target = (to_library(array, subject.array, subject.dtype) for array in given)
    keywords = {name: to_library(array, subject.array) for name, array in options.items()}
    call = partial(subject.function, tokens, draft, target, generator, **keywords)
    return emissions_of(call, drafts, subject.name)


def plain_arguments(drafts: Drafts) -> tuple[NDArray[Any], ...]:
    """Return tokens, draft rows and target rows; a single path has no axis of paths."""
    arrays = (drafts.tokens, drafts.draft_probs, drafts.target_probs)
    return tuple(array[:, 0] for array in arrays) if drafts.num_paths == 1 else arrays


def emissions_of(call: Callable[[], tuple[Any, Any]], drafts: Drafts, name: str = "") -> Emissions:
    """Run code under test on ``drafts`` and check what it returns; ``name`` begins the message if it raises.

    Errors as `call_plain`.
    """
    try:
        tokens, accepted = call()
    except SpecOracleError:
        raise
    except Exception as error:
        raise SubjectRaisedError(f"{name} raised {type(error).__name__}: {error}".lstrip()) from error
    return checked_emissions(np.asarray(tokens), np.asarray(accepted), drafts)


def checked_emissions(tokens: NDArray[Any], accepted: NDArray[Any], drafts: Drafts) -> Emissions:
    """Return the emissions if they can be some: shapes, lengths, token range and padding."""
    batch, width = drafts.batch, drafts.draft_length + 1
    if tokens.shape != (batch, width):
        raise ContractError(f"tokens: shape {tokens.shape}, expected {(batch, width)}")
    if accepted.shape != (batch,):
        raise ContractError(f"num_accepted: shape {accepted.shape}, expected {(batch,)}")
    tokens, lengths = tokens.astype(np.int64), accepted.astype(np.int64) + 1
    position = np.arange(width)
    emitted = position < lengths[:, None]
    _first_wrong("num_accepted", (lengths < 1) | (lengths > width), accepted)
    outside = emitted & ((tokens < 0) | (tokens >= drafts.vocab_size))
    _first_wrong("tokens", outside, tokens)
    _first_wrong("tokens after the emission", ~emitted & (tokens != -1), tokens)
    return Emissions(tokens, lengths)


def _first_wrong(name: str, wrong: NDArray[np.bool_], values: NDArray[Any]) -> None:
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ContractError(f"{name}: {values[index]} at index {index} cannot be part of an emission")


def to_library(array: NDArray[Any], library: str, dtype: str = "float64") -> Any:
    """Return a copy of a numpy array for the library ("numpy" or "torch") that a subject works in.

    Floats become ``dtype``, a name that the library knows; integers stay as they are.
    """
    is_float = array.dtype.kind == "f"
    if is_float and array.ndim and array.strides[0] == 0:
        # One row that stands for all, as on large vocabularies: convert it once.
        one = to_library(array[:1].copy(), library, dtype)
        return one.expand(array.shape).clone() if library == "torch" else one.repeat(len(array), axis=0)
    if library == "torch":
        import torch

        tensor = torch.from_numpy(array.copy())
        return tensor.to(getattr(torch, dtype)) if is_float else tensor
    return array.astype(dtype) if is_float else array.copy()


def as_plain(verifier: AnyVerifier) -> Any:
    """Return a verifier as a function of the plain contract, sampling with the generator it is handed."""
    if isinstance(verifier, StatefulVerifier):
        raise InvalidInputError("verifier: one that carries a state does not fit the plain contract")

    def verify(tokens: Any, draft_probs: Any, target_probs: Any, generator: Any) -> tuple[Any, Any]:
        if tokens.ndim == 2:
            tokens, draft_probs, target_probs = tokens[:, None], draft_probs[:, None], target_probs[:, None]
        verdict = verifier.verify(Drafts(tokens, draft_probs, target_probs), numpy_decisions(generator))
        return verdict.emitted, verdict.num_accepted

    return verify
