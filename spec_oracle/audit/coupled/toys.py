"""The toy instances on which coupled rules are sampled: those of all audits, and one for shared noise."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from spec_oracle.audit.context import Context
from spec_oracle.audit.panel import instances_for, panel
from spec_oracle.toy import Instance

SHIFTED: Final = "shifted"
"""p = (2/3, 1/3, 0, ...) and q = (1/3, 0, 2/3, ...) everywhere: of three tokens the draft is refused with
probability 2/3, and the race of the two that are left depends most on the noise that drafted."""

CHOSEN: Final = (SHIFTED, "flat", "good-draft", "reversed", "zeros")
"""The instances that show most defects of coupled rules; the panel's main ones show no noise that is shared
by draft and correction, since one token is left there."""


def all_instances(context: Context, num_paths: int) -> Mapping[str, Instance]:
    """Return the user's instances, or those of the audit with the one for shared noise."""
    found = instances_for(context, num_paths)
    if context.instances is not None:
        return found
    return {**found, **_shifted(context.vocab_size, context.draft_length, num_paths)}


def chosen_instances(vocab: int, length: int, paths: int, seed: int) -> list[Instance]:
    """Return those of `CHOSEN` that there are for a vocabulary."""
    toys = {**panel(vocab, length, paths, seed), **_shifted(vocab, length, paths)}
    return [toys[name] for name in CHOSEN if name in toys]


def _shifted(vocab: int, length: int, paths: int) -> dict[str, Instance]:
    if vocab < 3:
        return {}
    one, two, none = Fraction(1, 3), Fraction(2, 3), Fraction(0)
    rest = [none] * (vocab - 3)
    target, draft = [two, one, none, *rest], [one, none, two, *rest]
    return {SHIFTED: Instance.context_free(target, draft, draft_length=length, num_paths=paths)}
