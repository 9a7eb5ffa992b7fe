"""Rules that verify drafts, by name: what is measured, and needs no audit."""

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.own_randomness import own_randomness
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.subjects import resolve_subject
from spec_oracle.errors import InvalidInputError
from verifiers import AnyVerifier


def named_verifier(name: str) -> AnyVerifier:
    """Return the built-in rule of that name, or the one that ``package.module:object`` is or makes.

    Raises `InvalidInputError` for a name that leads nowhere, or to something else, and for a rule that draws
    random numbers by itself: it cannot be enumerated.
    """
    if ":" not in name:
        return verifiers.get(name)
    found = resolve_subject(name)
    if not isinstance(found, RuleSubject):
        raise InvalidInputError(f"verifier: {name!r} has no verify(drafts, decisions)")
    if fault := own_randomness(found, Context()):
        raise InvalidInputError(f"verifier: {name}: {fault}")
    return found.rule
