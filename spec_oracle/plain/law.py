"""The exact law of one verification under the plain contract, by interception."""

import math
from typing import Any

from spec_oracle.exact.interception import EnumeratedGenerator, call_law
from spec_oracle.plain.calls import PlainCode, plain_arguments, raising
from spec_oracle.plain.contract import checked_emissions
from verifiers import Drafts


def law_after(
    code: PlainCode, drafts: Drafts, *, max_branches: int = 100_000, max_seconds: float = math.inf
) -> dict[tuple[int, ...], float]:
    """Return the exact law of the emission after one request's drafts: probability by emitted tokens.

    The code sees a batch of one, and fresh copies of its inputs in every branch. Errors as
    `enumerate_calls`, `ContractError` for what is no emission, `SubjectRaisedError` when the code raises
    while its random numbers are followed.
    """
    arrays = plain_arguments(drafts)

    def call() -> Any:
        tokens, draft, target = map(code.handed, arrays)
        return code.function(tokens, draft, target, _generator(code))

    def emission(returned: Any) -> tuple[int, ...]:
        found = checked_emissions(returned, drafts)
        return tuple(int(token) for token in found.tokens[0, : found.lengths[0]])

    with raising():
        return call_law(call, emission, max_branches=max_branches, max_seconds=max_seconds)


def _generator(code: PlainCode) -> Any:
    """Return a generator of the library whose draws are enumerated."""
    if code.array == "numpy":
        return EnumeratedGenerator()
    import torch

    return torch.Generator()
