"""The best block efficiency over K draft paths, without and with carry-over."""

import numpy as np

from spec_oracle.exact.rationals import to_fraction, to_fractions
from spec_oracle.optimum.certificates import (
    Certificate,
    Optimum,
    SelectionCertificate,
    TransportCertificate,
)
from spec_oracle.optimum.cutting_planes import best_budgets
from spec_oracle.optimum.drafts import drafts_of
from spec_oracle.optimum.paths import IndependentPaths
from spec_oracle.toy import Instance
from spec_oracle.validation import require_instance_of
from verifiers import Drafting


def multi_path_optimum(
    instance: Instance, *, drafting: Drafting = Drafting.INDEPENDENT, exact: bool = False
) -> Optimum[Certificate]:
    """Return the largest block efficiency, in tokens, of any lossless verifier of ``instance``.

    Budgets fall along every path, c(vx) <= c(v) (Thomas & Pal, arXiv 2602.16961, theorem 3.3), and what is
    accepted must have been drafted. For independent paths that is a program over laws of one selected path:
    V^L numbers, whatever K is (docs/theory.md, "Budgets and the optimum"). For other laws of ``drafting`` all
    draft trees are enumerated. Either is solved in rationals, so the gap is 0; ``exact`` only says whether
    ``value`` is a float or a `Fraction`. Raises `InvalidInputError` for instances with too many contexts or
    draft trees.

    >>> toy = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=1, num_paths=2)
    >>> multi_path_optimum(toy, exact=True).value
    Fraction(17, 9)
    """
    return _optimum(instance, drafting, carry_over=False, exact=exact)


def block_transport_optimum(
    instance: Instance, *, drafting: Drafting = Drafting.INDEPENDENT, exact: bool = False
) -> Optimum[Certificate]:
    """Return the largest block efficiency, in tokens, of a verifier that may carry over a modified target.

    A verifier that may modify the target of the rest of the block has budgets c(v) <= 1 that need not fall
    along a path (docs/theory.md, "Carry-over"); all else as in `multi_path_optimum`.
    """
    return _optimum(instance, drafting, carry_over=True, exact=exact)


def _optimum(
    instance: Instance, drafting: Drafting, *, carry_over: bool, exact: bool
) -> Optimum[Certificate]:
    numbers = require_instance_of(instance, "instance", Instance).exact
    drafts = drafts_of(numbers, drafting)
    prefixes = drafts.prefixes
    target = prefixes.joint(numbers.target)
    ceiling = np.zeros_like(prefixes.parent) if carry_over else prefixes.parent
    best = best_budgets(target, ceiling, drafts)
    # By strong duality the potentials prove just this value; the checker finds out for itself.
    value = to_fraction(target @ best.budgets)
    potentials = prefixes.table(best.potentials)
    certificate: Certificate
    if isinstance(drafts, IndependentPaths):
        # Served masses may exceed those asked for where these are of no value; no stop mass is negative then.
        budgets = prefixes.table(drafts.budgets_under(best.served, target, ceiling))
        paths = prefixes.contexts[prefixes.starts[-2] :]
        law = dict(zip(paths, to_fractions(best.served), strict=True))
        certificate = SelectionCertificate(carry_over, value, value, budgets, potentials, law)
    else:
        stops = {
            paths: {prefixes.contexts[node]: mass for node, mass in zip(nodes, masses, strict=True) if mass}
            for paths, nodes, masses in zip(drafts.paths, drafts.nodes, best.served, strict=True)
        }
        budgets = prefixes.table(best.budgets)
        certificate = TransportCertificate(carry_over, value, value, budgets, potentials, drafting, stops)
    return Optimum(value if exact else float(value), certificate.bound - certificate.value, certificate)
