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

_FEW = 8


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
        rows = list(found)
        for some in (rows[:_FEW], rows[_FEW:]):  # most rules differ soon
            candidates = [name for name in candidates if _fits(name, instance, found, some, tolerance)]
    return candidates[0] if candidates else None


def _fits(
    name: str, instance: Instance, found: Mapping[int, ConditionalLaw], rows: list[int], tolerance: float
) -> bool:
    """Whether a rule has the laws that were found after the drafts of some rows."""
    if not rows:
        return True
    drafts = draft_table(instance, drafting_of(verifiers.get(name))).drafts(np.array(rows))
    expected = conditional_laws(verifiers.get(name), drafts)
    return all(found[row].distance(law) <= tolerance for row, law in zip(rows, expected, strict=True))
