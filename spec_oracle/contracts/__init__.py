"""What foreign code must keep: the contracts of samplers, engines and servers, and how such code is called.

The sampler contract:

    verify(draft_tokens, draft_probs, target_probs, generator) -> (tokens, num_accepted)

One path: shapes [B, L], [B, L, V], [B, L+1, V]; several: a K axis after B. ``tokens`` int [B, L+1], the
accepted prefix and one more token, padded with -1; ``num_accepted`` int [B]. Arrays are numpy, or torch
tensors; the generator is of the same library, and using the global one instead is allowed. A function whose
fourth parameter is called ``uniforms`` gets numbers from [0, 1) in its place, [B, L+1]. An object or a
class whose ``verify`` takes four arguments is a sampler as well.

A tree sampler takes ``tokens`` and ``parents`` int [B, N] for the drafted tokens, and rows [B, N+1, V],
as `verifiers.Drafts.of_tree` does; its attribute ``accepts`` names the laws of siblings that it is made for.
"""

from spec_oracle.contracts.sampler import (
    Emissions,
    SamplerCode,
    SamplerFunction,
    as_sampler,
    checked_emissions,
    contract_arguments,
    drawing_uniforms,
    make_generator,
)
from spec_oracle.errors import ContractError, ImpossibleOutputError, SubjectRaisedError
from spec_oracle.threads import raising

__all__ = [
    "ContractError",
    "Emissions",
    "ImpossibleOutputError",
    "SamplerCode",
    "SamplerFunction",
    "SubjectRaisedError",
    "as_sampler",
    "checked_emissions",
    "contract_arguments",
    "drawing_uniforms",
    "make_generator",
    "raising",
]
