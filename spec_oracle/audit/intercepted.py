"""Exact emission laws of plain functions, by interception of their randomness."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.plain import ContractError, SubjectRaisedError, to_library
from spec_oracle.audit.subjects import PlainFunction, Subject
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.call import DraftTable
from spec_oracle.exact.interception import verdict_law
from spec_oracle.toy import Instance
from verifiers import Drafting


def intercepted_law(subject: Subject, instance: Instance) -> EmissionLaw:
    """Return the exact emission law of the subject's function on ``instance``, in float64.

    The function is run on one draft at a time, once per outcome of its random decisions. Raises
    `CannotFollowError`, `TooManyBranchesError` or `UnrepeatableError` where the law would not be exact,
    `ContractError` for what is no emission, `SubjectRaisedError` when the function raises.
    """
    if subject.function is None:
        raise InvalidInputError(f"subject: {subject.name} has no plain function")
    floats = instance.floats
    table = DraftTable(floats, Drafting.INDEPENDENT, arithmetic())
    drafts = table.drafts(np.arange(len(table.law.probability)))
    masses = [np.zeros(floats.vocab_size**length) for length in range(1, floats.draft_length + 2)]
    for row, probability in enumerate(table.law.probability):
        arrays = (drafts.tokens[row], drafts.draft_probs[row], drafts.target_probs[row])
        if floats.num_paths == 1:
            arrays = (arrays[0][0], arrays[1][0], arrays[2][0])
        _add_law(
            masses,
            subject.function,
            tuple(to_library(a, subject.array, subject.dtype) for a in arrays),
            probability,
        )
    return EmissionLaw(floats, tuple(masses))


def _add_law(
    masses: list[NDArray[np.float64]], function: PlainFunction, arrays: tuple[Any, ...], probability: float
) -> None:
    """Add the law of the emission after one draft, whose probability is given, to the masses."""
    try:
        law = verdict_law(function, *arrays)
    except InvalidInputError as error:
        raise ContractError(str(error)) from None
    except SpecOracleError:
        raise
    except Exception as error:
        raise SubjectRaisedError(f"raised {type(error).__name__}: {error}") from error
    vocab = len(masses[0])
    for emission, mass in law.items():
        if not 0 < len(emission) <= len(masses) or not all(0 <= token < vocab for token in emission):
            raise ContractError(f"tokens: {emission} cannot be an emission")
        masses[len(emission) - 1][np.ravel_multi_index(emission, (vocab,) * len(emission))] += (
            mass * probability
        )
