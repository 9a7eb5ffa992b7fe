"""Emission laws of rules by name, draft tree by draft tree, and whether two laws are the same."""

import verifiers
from spec_oracle.exact import emission_law


def law(name, instance, drafting=None, **options):
    """Return the law of a built-in rule without merged branches; arguments as of `emission_law`."""
    return emission_law(verifiers.get(name), instance, drafting=drafting, merged=False, **options)


def require_same_law(one, other, *, tolerance=0):
    """Assert that two laws have the same masses."""
    for mine, theirs in zip(one.masses, other.masses, strict=True):
        assert (abs(mine - theirs) <= tolerance).all()
