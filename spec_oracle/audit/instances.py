"""The instances an audit tries: few tokens, and every family of rows that hides or shows defects."""

from collections.abc import Collection, Mapping
from functools import cache

from spec_oracle.audit.context import Context
from spec_oracle.toy import Instance

DENOMINATOR = 64
"""Probabilities are multiples of 1/64: equal in floats and rationals, and short to print."""

_PANEL = (
    ("flat", "dirichlet", 2.0, 0.0),
    ("good-draft", "dirichlet", 1.0, 0.6),
    ("peaked", "dirichlet", 0.4, 0.0),
    ("reversed", "reversed", 1.0, 0.0),
    ("zeros", "sparse", 1.0, 0.2),
    ("point-mass", "point-mass", 1.0, 0.0),
    ("disjoint", "disjoint", 1.0, 0.0),
    ("equal", "equal", 1.0, 0.0),
)


def instances_for(context: Context, num_paths: int) -> Mapping[str, Instance]:
    """Return the instances on which the law of one call is found: the user's, or the audit's own."""
    if context.inputs.instances is not None:
        return context.inputs.instances
    return panel(context.inputs.vocab_size, context.inputs.draft_length, num_paths, context.seed)


@cache
def panel(vocab_size: int, draft_length: int, num_paths: int, seed: int) -> Mapping[str, Instance]:
    """Return the audit's instances by name, other rows after every context, in rationals."""
    # Cached: the same objects for every subject, so that what is computed on them is computed once.
    instances = {}
    for position, (name, kind, concentration, agreement) in enumerate(_PANEL):
        drawn = Instance.random(
            vocab_size,
            draft_length,
            num_paths=num_paths,
            seed=seed * len(_PANEL) + position,
            kind=kind,
            concentration=concentration,
            agreement=agreement,
        )
        instances[name] = drawn.rounded(DENOMINATOR)
    return instances


def main_instances(names: Collection[str]) -> list[str]:
    """Return the names of the instances that detect most; all names where none of those is among them."""
    return [name for name in ("good-draft", "reversed") if name in names] or list(names)
