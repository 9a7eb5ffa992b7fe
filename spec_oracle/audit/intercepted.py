"""Exact emission laws of plain functions, by interception of their randomness."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.draws import draft_table
from spec_oracle.audit.plain import ContractError, SubjectRaisedError, to_library
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.uniforms import PlainFunction
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.interception import verdict_law
from spec_oracle.toy import Instance

Known: TypeAlias = dict[tuple[bytes, ...], dict[tuple[int, ...], float]]
"""Laws of the emission after one draft, by the bytes of the arrays that the function is handed."""


def intercepted_law(subject: Subject, instance: Instance, known: Known | None = None) -> EmissionLaw:
    """Return the exact emission law of the subject's function on ``instance``, in float64.

    The function is run on one draft at a time, once per outcome of its random decisions. Laws found in
    ``known`` are not computed again, new ones are entered: instances that differ in one row, as in the search
    for a small counterexample, share most of them. Raises
    `CannotFollowError`, `TooManyBranchesError` or `UnrepeatableError` where the law would not be exact,
    `ContractError` for what is no emission, `SubjectRaisedError` when the function raises.
    """
    if subject.function is None:
        raise InvalidInputError(f"subject: {subject.name} has no plain function")
    floats = instance.floats
    table = draft_table(floats)
    drafts = table.drafts(np.arange(len(table.law.probability)))
    masses = [np.zeros(floats.vocab_size**length) for length in range(1, floats.draft_length + 2)]
    for row, probability in enumerate(table.law.probability):
        arrays = (drafts.tokens[row], drafts.draft_probs[row], drafts.target_probs[row])
        if floats.num_paths == 1:
            arrays = (arrays[0][0], arrays[1][0], arrays[2][0])
        key = tuple(repr(array.shape).encode() + array.tobytes() for array in arrays)
        law = None if known is None else known.get(key)
        if law is None:
            handed = tuple(to_library(array, subject.array, subject.dtype) for array in arrays)
            law = _law_after(subject.function, handed)
            if known is not None:
                known[key] = law
        _add_law(masses, law, probability)
    return EmissionLaw(floats, tuple(masses))


def _law_after(function: PlainFunction, arrays: tuple[Any, ...]) -> dict[tuple[int, ...], float]:
    """Return the law of the emission after one draft."""
    try:
        return verdict_law(function, *arrays)
    except InvalidInputError as error:
        raise ContractError(str(error)) from None
    except SpecOracleError:
        raise
    except Exception as error:
        raise SubjectRaisedError(f"raised {type(error).__name__}: {error}") from error


def _add_law(
    masses: list[NDArray[np.float64]], law: dict[tuple[int, ...], float], probability: float
) -> None:
    """Add the law of the emission after one draft, whose probability is given, to the masses."""
    vocab = len(masses[0])
    for emission, mass in law.items():
        if not 0 < len(emission) <= len(masses) or not all(0 <= token < vocab for token in emission):
            raise ContractError(f"tokens: {emission} cannot be an emission")
        masses[len(emission) - 1][np.ravel_multi_index(emission, (vocab,) * len(emission))] += (
            mass * probability
        )
