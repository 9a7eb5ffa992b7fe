"""Optima and the certificates that prove them: data only; `spec_oracle.optimum.check` checks them."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeAlias, TypeVar

from spec_oracle.exact.drafting import Drafting
from spec_oracle.toy import Context
from verifiers import Siblings

C = TypeVar("C")
Paths: TypeAlias = tuple[Context, ...]


@dataclass(frozen=True)
class Optimum(Generic[C]):
    """What no lossless verifier exceeds and some verifier attains.

    ``value`` is in tokens (block efficiency): float, or `Fraction` when asked for with ``exact=True``.
    ``gap`` is how far the proven bound lies above it.
    """

    value: float | Fraction
    gap: Fraction
    certificate: C


@dataclass(frozen=True)
class SinglePathCertificate:
    """Proof of the best block efficiency with one draft path.

    ``budgets``: c(v) for every context of up to L tokens, which attain ``value``. ``bottlenecks``: for every
    v the prefix u of v (v itself included) that limits it: v is passed with mass at most
    p(v) q(u)/p(u); these limits sum to ``bound``.
    """

    value: Fraction
    bound: Fraction
    budgets: dict[Context, Fraction]
    bottlenecks: dict[Context, Context]


@dataclass(frozen=True)
class SelectionCertificate:
    """Proof of the best block efficiency over K independent paths.

    ``carry_over``: whether the verifier may modify the target of the rest of the block. ``budgets``: c(v) for
    every context of up to L tokens, which attain ``value``. ``law``: s of every path, the law of one path
    selected among the K; it reaches every v with p(v) c(v) at least. ``potentials``: mu(v), the sum of the
    multipliers of the node sets with v in them that limit the budgets; like any numbers they prove a bound,
    these prove ``bound``. `spec_oracle.optimum.check` explains both.
    """

    carry_over: bool
    value: Fraction
    bound: Fraction
    budgets: dict[Context, Fraction]
    potentials: dict[Context, Fraction]
    law: dict[Context, Fraction]


@dataclass(frozen=True)
class TransportCertificate:
    """Proof of the best block efficiency over the draft trees that ``drafting`` yields.

    As `SelectionCertificate`, but what serves the budgets are ``stops``: for every draft tree, named by the
    distinct paths to its leaves in lexicographic order, the mass that stops at each of its nodes.
    """

    carry_over: bool
    value: Fraction
    bound: Fraction
    budgets: dict[Context, Fraction]
    potentials: dict[Context, Fraction]
    drafting: Siblings | Drafting
    stops: dict[Paths, dict[Context, Fraction]]


Certificate: TypeAlias = SelectionCertificate | TransportCertificate
"""What proves an optimum over K paths."""
