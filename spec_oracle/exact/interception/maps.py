"""Strictly monotone functions of one uniform number, as chains of three elementary steps.

A chain is a tuple of steps, applied from left to right to u in (0, 1). Affine maps, logarithm and
exponential are enough: 1/y is exp(-log y), y**s is exp(s log y), log1p and expm1 are a step each with an
affine one. Chains are kept in a normal form, so that equal functions built in different ways mostly have
equal chains, and so that exponential and Gumbel noise can be recognised (`gumbel_form`).
"""

import math
from typing import NamedTuple, TypeAlias


class Affine(NamedTuple):
    """The step y -> offset + slope * y, with slope not zero."""

    offset: float
    slope: float


class Log(NamedTuple):
    """The step y -> log y."""


class Exp(NamedTuple):
    """The step y -> exp y."""


Step: TypeAlias = Affine | Log | Exp
Chain: TypeAlias = tuple[Step, ...]

IDENTITY: Chain = ()
_NEGATION = Affine(0.0, -1.0)
_COMPLEMENT = Affine(1.0, -1.0)


def affine(chain: Chain, offset: float, slope: float) -> Chain:
    """Return ``offset + slope * chain``; the slope must not be zero."""
    if chain and isinstance(chain[-1], Affine):
        offset, slope = offset + slope * chain[-1].offset, slope * chain[-1].slope
        chain = chain[:-1]
    return chain if (offset, slope) == (0.0, 1.0) else (*chain, Affine(offset, slope))


def log(chain: Chain) -> Chain:
    """Take the logarithm; that of d y becomes log y plus a constant, that of an exponential is undone."""
    last = chain[-1] if chain else None
    if isinstance(last, Exp):
        return chain[:-1]
    if isinstance(last, Affine) and last.offset == 0 and last != _NEGATION:
        inner = chain[:-1] if last.slope > 0 else (*chain[:-1], _NEGATION)
        return affine(log(inner), math.log(abs(last.slope)), 1.0)
    return (*chain, Log())


def exp(chain: Chain) -> Chain:
    """Take the exponential; that of a logarithm plus a constant becomes a multiple."""
    if chain and isinstance(chain[-1], Log):
        return chain[:-1]
    match chain[-2:]:
        case (Log(), Affine(offset, 1.0)):
            return affine(chain[:-2], 0.0, math.exp(offset))
    return (*chain, Exp())


def negation(chain: Chain) -> Chain:
    """Return -chain."""
    return affine(chain, 0.0, -1.0)


def power(chain: Chain, exponent: float) -> Chain:
    """Return chain ** exponent for a positive function and an exponent other than zero."""
    return exp(affine(log(chain), 0.0, exponent))


def value_at(chain: Chain, uniform: float) -> float:
    """Return the chain's value, with limits at the ends of the domain."""
    value = uniform
    for step in chain:
        match step:
            case Affine(offset, slope):
                value = offset + slope * value
            case Log():
                value = math.log(value) if value > 0 else -math.inf
            case Exp():
                value = _exp(value)
    return value


def threshold(chain: Chain, bound: float) -> tuple[float, bool]:
    """Return t and whether the chain increases: it is below ``bound`` iff u < t (u > t if it falls).

    t may lie outside [0, 1], or be infinite: then the comparison has one outcome on the whole domain.
    """
    increasing = True
    for step in reversed(chain):
        match step:
            case Affine(offset, slope):
                bound = (bound - offset) / slope
                increasing ^= slope < 0
            case Log():
                bound = _exp(bound)
            case Exp():
                bound = math.log(bound) if bound > 0 else -math.inf
    return bound, increasing


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


class GumbelForm(NamedTuple):
    """A noise as sign * g(location + scale * log E), E standard exponential; g is exp or the identity."""

    exponentiated: bool
    sign: int
    location: float
    scale: float


def gumbel_form(chain: Chain) -> GumbelForm | None:
    """Return the form of a chain built from a standard exponential E = -log u or -log(1 - u), else None."""
    if chain[:1] == (_COMPLEMENT,):
        chain = chain[1:]
    match chain:
        case (Log(),):  # -E
            return GumbelForm(exponentiated=True, sign=-1, location=0.0, scale=1.0)
        case (Log(), Affine(0.0, slope)):  # -slope * E
            return GumbelForm(True, 1 if slope < 0 else -1, math.log(abs(slope)), 1.0)
        case (Log(), Affine(0.0, -1.0), Log(), *rest):
            return _form_of_log_exponential(tuple(rest))
    return None


def _form_of_log_exponential(rest: Chain) -> GumbelForm | None:
    location, scale = 0.0, 1.0
    if rest and isinstance(rest[0], Affine):
        (location, scale), rest = rest[0], rest[1:]
    match rest:
        case ():
            return GumbelForm(False, 1, location, scale)
        case (Exp(),):
            return GumbelForm(True, 1, location, scale)
        case (Exp(), Affine(0.0, slope)):
            return GumbelForm(True, 1 if slope > 0 else -1, location + math.log(abs(slope)), scale)
    return None
