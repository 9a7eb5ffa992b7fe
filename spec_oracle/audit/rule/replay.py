"""Calls of a rule whose every decision is given: by uniforms, so that two calls can be compared."""

from typing import Final

import numpy as np

from spec_oracle.arrays import Floats, Integers
from spec_oracle.contracts import ContractError, SubjectRaisedError, raising
from spec_oracle.exact import VerdictError
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.call import (
    call_verifier,
    checked_next_token,
    checked_node,
    converted,
    fresh_state,
)
from spec_oracle.places import raised_at
from verifiers import AnyVerifier, Drafts, replayed_decisions

UNIFORMS: Final = 1024
"""Uniforms of a request: more than any takes."""


def verdicts(rule: AnyVerifier, array: str, drafts: Drafts, uniforms: Floats) -> Integers:
    """Return (last accepted place, next token) of every request, int [B, 2], decided by its ``uniforms``.

    ``drafts`` are of numpy, and are converted to the library ``array``. Raises `ContractError` where the rule
    returns no verdict, `SubjectRaisedError` where it raises.
    """
    chosen = arithmetic(array=array)
    drafts = converted(drafts, chosen)
    try:
        with raising():
            state = fresh_state(rule, drafts.batch)
            decisions = replayed_decisions(chosen.from_numpy(uniforms))
            verdict, _ = call_verifier(rule, drafts, decisions, state)
            node = checked_node(verdict, drafts, chosen)
            return np.stack([node, checked_next_token(verdict, drafts, chosen)], axis=1)
    except ContractError as error:
        place = raised_at(error)
        raise ContractError(f"{error}{f' (at {place})' * bool(place)}") from None
    except VerdictError as error:
        if error.__cause__ is not None:  # what the rule raised
            raise SubjectRaisedError(str(error)) from error.__cause__
        raise ContractError(str(error)) from None
