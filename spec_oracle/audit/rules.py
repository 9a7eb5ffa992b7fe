"""Rules that verify drafts, by name: what is measured, and needs no audit."""

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.own_randomness import own_randomness
from spec_oracle.audit.rule import subject as rules
from spec_oracle.audit.rule.subject import TreeSubject, VerifierSubject
from spec_oracle.audit.subjects import resolve_subject
from spec_oracle.errors import InvalidInputError
from verifiers import AnyVerifier


def named_verifier(name: str) -> AnyVerifier:
    """Return the built-in verifier of that name, or the one that ``package.module:object`` is or makes.

    Raises `InvalidInputError` for a name that leads nowhere, or to something else.
    """
    found = named_rule(name)
    if not isinstance(found, VerifierSubject):
        raise InvalidInputError(f"verifier: {name!r} is a rule for draft trees, not for paths")
    return found.verifier


def named_rule(name: str) -> VerifierSubject | TreeSubject:
    """Return the same for rules of draft trees too, as a subject.

    Raises `InvalidInputError` also for a rule that draws random numbers by itself: it cannot be enumerated.
    """
    if ":" not in name and name not in rules.names():
        verifiers.get(name)
    found = resolve_subject(name)
    if not isinstance(found, VerifierSubject | TreeSubject):
        raise InvalidInputError(f"verifier: {name!r} has no verify(drafts, decisions)")
    if ":" in name and (fault := own_randomness(found, Context())):
        raise InvalidInputError(f"verifier: {name}: {fault}")
    return found
