"""Verifiers by name."""

from verifiers.block import BlockVerifier
from verifiers.errors import InvalidInputError
from verifiers.interface import Verifier
from verifiers.token import TokenVerifier

_REGISTRY: dict[str, Verifier] = {
    "token": TokenVerifier(),
    "block": BlockVerifier(),
}


def names() -> tuple[str, ...]:
    """Return the names of all verifiers, in the order in which reports list them."""
    return tuple(_REGISTRY)


def get(name: str) -> Verifier:
    """Return the verifier called ``name``; raises `InvalidInputError` for an unknown one."""
    try:
        return _REGISTRY[name]
    except KeyError:
        known = ", ".join(_REGISTRY)
        raise InvalidInputError(f"name: unknown verifier {name!r}; known ones are {known}") from None
