"""The best block efficiency with one draft path and over K, without and with carry-over.

In rationals, or, of instances too large for these, in floats and bounded by weak duality: HiGHS proposes
potentials mu. Whatever they are, they prove a bound, which is computed here from the instance and mu alone
(`certificates`); so the solver's tolerances can make the bound loose, never wrong. Rounding in float64 is all
that separates it from a proof: below `ROUNDING` tokens at the sizes that fit here.
"""

from dataclasses import dataclass

import numpy as np

from spec_oracle.arrays import Floats, Integers, Numbers
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact.arithmetic import to_fraction
from spec_oracle.exact.drafting import Drafting
from spec_oracle.optimum.certificates import (
    Certificate,
    Optimum,
    SelectionCertificate,
    TransportCertificate,
    check_certificate,
)
from spec_oracle.optimum.cutting_planes import AGREEMENT, Drafted, best_budgets, drafts_of, float_optimum
from spec_oracle.optimum.drafts import IndependentPaths, PrefixTree
from spec_oracle.toy import Instance
from spec_oracle.validation import require_instance_of
from verifiers import Siblings

ROUNDING = 1e-10
"""Tokens by which float64 may round a proven bound."""


def single_path_optimum(instance: Instance, *, exact: bool = False) -> Optimum:
    """Return the largest block efficiency, in tokens, of any lossless verifier that looks at one path.

    c(v) = min(c(parent), q(v)/p(v)) with joint probabilities p, q (docs/theory.md, "Budgets and the
    optimum"; attained by block verification, Sun et al., arXiv 2403.10444). A context that the target never
    reaches keeps its parent's budget. ``exact`` makes ``value`` a `Fraction`; the certificate always is in
    rationals, the gap 0. Raises `InvalidInputError` for what is no instance, and for one beyond memory, as
    the other optima do.

    >>> toy = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)
    >>> single_path_optimum(toy, exact=True).value
    Fraction(20, 9)
    """
    numbers = require_instance_of(instance, "instance", Instance).exact
    prefixes = PrefixTree(numbers.vocab_size, numbers.draft_length)
    target, draft = prefixes.joint(numbers.target), prefixes.joint(numbers.draft)
    budgets = np.full_like(target, target[0])
    bottleneck = np.zeros_like(prefixes.parent)
    for node, above in enumerate(prefixes.parent):
        if draft[node] < budgets[above] * target[node]:
            budgets[node], bottleneck[node] = draft[node] / target[node], node
        else:
            budgets[node], bottleneck[node] = budgets[above], bottleneck[above]
    # Each v is passed with mass p(v) q(u)/p(u) at most, u its bottleneck: u has as multiplier all p(v)/p(u).
    limited = np.zeros_like(target)
    np.add.at(limited, bottleneck, target)
    potentials = np.zeros_like(target)
    for node, above in enumerate(prefixes.parent[1:], start=1):
        potentials[node] = potentials[above] + (limited[node] / target[node] if limited[node] else 0)
    value, law = to_fraction(target @ budgets), prefixes.by_path(draft[prefixes.starts[-2] :])
    tables = prefixes.table(budgets), prefixes.table(potentials)
    return _proven(SelectionCertificate(False, value, value, *tables, 1, law), exact=exact)


def _proven(certificate: Certificate, *, exact: bool) -> Optimum:
    return Optimum(certificate.value if exact else float(certificate.value), certificate)


def multi_path_optimum(
    instance: Instance, *, drafting: Siblings | Drafting = Siblings.INDEPENDENT, exact: bool = False
) -> Optimum:
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


def tree_optimum(instance: Instance, drafting: Drafting, *, exact: bool = False) -> Optimum:
    """Return the largest block efficiency, in tokens, of any lossless verifier of trees of ``drafting``.

    The program of `multi_path_optimum` over any law of draft trees, which need not be sampled: what is
    accepted must be on the tree. For one tree without randomness it is Σ p(v) over its nodes, the root
    included (docs/theory.md, "Trees"). ``instance.num_paths`` means nothing here. Errors as there.

    >>> from spec_oracle.exact.drafting import LikeliestNodes
    >>> toy = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)
    >>> tree_optimum(toy, LikeliestNodes(2), exact=True).value  # the tree 0, 00: 1 + 1/3 + 1/9
    Fraction(13, 9)
    """
    return multi_path_optimum(instance, drafting=drafting, exact=exact)


def block_transport_optimum(
    instance: Instance, *, drafting: Siblings | Drafting = Siblings.INDEPENDENT, exact: bool = False
) -> Optimum:
    """Return the largest block efficiency, in tokens, of a verifier that may carry over a modified target.

    A verifier that may modify the target of the rest of the block has budgets c(v) <= 1 that need not fall
    along a path (docs/theory.md, "Carry-over"); all else as in `multi_path_optimum`.
    """
    return _optimum(instance, drafting, carry_over=True, exact=exact)


