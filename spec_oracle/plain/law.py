"""The exact law of one verification under the plain contract, by interception."""

from typing import Any

from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.interception import EnumeratedGenerator, call_law
from spec_oracle.plain.calls import Handed, PlainCode, plain_arguments, raising
from spec_oracle.plain.contract import checked_emissions
from verifiers import Drafts


def law_after(
    code: PlainCode, drafts: Drafts, request: int = 0, *, max_branches: int = 100_000
) -> ConditionalLaw:
    """Return the exact law of the emission of one request of a batch, given the drafts of all.

    The code sees fresh copies of its inputs in every branch. Errors as `enumerate_calls`, `ContractError` for
    what is no emission, `SubjectRaisedError` when the code raises while its random numbers are followed.
    """
    inputs = [Handed(code, array) for array in plain_arguments(drafts)]

    def call() -> Any:
        randomness = EnumeratedGenerator() if code.array == "numpy" else None
        tokens, draft, target = (given.fresh() for given in inputs)
        return code.function(tokens, draft, target, randomness)

    def emission(returned: Any) -> tuple[int, ...]:
        found = checked_emissions(returned, drafts)
        return tuple(int(token) for token in found.tokens[request, : found.lengths[request]])

    with raising():
        law = call_law(call, emission, max_branches=max_branches)
    return ConditionalLaw.of_emissions(law, drafts.vocab_size)
