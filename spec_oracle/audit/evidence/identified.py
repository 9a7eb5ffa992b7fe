"""Which built-in rule a function is: the one that emits with the same law after every draft.

Losslessness does not fix what is emitted after one draft; a rule does. Where code and rule agree after every
draft of the panel, the rule says what to expect after any other draft, one by one.
"""

from collections.abc import Iterable, Mapping

import numpy as np

import verifiers
from spec_oracle.audit.draws import draft_table
from spec_oracle.exact.conditional import ConditionalLaw, conditional_laws
from spec_oracle.toy import Instance
from verifiers import Drafting, ModelBound, StatefulVerifier, drafting_of


def rules(drafting: Drafting) -> tuple[str, ...]:
    """Return the built-in verifiers that want drafts drawn so, and whose calls stand for themselves."""
    return tuple(
        name
        for name in verifiers.names()
        if drafting_of(verifiers.get(name)) is drafting
        and not isinstance(verifiers.get(name), StatefulVerifier | ModelBound)
    )


def identified(
    laws: Iterable[tuple[Instance, Mapping[int, ConditionalLaw]]], drafting: Drafting, tolerance: float
) -> str | None:
    """Return the first rule with the same law after every draft, None where there is none.

    ``laws`` by instance: the law after each draft by its row in the instance's `draft_table`.
    """
    candidates = list(rules(drafting))
    for instance, found in laws:
        if not candidates:
            break
        rows = np.array(list(found))
        drafts = draft_table(instance, drafting).drafts(rows)
        candidates = [
            name
            for name in candidates
            if all(
                found[int(row)].distance(expected) <= tolerance
                for row, expected in zip(rows, conditional_laws(verifiers.get(name), drafts), strict=True)
            )
        ]
    return candidates[0] if candidates else None