def _optimum(instance: Instance, drafting: Siblings | Drafting, *, carry_over: bool, exact: bool) -> Optimum:
    numbers = require_instance_of(instance, "instance", Instance).exact
    target, ceiling, drafts = _program(numbers, drafting, carry_over=carry_over)
    prefixes, best = drafts.prefixes, best_budgets(target, ceiling, drafts)
    # By strong duality the potentials prove just this value; the checker finds out for itself.
    value = to_fraction(target @ best.budgets)
    proof = carry_over, value, value
    potentials = prefixes.table(best.potentials)
    if isinstance(drafts, IndependentPaths):
        # Served masses may exceed those asked for where these are of no value; no stop mass is negative then.
        budgets = prefixes.table(drafts.budgets_under(best.served, target, ceiling))
        served = numbers.num_paths, prefixes.by_path(best.served)
        return _proven(SelectionCertificate(*proof, budgets, potentials, *served), exact=exact)
    stops = {
        paths: {prefixes.contexts[node]: mass for node, mass in zip(nodes, masses, strict=True) if mass}
        for paths, nodes, masses in zip(drafts.paths, drafts.nodes, best.served, strict=True)
    }
    budgets = prefixes.table(best.budgets)
    return _proven(TransportCertificate(*proof, budgets, potentials, drafting, stops), exact=exact)


def _program(
    numbers: Instance, drafting: Siblings | Drafting, *, carry_over: bool
) -> tuple[Numbers, Integers, Drafted]:
    """Return target [N], ceiling int [N] and drafts, the arguments of `cutting_planes.best_budgets`."""
    drafts = drafts_of(numbers, drafting)
    prefixes = drafts.prefixes
    ceiling = np.zeros_like(prefixes.parent) if carry_over else prefixes.parent
    return prefixes.joint(numbers.target), ceiling, drafts


def checked_optima(
    instance: Instance, *, drafting: Siblings | Drafting = Siblings.INDEPENDENT, exact: bool = False
) -> dict[str, Optimum]:
    """Return the optima by name, the one of a single path for a path from q.

    Raises `CertificateError` if a certificate fails.
    """
    found = {
        "single_path": single_path_optimum(instance, exact=exact),
        "multi_path": multi_path_optimum(instance, drafting=drafting, exact=exact),
        "block_transport": block_transport_optimum(instance, drafting=drafting, exact=exact),
    }
    for optimum in found.values():
        check_certificate(instance, optimum.certificate)
    return found


@dataclass(frozen=True)
class ProvenBound:
    """``bound``: tokens per call that no lossless verifier exceeds; ``attained``: what the solver reaches."""

    bound: float
    attained: float

    @property
    def gap(self) -> float:
        """How far the bound may lie above the optimum, in tokens; the solver's tolerances are part of it."""
        return self.bound - self.attained


def proven_bound(
    instance: Instance,
    *,
    drafting: Siblings = Siblings.INDEPENDENT,
    carry_over: bool = False,
    gap: float = AGREEMENT,
) -> ProvenBound:
    """Bound the block efficiency of any lossless verifier of ``instance``, in tokens, in float64.

    The same two programs as `multi_path_optimum` and, with ``carry_over``, `block_transport_optimum`. Over
    independent paths the search ends where bound and attained are within ``gap`` tokens. Raises
    `SpecOracleError` where HiGHS finds no optimum and `InvalidInputError` past the limit on contexts or draft
    tuples.
    """
    numbers = require_instance_of(instance, "instance", Instance).floats
    masses, ceiling, drafts = _program(numbers, drafting, carry_over=carry_over)
    target = masses.astype(np.float64)
    best = float_optimum(target, ceiling, drafts, gap)
    if best is None:
        raise SpecOracleError("optimum: HiGHS found no solution of a program that has one")
    bound = potential_bound(target, ceiling, drafts, best.potentials)
    return ProvenBound(bound, float(target @ best.budgets))


def potential_bound(target: Floats, ceiling: Integers, drafts: Drafted, potentials: Floats) -> float:
    """Return the bound that ``potentials`` [N] prove (docs/theory.md, "Budgets and the optimum").

    Arguments as in `cutting_planes.best_budgets`.
    """
    gain = target * (1 - potentials + potentials[drafts.prefixes.parent])
    gain[0] -= target[0] * potentials[0]  # the root has no parent term
    for node in range(len(gain) - 1, 0, -1):
        gain[ceiling[node]] += max(gain[node], 0.0)
    return drafts.expected_highest(potentials) + float(gain[0])
